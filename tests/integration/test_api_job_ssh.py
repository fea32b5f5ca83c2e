"""Access to jobs of other users, private jobs, the archive, and deletion."""

from __future__ import annotations

from pathlib import Path

from openpai.lifecycle.model import AttemptKey

from .api_world import World, job_file
from .job_acts import LOOKS, QUOTE, TASK, TWO_ROLES, make_private, refused, submitted
from .sharing_world import open_sharing


async def test_who_shares_a_virtual_cluster_sees_its_jobs_but_not_their_logs(world: World) -> None:
    await submitted(world)
    for path in LOOKS:
        assert (await world.ask("GET", f"/jobs/ann~train{path}", "bob")).status_code == 200, path
    for path in ("/ssh", f"{TASK}/0/logs", f"{TASK}/0/logs/stdout"):
        assert await refused(world, "GET", f"/jobs/ann~train{path}", "bob") == (403, "ForbiddenUserError"), path


async def test_a_private_job_is_for_its_owner_and_administrators(world: World) -> None:
    await make_private(world, await submitted(world))
    for path in LOOKS:
        assert await refused(world, "GET", f"/jobs/ann~train{path}", "bob") == (403, "ForbiddenUserError"), path
        assert (await world.ask("GET", f"/jobs/ann~train{path}", "root")).status_code == 200, path
    [entry] = await world.get("/jobs", "bob")
    assert (entry["name"], entry["username"], entry["private"]) == ("train", "ann", True)


async def test_users_cannot_change_the_jobs_of_others(world: World) -> None:
    await submitted(world)
    commands: list[tuple[str, str, dict[str, str]]] = [
        ("PUT", "/executionType", {"value": "STOP"}),
        ("PUT", "/tag", {"value": "mine"}),
        ("DELETE", "/tag", {"value": "mine"}),
        ("PUT", "/archive", {}),
        ("DELETE", "/archive", {}),
        ("DELETE", "", {}),
    ]
    for method, path, body in commands:
        asked = await refused(world, method, f"/jobs/ann~train{path}", "bob", json=body)
        assert asked == (403, "ForbiddenUserError")
    assert (await world.get("/jobs/ann~train", "root"))["name"] == "train"
    assert (await world.get("/jobs/ann~train"))["jobStatus"]["executionType"] == "START"
    stopped = await world.ask("PUT", "/jobs/ann~train/executionType", "root", json={"value": "STOP"})
    assert stopped.status_code == 202


async def test_quotes_from_the_log_are_only_for_users_who_may_read_it(world: World) -> None:
    id_ = await submitted(world, TWO_ROLES.replace("jobRetryCount: 1", "jobRetryCount: 0"))
    await world.grant()
    await world.started(AttemptKey(id_, 0, "worker", 0, 0))
    await world.exited(AttemptKey(id_, 0, "worker", 0, 0), 1, QUOTE)
    for path in ("", "/attempts/0", "/job-attempts", "/job-attempts/0", TASK):
        message = {who: (await world.ask("GET", f"/jobs/ann~train{path}", who)).text for who in ("ann", "bob", "root")}
        assert "hunter2" in message["ann"], path
        assert "hunter2" in message["root"], path
        assert "hunter2" not in message["bob"], path
    status = (await world.get("/jobs/ann~train", "bob"))["jobStatus"]
    assert status["appExitSpec"]["phrase"] == (await world.get("/jobs/ann~train"))["jobStatus"]["appExitSpec"]["phrase"]


async def test_a_file_says_that_its_job_is_private(world: World) -> None:
    assert (
        await world.ask("POST", "/jobs", content=job_file(more="extras: {private: true}").encode())
    ).status_code == 202
    assert await refused(world, "GET", "/jobs/ann~train/config", "bob") == (403, "ForbiddenUserError")
    assert (await world.get("/jobs/train"))["private"] is True


async def over(world: World, name: str = "train", user: str = "ann") -> str:
    """Return the id of a job that ran and is over, with a log."""
    id_ = await world.submit(name, user)
    await world.grant()
    key = AttemptKey(id_, 0, "worker", 0, 0)
    await world.started(key)
    world.write(key, "stdout", b"hello\n")
    await world.exited(key)
    return id_


async def test_an_archived_job_leaves_its_name_and_is_reached_by_its_id(world: World) -> None:
    old = await over(world)
    archived = await world.ask("PUT", "/jobs/train/archive")
    assert (archived.status_code, old in archived.json()["message"]) == (200, True)
    assert await refused(world, "GET", "/jobs/ann~train") == (404, "NoJobError")
    assert await world.get("/jobs") == []
    [entry] = await world.get("/jobs", archived="true")
    assert (entry["debugId"], entry["archivedTime"]) == (old, world.clock.at_ms)
    detail = await world.get(f"/jobs/{old}")
    assert (detail["name"], detail["jobStatus"]["state"]) == ("train", "SUCCEEDED")
    place = detail["taskRoles"]["worker"]["taskStatuses"][0]["containerLog"]
    assert (await world.ask("GET", f"{place.removeprefix('/api/v2')}/stdout")).text == "hello\n"
    new = await world.submit("train")
    assert new != old
    assert (await world.get("/jobs/train"))["debugId"] == new
    assert (await world.get(f"/jobs/{old}/why"))["waits"] == []
    assert await refused(world, "DELETE", f"/jobs/{old}/archive") == (409, "ConflictJobError")
    for promise in ("STOP", "START"):
        asked = ("PUT", f"/jobs/{old}/executionType")
        assert await refused(world, *asked, json={"value": promise}) == (403, "ReadOnlyJobError")
    assert (await world.get("/jobs/train"))["jobStatus"]["state"] == "WAITING"


async def test_a_job_comes_out_of_the_archive_while_its_name_is_free(world: World) -> None:
    id_ = await over(world)
    for _ in range(2):
        assert (await world.ask("PUT", f"/jobs/{id_}/archive")).status_code == 200
    for _ in range(2):
        assert (await world.ask("DELETE", f"/jobs/{id_}/archive")).status_code == 200
    assert (await world.get("/jobs/train"))["archivedTime"] is None
    assert await world.get("/jobs", archived="true") == []


async def test_a_job_that_is_not_over_is_neither_archived_nor_deleted(world: World) -> None:
    await submitted(world)
    assert await refused(world, "PUT", "/jobs/train/archive") == (409, "ConflictJobError")
    assert await refused(world, "DELETE", "/jobs/train") == (409, "ConflictJobError")
    assert (await world.get("/jobs/train"))["archivedTime"] is None


async def test_a_deleted_job_is_gone_with_its_logs_and_frees_its_name(world: World) -> None:
    id_ = await over(world)
    await world.ask("PUT", "/jobs/train/tag", json={"value": "red"})
    assert [path.name for path in world.logs_root.iterdir()] == [f"{id_}.0.worker.0.0"]
    assert (await world.ask("DELETE", "/jobs/train")).status_code == 200
    assert list(world.logs_root.iterdir()) == []
    for path in ("/jobs/train", f"/jobs/{id_}"):
        assert await refused(world, "GET", path) == (404, "NoJobError")
    assert (await world.get("/jobs"), await world.get("/jobs", archived="true")) == ([], [])
    assert await world.get("/jobs", tagsContain="red") == []
    assert await world.submit("train") != id_


async def test_the_id_of_another_user_gives_no_access(world: World) -> None:
    id_ = await over(world, user="bob")
    await make_private(world, id_)
    assert await refused(world, "GET", f"/jobs/{id_}") == (403, "ForbiddenUserError")
    assert await refused(world, "DELETE", f"/jobs/{id_}") == (403, "ForbiddenUserError")


async def test_a_job_runs_again_only_while_its_owner_could_submit_it(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    place = {"name": "sets", "type": "local", "data": {"path": str(tmp_path / "place")}}
    async with open_sharing(tmp_path) as world:
        await world.put("/cluster/config", {"promises": "vision: 2 nodes"})
        assert (await world.ask("POST", "/storages", json=place)).status_code == 201
        await world.add_user("ann")
        for group, storages in (("seers", ["sets"]), ("lookers", [])):
            acls = {"virtualClusters": ["vision"], "storageConfigs": storages}
            body = {"groupname": group, "extension": {"acls": acls}}
            assert (await world.ask("POST", "/groups", json=body)).status_code == 201
        await world.put("/users/ann/grouplist", {"grouplist": ["seers"]}, status=201)
        await world.submit("again", "vision", 1, user="ann", extras="{storages: [{name: sets}]}")
        await world.put("/jobs/ann~again/executionType", {"value": "STOP"}, "ann", status=202)
        await world.until("ann~again", "STOPPED")

        for groups, lacking in (([], "virtual cluster vision"), (["lookers"], "storage sets")):
            await world.put("/users/ann/grouplist", {"grouplist": groups}, status=201)
            for who in ("ann", "admin"):
                answer = await world.ask("PUT", "/jobs/ann~again/executionType", who, json={"value": "START"})
                assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")
                assert lacking in answer.json()["message"]
        await world.put("/users/ann/grouplist", {"grouplist": ["seers"]}, status=201)
        await world.put("/jobs/ann~again/executionType", {"value": "START"}, "ann", status=202)


async def test_a_job_of_a_removed_user_runs_no_more(world: World) -> None:
    await over(world, user="bob")
    assert (await world.ask("DELETE", "/users/bob", "root")).status_code == 200
    again = ("PUT", "/jobs/bob~train/executionType", "root")
    assert await refused(world, *again, json={"value": "START"}) == (403, "ForbiddenUserError")
    assert (await world.ask("DELETE", "/jobs/bob~train", "root")).status_code == 200

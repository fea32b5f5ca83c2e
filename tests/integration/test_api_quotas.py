"""Quotas over HTTP: who sets them, what is refused beyond them and in which words, and what merely waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from .sharing_world import JOB, PASSWORD, Sharing, eventually, open_sharing


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Sharing]:
    async with open_sharing(tmp_path) as world:
        await world.put("/cluster/config", {"promises": "vision: 2 nodes, speech: 8 GPUs"})
        await world.add_user("ann", "vision")
        await world.add_user("max")
        acls = {"managedVirtualClusters": ["vision"]}
        group = {"groupname": "seers", "extension": {"acls": acls}}
        assert (await world.ask("POST", "/groups", json=group)).status_code == 201
        await world.put("/users/max/grouplist", {"grouplist": ["seers"]}, status=201)
        yield world


async def set_quota(world: Sharing, by: str = "admin", **quota: Any) -> None:
    await world.put("/quotas", quota, by, status=201)


async def submitted(world: Sharing, name: str, *, user: str = "ann", vc: str = "vision", gpus: int = 1) -> Any:
    """Return the answer to a submission."""
    text = JOB.format(name=name, vc=vc, gpus=gpus, instances=1, command="sleep infinity", extras="{}")
    return await world.ask("POST", "/jobs", user, content=text.encode())


async def test_a_quota_is_set_listed_replaced_and_removed(world: Sharing) -> None:
    await set_quota(world, virtualCluster="vision", user="ann", gpusRunning=4, gpuHoursPerMonth=2.5)
    await set_quota(world, jobsUnfinished=100)
    for_all = {
        "virtualCluster": "",
        "user": "",
        "gpusRunning": None,
        "gpusPerJob": None,
        "jobsUnfinished": 100,
        "gpuHoursPerMonth": None,
    }
    of_ann = for_all | {
        "virtualCluster": "vision",
        "user": "ann",
        "gpusRunning": 4,
        "jobsUnfinished": None,
        "gpuHoursPerMonth": 2.5,
    }
    assert await world.get("/quotas") == [for_all, of_ann]
    await set_quota(world, virtualCluster="vision", user="ann", gpusRunning=1)
    assert await world.get("/quotas") == [for_all, of_ann | {"gpusRunning": 1, "gpuHoursPerMonth": None}]
    where = {"virtualCluster": "vision", "user": "ann"}
    assert (await world.ask("DELETE", "/quotas", params=where)).status_code == 200
    assert await world.refused("DELETE", "/quotas", params=where) == (404, "NoQuotaError")
    assert await world.get("/quotas") == [for_all]


async def test_a_change_of_some_limits_leaves_the_others(world: Sharing) -> None:
    where = {"virtualCluster": "vision", "user": "ann"}
    await set_quota(world, **where, patch=True, gpusRunning=4, jobsUnfinished=9)
    await set_quota(world, **where, patch=True, gpusPerJob=2)
    await set_quota(world, **where, patch=True, gpusRunning=None)
    await set_quota(world, user="", patch=True)
    (_, found) = await world.get("/quotas")
    assert (found["gpusRunning"], found["gpusPerJob"], found["jobsUnfinished"]) == (None, 2, 9)
    newest, before, *_ = (await world.get("/audit?action=quota.change"))["entries"]
    assert newest["detail"] == {"request": "PUT /api/v2/quotas", "patch": True}
    assert before["detail"] == where | {"request": "PUT /api/v2/quotas", "patch": True, "gpusRunning": None}


async def test_managers_set_limits_in_their_virtual_clusters_only(world: Sharing) -> None:
    await set_quota(world, virtualCluster="speech", gpusPerJob=1)
    await set_quota(world, "max", virtualCluster="vision", gpusPerJob=2)
    assert [row["virtualCluster"] for row in await world.get("/quotas", "max")] == ["vision"]
    for elsewhere in ({"virtualCluster": "speech"}, {}):
        assert await world.refused("PUT", "/quotas", "max", json=elsewhere) == (403, "ForbiddenUserError")
        assert await world.refused("DELETE", "/quotas", "max", params=elsewhere) == (403, "ForbiddenUserError")
    assert await world.refused("PUT", "/quotas", "ann", json={"virtualCluster": "vision"}) == (
        403,
        "ForbiddenUserError",
    )
    assert await world.refused("GET", "/quotas", "ann") == (403, "ForbiddenUserError")


@pytest.mark.parametrize(
    ("quota", "error"),
    [
        ({"user": "nobody"}, (404, "NoUserError")),
        ({"virtualCluster": "nowhere"}, (404, "NoVirtualClusterError")),
        ({"gpusPerJob": -1}, (400, "InvalidParametersError")),
        ({"gpus": 1}, (400, "InvalidParametersError")),
        ({"gpuHoursPerMonth": "NaN"}, (400, "InvalidParametersError")),
    ],
)
async def test_a_quota_that_makes_no_sense_is_refused(
    world: Sharing, quota: dict[str, Any], error: tuple[int, str]
) -> None:
    assert await world.refused("PUT", "/quotas", json=quota) == error
    assert await world.get("/quotas") == []


async def test_json_that_calls_itself_a_form_is_not_taken_for_an_empty_quota(world: Sharing) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b'{"virtualCluster": "vision", "gpusPerJob": 2}'
    assert (await world.ask("PUT", "/quotas", content=body, headers=headers)).status_code == 201
    assert [(row["virtualCluster"], row["gpusPerJob"]) for row in await world.get("/quotas")] == [("vision", 2)]


async def test_a_job_that_asks_for_too_many_gpus_is_refused_with_limit_and_use(world: Sharing) -> None:
    await set_quota(world, virtualCluster="vision", gpusPerJob=2)
    assert (await submitted(world, "small", gpus=2)).status_code == 202
    answer = await submitted(world, "large", gpus=3)
    assert (answer.status_code, answer.json()["code"]) == (400, "NoEnoughQuotaError")
    message = answer.json()["message"]
    assert "3 GPUs" in message
    assert "2 in one job" in message
    assert "virtual cluster vision" in message
    assert (await submitted(world, "large", user="admin", vc="default", gpus=3)).status_code == 202


async def test_more_unfinished_jobs_than_allowed_are_refused(world: Sharing) -> None:
    await set_quota(world, user="ann", jobsUnfinished=2)
    for name in ("one", "two"):
        assert (await submitted(world, name)).status_code == 202
    answer = await submitted(world, "three")
    assert (answer.status_code, answer.json()["code"]) == (400, "NoEnoughQuotaError")
    assert "ann has 2 unfinished jobs" in answer.json()["message"]
    assert "may have 2" in answer.json()["message"]
    (mine,) = await world.get("/quotas/me", "ann")
    assert mine["used"]["jobsUnfinished"] == 2
    await world.put("/jobs/ann~one/executionType", {"value": "STOP"}, "ann", status=202)
    await world.until("ann~one", "STOPPED")
    assert (await submitted(world, "three")).status_code == 202


async def test_used_up_hours_are_refused(world: Sharing) -> None:
    assert (await submitted(world, "one", gpus=8)).status_code == 202
    await world.until("ann~one", "RUNNING")
    await set_quota(world, virtualCluster="vision", gpuHoursPerMonth=0)
    answer = await submitted(world, "two")
    assert (answer.status_code, answer.json()["code"]) == (400, "NoEnoughQuotaError")
    assert "GPU hours this month" in answer.json()["message"]
    (mine,) = await world.get("/quotas/me", "ann")
    assert mine["gpuHoursPerMonth"] == 0

    async def counts() -> bool:
        return bool((await world.get("/quotas/me", "ann"))[0]["used"]["gpuHoursThisMonth"] > 0)

    await eventually(counts, "what runs counts as used")


async def test_gpus_beyond_what_may_run_at_a_time_wait_and_say_why(world: Sharing) -> None:
    await set_quota(world, virtualCluster="vision", user="ann", gpusRunning=4)
    for name in ("one", "two"):
        assert (await submitted(world, name, gpus=4)).status_code == 202
    await world.until("ann~one", "RUNNING")
    wait = await world.until_it_waits("ann~two")
    assert "ann" in wait["message"]
    assert "4" in wait["message"]
    (mine,) = await world.get("/quotas/me", "ann")
    assert (mine["used"]["gpusRunning"], mine["used"]["jobsUnfinished"]) == (4, 2)
    await set_quota(world, virtualCluster="vision", user="ann", gpusRunning=8)
    await world.until("ann~two", "RUNNING")
    assert (await world.get("/quotas/me", "ann"))[0]["used"]["gpusRunning"] == 8


async def test_a_users_own_quota_counts_before_the_general_one(world: Sharing) -> None:
    await set_quota(world, virtualCluster="vision", gpusPerJob=1)
    await set_quota(world, virtualCluster="vision", user="ann", gpusPerJob=4)
    await world.add_user("bob", "vision")
    assert (await submitted(world, "one", gpus=4)).status_code == 202
    assert (await submitted(world, "one", user="bob", gpus=4)).status_code == 400
    assert [row["gpusPerJob"] for row in await world.get("/quotas/me", "ann")] == [4]
    assert [row["gpusPerJob"] for row in await world.get("/quotas/me", "bob")] == [1]
    assert PASSWORD not in str(await world.get("/audit"))


async def test_a_checked_file_says_what_its_job_would_wait_for(world: Sharing) -> None:
    async def checked(gpus: int, extras: str = "{}") -> list[tuple[str, int]]:
        text = JOB.format(name="new", vc="vision", gpus=gpus, instances=1, command="true", extras=extras)
        answer = await world.ask("POST", "/jobs/check", "ann", content=text.encode())
        assert answer.status_code == 200, answer.text
        return [(wait["code"], wait["position"]) for wait in answer.json()["waits"]]

    await set_quota(world, virtualCluster="vision", user="ann", gpusRunning=8)
    assert await checked(8) == []
    await world.submit("first", "vision", 4, user="ann")
    await world.until("ann~first", "RUNNING")
    assert await checked(4) == []
    assert await checked(8) == [("USER_LIMIT", 1)]
    assert await checked(1, "{after: [first]}") == [("WAITS_FOR_JOB", 0)]
    assert [job["name"] for job in await world.get("/jobs")] == ["first"]

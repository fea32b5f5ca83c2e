"""Groups: what they grant, who sees and changes them, and what their members may do from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openpai.app.startup import ensure_groups

from .api_world import World
from .sharing_world import open_sharing

NEW: dict[str, Any] = {
    "groupname": "vision",
    "description": "those who see",
    "externalName": "cn=vision",
    "extension": {
        "acls": {"admin": False, "virtualClusters": ["vision"], "storageConfigs": ["disk", "tape"]},
        "color": "blue",
    },
}
SHOWN: dict[str, Any] = {
    **NEW,
    "extension": {
        "color": "blue",
        "acls": {
            "admin": False,
            "virtualClusters": ["vision"],
            "managedVirtualClusters": [],
            "storageConfigs": ["disk", "tape"],
        },
    },
}


async def acls(world: World, name: str = "vision") -> dict[str, Any]:
    found: dict[str, Any] = (await world.get(f"/groups/{name}"))["extension"]["acls"]
    return found


async def put(world: World, path: str, body: Any, status: int = 201) -> Any:
    answer = await world.ask("PUT", path, "root", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_group_is_made_shown_and_removed(world: World) -> None:
    assert (await world.ask("POST", "/groups", json=NEW)).status_code == 403
    assert (await world.ask("POST", "/groups", "root", json=NEW)).status_code == 201
    again = await world.ask("POST", "/groups", "root", json=NEW)
    assert (again.status_code, again.json()["code"]) == (409, "ConflictGroupError")
    assert await world.get("/groups/vision") == SHOWN
    assert [group["groupname"] for group in await world.get("/group")] == ["admingroup", "default", "vision"]
    await put(world, "/users/ann/group", {"groupname": "vision"})
    assert await world.get("/groups/vision/userlist", "root") == [{"username": "ann", "clusterAdmin": False}]
    assert await world.get("/groups/admingroup/userlist", "root") == [{"username": "root", "clusterAdmin": True}]
    assert (await world.ask("DELETE", "/groups/vision", "root")).status_code == 200
    assert (await world.get("/users/ann"))["grouplist"] == ["default"]
    for method, path in (("GET", ""), ("GET", "/userlist"), ("DELETE", ""), ("PUT", "/description")):
        missing = await world.ask(method, f"/groups/vision{path}", "root", json={"description": ""})
        assert (missing.status_code, missing.json()["code"]) == (404, "NoGroupError"), path
    nul = await world.ask("GET", "/groups/nul%00l", "root")
    assert (nul.status_code, nul.json()["code"]) == (400, "InvalidParametersError")


async def test_a_whole_change_says_everything_and_a_patch_what_it_changes(world: World) -> None:
    await world.ask("POST", "/groups", "root", json=NEW)
    data = {"groupname": "vision", "description": "new", "externalName": "", "extension": {"acls": {}}}
    await put(world, "/groups", {"data": data})
    assert (await world.get("/groups/vision"))["extension"] == {
        "acls": {"admin": False, "virtualClusters": [], "managedVirtualClusters": [], "storageConfigs": []}
    }
    lacking = await put(world, "/groups", {"data": {"groupname": "vision", "description": "x"}}, 400)
    assert lacking["message"] == "data.externalName: is missing, unless patch is true"
    for change in ({"virtualClusters": ["a"]}, {"managedVirtualClusters": ["b"]}, {"storageConfigs": ["c", "c"]}):
        body = {"patch": True, "data": {"groupname": "vision", "extension": {"acls": change}}}
        await put(world, "/groups", body)
    assert await acls(world) == {
        "admin": False,
        "virtualClusters": ["a"],
        "managedVirtualClusters": ["b"],
        "storageConfigs": ["c"],
    }
    assert (await world.get("/groups/vision"))["description"] == "new"
    missing = await put(world, "/groups", {"patch": True, "data": {"groupname": "nowhere"}}, 404)
    assert missing["code"] == "NoGroupError"


async def test_older_clients_change_one_part_at_a_time(world: World) -> None:
    await world.ask("POST", "/groups", "root", json=NEW)
    await put(world, "/groups/vision/description", {"description": "one"})
    await put(world, "/group/vision/externalname", {"externalName": "two"})
    await put(world, "/groups/vision/extension", {"extension": {"size": 3}})
    await put(world, "/groups/vision/extension/acls/virtualClusters", {"data": ["four"]})
    await put(world, "/groups/vision/extension/deep/er", {"data": {"five": 5}})
    found = await world.get("/groups/vision")
    assert (found["description"], found["externalName"]) == ("one", "two")
    kept = {key: value for key, value in found["extension"].items() if key != "acls"}
    assert kept == {"color": "blue", "size": 3, "deep": {"er": {"five": 5}}}
    assert (await acls(world))["virtualClusters"] == ["four"]
    assert (await acls(world))["storageConfigs"] == ["disk", "tape"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/groups/vision/extension", {"extension": {"acls": {"admin": "yes"}}}),
        ("/groups/vision/extension/acls/admin", {"data": 1}),
        ("/groups/vision/extension", {"extension": {"acls": []}}),
        ("/groups/vision/extension", {"extension": {"acls": 7}}),
        ("/groups/vision/extension", {"extension": {"big": "x" * 70_000}}),
        ("/groups/vision/extension/acls/virtualClusters", {"data": "all"}),
        ("/groups/vision/extension/acls", {"data": [1]}),
        ("/groups/vision/extension/" + "a/" * 40, {"data": 1}),
        ("/groups/vision/description", {"description": "nul\x00l"}),
        ("/groups/vision/externalname", {"externalName": "x" * 300}),
        ("/groups", {"patch": True, "data": {"groupname": "vision", "color": 1}}),
    ],
)
async def test_what_is_no_grant_changes_nothing(world: World, path: str, body: Any) -> None:
    await world.ask("POST", "/groups", "root", json=NEW)
    assert (await put(world, path, body, 400))["code"] == "InvalidParametersError"
    assert await world.get("/groups/vision") == SHOWN


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", ".", "x" * 129, "å"])
async def test_a_group_has_a_name_that_fits_in_a_path(world: World, name: str) -> None:
    refused = await world.ask("POST", "/groups", "root", json={"groupname": name})
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidParametersError")


async def test_the_two_groups_every_platform_needs_stay_what_they_are(world: World) -> None:
    for name in ("default", "admingroup"):
        refused = await world.ask("DELETE", f"/groups/{name}", "root")
        assert (refused.status_code, refused.json()["code"]) == (403, "ReadOnlyGroupError")
    for name, is_admin in (("default", True), ("admingroup", False)):
        body = {"extension": {"acls": {"admin": is_admin}}}
        assert (await put(world, f"/groups/{name}/extension", body, 403))["code"] == "ReadOnlyGroupError"
        assert (await acls(world, name))["admin"] is not is_admin


async def test_the_only_group_of_administrators_with_members_keeps_its_right(world: World) -> None:
    await world.ask("POST", "/groups", "root", json={"groupname": "chiefs", "extension": {"acls": {"admin": True}}})
    await put(world, "/users/ann/group", {"groupname": "chiefs"})
    assert (await world.ask("PUT", "/users/root/admin", json={"admin": False})).status_code == 201
    for method, path, body in (
        ("DELETE", "/groups/chiefs", None),
        ("PUT", "/groups/chiefs/extension", {"extension": {"acls": {"admin": False}}}),
    ):
        refused = await world.ask(method, path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "RemoveAdminError")


async def test_a_manager_looks_after_a_virtual_cluster_and_no_other(world: World) -> None:
    await world.submit("train")
    assert (await world.ask("PUT", "/jobs/ann~train/executionType", "bob", json={"value": "STOP"})).status_code == 403
    acl = {"acls": {"managedVirtualClusters": ["default"]}}
    await world.ask("POST", "/groups", "root", json={"groupname": "leads", "extension": acl})
    await put(world, "/users/bob/group", {"groupname": "leads"})
    assert (await world.ask("PUT", "/jobs/ann~train/executionType", "bob", json={"value": "STOP"})).status_code == 202
    await put(world, "/groups/leads/extension/acls/managedVirtualClusters", {"data": ["elsewhere"]})
    assert (await world.ask("PUT", "/jobs/ann~train/executionType", "bob", json={"value": "STOP"})).status_code == 403


async def test_each_virtual_cluster_has_a_group_from_its_first_promise_to_its_end(tmp_path: Path) -> None:
    async with open_sharing(tmp_path, share="team-a: 1 node") as sharing:
        services = sharing.server.api.state.context.services

        async def names() -> set[str]:
            return {group["groupname"] for group in await sharing.get("/groups")} - {"default", "admingroup"}

        await ensure_groups(services)
        assert await names() == {"team-a"}
        await sharing.add_user("ann", "team-a")
        await sharing.put("/virtual-clusters/team-b", {"promise": "1 node"}, status=201)
        await sharing.add_user("bob", "team-b")
        assert await names() == {"team-a", "team-b"}
        assert (await sharing.ask("DELETE", "/virtual-clusters/team-b")).status_code == 200
        assert await names() == {"team-a"}
        assert (await sharing.get("/users/bob"))["virtualCluster"] == ["default"]
        config = await sharing.put("/cluster/config", {"promises": "team-c: 1 node"})
        assert config["problems"] == []
        assert await names() == {"team-c"}
        assert (await sharing.get("/users/ann"))["virtualCluster"] == ["default"]

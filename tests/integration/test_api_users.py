"""Users: who adds, changes and removes them, what they may change of themselves, and what others see."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from openpai.access.accounts import Group
from openpai.orchestrator.accounts import welcome
from openpai.orchestrator.vc_groups import ensure_vc_groups, forget_vc_groups
from openpai.ports.identity import Vouched
from openpai.protocol.errors import Refused

from .api_world import PASSWORD, World


async def test_an_admin_lets_people_in_and_out(world: World) -> None:
    new = {"username": "eve", "password": "secret of eve", "email": "eve@example.org"}
    assert (await world.ask("POST", "/users", json=new)).status_code == 403
    assert (await world.ask("POST", "/users", "root", json=new)).status_code == 201
    again = await world.ask("POST", "/users", "root", json=new)
    assert (again.status_code, again.json()["code"]) == (409, "ConflictUserError")
    eve = await world.get("/users/eve", "root")
    assert eve == {
        "username": "eve",
        "email": "eve@example.org",
        "grouplist": ["default"],
        "extension": {},
        "admin": False,
        "virtualCluster": ["default"],
        "storageConfig": [],
        "viewer": False,
        "source": "local",
        "createdTime": world.clock.at_ms,
    }
    body = {"username": "eve", "password": "secret of eve"}
    token = (await world.http.post("/api/v2/tokens", json=body)).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert (await world.http.get("/api/v2/users/me", headers=headers)).json() == eve
    assert (await world.ask("DELETE", "/users/eve", "root")).status_code == 200
    assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 401
    for name, code, status in (("eve", "NoUserError", 404), ("root", "RemoveAdminError", 403)):
        answer = await world.ask("DELETE", f"/users/{name}", "root")
        assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_nothing_of_a_user_but_the_name_is_shown_to_others(world: World) -> None:
    extension = {"jobSSH": {"key": "PRIVATE KEY"}, "boundedClusters": {"other": {"token": "TOKEN"}}}
    body = {"patch": True, "data": {"username": "ann", "email": "ann@example.org", "extension": extension}}
    assert (await world.ask("PUT", "/users/me", json=body)).status_code == 201
    assert await world.get("/users/ann", "bob") == {"username": "ann"}
    assert {"username": "ann"} in await world.get("/users", "bob")
    [bob] = [user for user in await world.get("/users", "bob") if len(user) > 1]
    assert (bob["username"], bob["admin"]) == ("bob", False)
    for user in ("ann", "root"):
        assert (await world.get("/users/ann", user))["extension"] == extension
        assert (await world.get("/users/ann", user))["email"] == "ann@example.org"
    assert all(len(user) > 1 for user in await world.get("/users", "root"))
    assert (await world.get("/users/me"))["username"] == "ann"


@pytest.mark.parametrize("name", ["nobody", "..%2Fx", "%F0%9F%92%A9"])
async def test_a_user_who_does_not_exist_is_missing_for_every_role(world: World, name: str) -> None:
    for user in ("root", "ann"):
        missing = await world.ask("GET", f"/users/{name}", user)
        assert missing.status_code == 404
        assert missing.json()["code"] in ("NoUserError", "NoApiError")


async def test_one_changes_ones_own_password_with_the_old_one(world: World) -> None:
    def body(**data: Any) -> dict[str, Any]:
        return {"patch": True, "data": {"username": "ann", **data}}

    app = (await world.ask("POST", "/tokens/application")).json()["token"]
    for path, wrong in (
        ("/users/me", body(newPassword="brand new", oldPassword="not it")),
        ("/users/ann/password", {"newPassword": "brand new"}),
    ):
        refused = await world.ask("PUT", path, json=wrong)
        assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenUserError")
    for data in ({"newPassword": "short", "oldPassword": PASSWORD}, {"newPassword": "brand new"}, {"email": "me"}):
        unfit = await world.ask("PUT", "/users/me", json=body(**data))
        assert (unfit.status_code, unfit.json()["code"]) == (400, "InvalidParametersError"), data
    headers = await world.login("ann")
    right = body(newPassword="brand new", oldPassword=PASSWORD, email="a@example.org")
    assert (await world.ask("PUT", "/users/me", json=right)).status_code == 201
    assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 401
    bearer = {"Authorization": f"Bearer {app}"}
    assert (await world.http.get("/api/v2/users/me", headers=bearer)).json()["email"] == "a@example.org"
    for password, status in ((PASSWORD, 400), ("brand new", 200)):
        answer = await world.http.post("/api/v2/tokens", json={"username": "ann", "password": password})
        assert answer.status_code == status


async def test_the_route_for_ones_own_account_changes_no_other(world: World) -> None:
    body = {"patch": True, "data": {"username": "bob", "email": "evil@example.org"}}
    for user in ("ann", "root"):
        refused = await world.ask("PUT", "/users/me", user, json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenUserError")
    for right in ({"admin": True}, {"viewer": False}, {"virtualCluster": ["team"]}, {"grouplist": ["admingroup"]}):
        more = await world.ask("PUT", "/users/me", json={"patch": True, "data": {"username": "ann", **right}})
        assert (more.status_code, more.json()["code"]) == (400, "InvalidParametersError")
    assert (await world.get("/users/bob", "root"))["email"] == ""


async def test_an_administrator_changes_the_user_they_name(world: World) -> None:
    await world.users.add_group(Group("vision", virtual_clusters=("vision",), storages=("disk",)))
    data = {
        "username": "ann",
        "email": "ann@example.org",
        "virtualCluster": ["vision"],
        "admin": False,
        "password": "from above",
        "extension": {"a": 1},
    }
    assert (await world.ask("PUT", "/users", "root", json={"data": data})).status_code == 201
    ann = await world.get("/users/ann", "root")
    assert (ann["email"], ann["grouplist"], ann["virtualCluster"]) == (
        "ann@example.org",
        ["default", "vision"],
        ["default", "vision"],
    )
    assert (ann["storageConfig"], ann["extension"], ann["admin"]) == (["disk"], {"a": 1}, False)
    assert (await world.get("/users/root", "root"))["email"] == ""
    login = await world.http.post("/api/v2/tokens", json={"username": "ann", "password": "from above"})
    assert login.status_code == 200
    for name in data.keys() - {"username"}:
        lacking = {key: value for key, value in data.items() if key != name}
        refused = await world.ask("PUT", "/users", "root", json={"data": lacking})
        assert (refused.status_code, refused.json()["message"]) == (
            400,
            f"data.{name}: is missing, unless patch is true",
        )
        assert (await world.ask("PUT", "/users", "root", json={"patch": True, "data": lacking})).status_code == 201
    missing = await world.ask("PUT", "/users", "root", json={"patch": True, "data": {"username": "nobody"}})
    assert (missing.status_code, missing.json()["code"]) == (404, "NoUserError")


async def test_virtual_clusters_of_a_user_are_groups(world: World) -> None:
    for name in ("vision", "speech"):
        await ensure_vc_groups(world.users, [name, "default"])
    await world.users.add_group(Group("both", virtual_clusters=("vision", "speech")))
    await world.users.add_group(Group("disks", storages=("disk",)))
    await world.users.add_group(Group("odd"))

    async def granted(clusters: list[str], expected: list[str]) -> list[str]:
        answer = await world.ask("PUT", "/users/ann/virtualcluster", "root", json={"virtualCluster": clusters})
        assert answer.status_code == 201, answer.text
        ann = await world.get("/users/ann", "root")
        assert ann["virtualCluster"] == expected
        return list(ann["grouplist"])

    await world.ask("PUT", "/users/ann/grouplist", "root", json={"grouplist": ["both", "disks"]})
    assert await granted(["vision", "speech"], ["default", "speech", "vision"]) == ["default", "both", "disks"]
    assert await granted(["vision"], ["default", "vision"]) == ["default", "disks", "vision"]
    assert await granted(["default"], ["default"]) == ["default", "disks"]
    for cluster, code, status in (("nowhere", "NoVirtualClusterError", 404), ("odd", "ConflictGroupError", 409)):
        body = {"virtualCluster": [cluster]}
        refused = await world.ask("PUT", "/users/ann/virtualcluster", "root", json=body)
        assert (refused.status_code, refused.json()["code"]) == (status, code)
    new = {"username": "eve", "password": "secret", "virtualCluster": ["speech"], "grouplist": ["both"]}
    assert (await world.ask("POST", "/users", "root", json=new)).status_code == 201
    assert (await world.get("/users/eve", "root"))["grouplist"] == ["default", "both"]
    assert (await world.get("/users/root", "root"))["virtualCluster"] == ["default", "speech", "vision"]
    admins = await world.ask("PUT", "/users/root/virtualcluster", "root", json={"virtualCluster": ["vision"]})
    assert (admins.status_code, admins.json()["code"]) == (403, "ForbiddenUserError")


async def test_groups_are_joined_and_left(world: World) -> None:
    await world.users.add_group(Group("vision"))
    for method, group, status, held in (
        ("PUT", "vision", 201, ["default", "vision"]),
        ("PUT", "vision", 201, ["default", "vision"]),
        ("PUT", "nowhere", 404, ["default", "vision"]),
        ("DELETE", "default", 403, ["default", "vision"]),
        ("DELETE", "vision", 201, ["default"]),
        ("DELETE", "vision", 201, ["default"]),
    ):
        answer = await world.ask(method, "/user/ann/group", "root", json={"groupname": group})
        assert (answer.status_code, (await world.get("/users/ann", "root"))["grouplist"]) == (status, held), group
    unknown = await world.ask("PUT", "/users/ann/grouplist", "root", json={"grouplist": ["nowhere"]})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "NoGroupError")
    nobody = await world.ask("PUT", "/users/nobody/group", "root", json={"groupname": "vision"})
    assert (nobody.status_code, nobody.json()["code"]) == (404, "NoUserError")


async def test_the_right_of_an_administrator_comes_and_goes_with_groups(world: World) -> None:
    def printed(is_admin: bool) -> dict[str, Any]:
        return {"json": {"admin": is_admin}}

    lone = await world.ask("PUT", "/users/root/admin", "root", **printed(False))
    assert (lone.status_code, lone.json()["code"]) == (403, "RemoveAdminError")
    assert (await world.ask("PUT", "/users/ann/admin", "root", **printed(True))).status_code == 201
    assert (await world.get("/users/ann"))["grouplist"] == ["default", "admingroup"]
    removed = await world.ask("DELETE", "/users/root", "ann")
    assert (removed.status_code, removed.json()["code"]) == (403, "RemoveAdminError")
    assert (await world.ask("PUT", "/users/root/admin", "ann", **printed(False))).status_code == 201
    assert (await world.ask("GET", "/groups/default/userlist", "root")).status_code == 403
    assert (await world.ask("DELETE", "/users/root", "ann")).status_code == 200


async def test_a_viewer_looks_and_changes_nothing_but_themselves(world: World) -> None:
    await world.submit("train")
    body = {"patch": True, "data": {"username": "ann", "viewer": True}}
    assert (await world.ask("PUT", "/users", "root", json=body)).status_code == 201
    assert (await world.get("/users/me"))["viewer"] is True
    assert (await world.get("/jobs/train"))["name"] == "train"
    for method, path, more in (
        ("POST", "/jobs", {"content": b"x"}),
        ("PUT", "/jobs/train/executionType", {"json": {"value": "STOP"}}),
        ("PUT", "/jobs/train/tag", {"json": {"value": "a"}}),
    ):
        refused = await world.ask(method, path, **more)  # type: ignore[arg-type]
        assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenUserError"), path
    assert (await world.ask("PUT", "/users/ann/email", json={"email": "ann@example.org"})).status_code == 201


@pytest.mark.parametrize(
    ("extension", "message"),
    [
        ({"big": "x" * 70_000}, "larger than 64 KiB"),
        ({"deep": json.loads("[" * 40 + "]" * 40)}, "nested more than 32"),
    ],
)
async def test_what_clients_keep_with_a_user_is_bounded(world: World, extension: Any, message: str) -> None:
    refused = await world.ask("PUT", "/users/ann/extension", json={"extension": extension})
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidParametersError")
    assert message in refused.json()["message"]


async def test_an_extension_is_replaced_key_by_key(world: World) -> None:
    for extension in ({"a": {"x": 1}, "b": 2}, {"a": {"y": 1}}):
        assert (await world.ask("PUT", "/users/ann/extension", json={"extension": extension})).status_code == 201
    assert (await world.get("/users/me"))["extension"] == {"a": {"y": 1}, "b": 2}
    other = await world.ask("PUT", "/users/ann/extension", "bob", json={"extension": {}})
    assert (other.status_code, other.json()["code"]) == (403, "ForbiddenUserError")


@pytest.mark.parametrize("name", ["me", "..", "-x", "a b", "a~b", "а\u0301nn", "ann\n", "x" * 129, "ann.", ""])
async def test_a_name_that_would_cause_trouble_is_no_name(world: World, name: str) -> None:
    refused = await world.ask("POST", "/users", "root", json={"username": name, "password": "secret"})
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidParametersError")


async def test_who_logs_in_elsewhere_has_no_password_here(world: World) -> None:
    person = Vouched("oidc", "s-1", "eve", "eve@example.org", frozenset({"cn=vision"}))
    await world.users.add_group(Group("vision", external_name="cn=vision"))
    eve = await welcome(world.users, person, 1)
    assert [group.name for group in eve.groups] == ["default", "vision"]
    for password in ("nobody has this password", "secret"):
        answer = await world.http.post("/api/v2/tokens", json={"username": "eve", "password": password})
        assert answer.status_code == 400
    body = {"patch": True, "data": {"username": "eve", "password": "a password"}}
    refused = await world.ask("PUT", "/users", "root", json=body)
    assert refused.status_code == 400
    assert "OIDC" in refused.json()["message"]
    only = {"data": {"username": "eve", "extension": {}}}
    assert (await world.ask("PUT", "/users", "root", json=only)).status_code == 201


async def test_a_provider_sets_groups_at_each_login_and_never_takes_an_account_over(world: World) -> None:
    await world.users.add_group(Group("vision", external_name="cn=vision"))
    await world.users.add_group(Group("chiefs", external_name="cn=chiefs", is_admin=True))
    person = Vouched("oidc", "s-1", "eve", "eve@example.org", frozenset({"cn=vision", "cn=unknown"}))
    await welcome(world.users, person, 1)
    await world.ask("PUT", "/users/eve/group", "root", json={"groupname": "admingroup"})
    moved = replace(person, name="renamed", email="", groups=frozenset({"cn=chiefs"}))
    eve = await welcome(world.users, moved, 2)
    assert (eve.name, eve.email, eve.is_admin) == ("eve", "eve@example.org", True)
    assert [group.name for group in eve.groups] == ["default", "admingroup", "chiefs"]
    for name in ("ann", "root"):
        with pytest.raises(Refused) as refused:
            await welcome(world.users, Vouched("oidc", "s-2", name), 3)
        assert refused.value.code == "ConflictUserError"
    with pytest.raises(Refused, match="cannot be a user name"):
        await welcome(world.users, Vouched("oidc", "s-3", "a b"), 3)
    await world.ask("DELETE", "/users/eve/group", "root", json={"groupname": "admingroup"})
    await world.ask("PUT", "/users/root/admin", "root", json={"admin": False})
    last = await welcome(world.users, replace(moved, groups=frozenset()), 4)
    assert last.is_admin


async def test_groups_follow_the_virtual_clusters_there_are(world: World) -> None:
    await ensure_vc_groups(world.users, ["vision", "speech", "default"])
    await ensure_vc_groups(world.users, ["vision"])
    await world.users.change_group("speech", lambda group: replace(group, storages=("disk",)))
    await world.users.add_group(Group("leads", virtual_clusters=("speech",), managed=("vision", "speech")))
    await forget_vc_groups(world.users, ["vision", "speech", "default"])
    left = {group.name: group for group in await world.users.groups()}
    assert set(left) == {"default", "admingroup", "speech", "leads"}
    assert left["default"].virtual_clusters == ("default",)
    assert (left["speech"].virtual_clusters, left["leads"].managed, left["leads"].virtual_clusters) == ((), (), ())

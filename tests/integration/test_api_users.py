"""People: who adds, changes and removes them, what they may change of themselves, and what others see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .api_world import World, open_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        yield world


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


@pytest.mark.parametrize("name", ["nobody", "nul%00l", "..%2Fx", "%F0%9F%92%A9"])
async def test_a_user_who_is_not_there_is_missing_for_everybody(world: World, name: str) -> None:
    for user in ("root", "ann"):
        missing = await world.ask("GET", f"/users/{name}", user)
        assert missing.status_code == 404
        assert missing.json()["code"] in ("NoUserError", "NoApiError")

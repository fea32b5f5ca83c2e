"""Every route, requested by a user of every kind: which are admitted and which are not.

What is expected stands in `permissions_text` and is compared with what a server does. Neither the table of the platform
nor the action a route names is believed: a route that names another one, or none, fails here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
from fastapi.routing import APIRoute

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, User
from openpai.access.table import ACTIONS, OPEN
from openpai.api.app import ROUTERS
from openpai.api.context import action_of
from openpai.lifecycle.model import AttemptKey
from openpai.protocol.errors import Unavailable

from .api_world import World
from .permissions_text import BODIES, QUERIES, ROUTES, WHO_MAY

_NAMES: Final = {
    "nodes": "n1",
    "storages": "data",
    "config": "data",
    "server": "data",
    "logs": "stdout",
    "exit-specs": "cuda_oom",
    "alert-rules": "NodeNotReady",
    "alert-channels": "mail",
}
_FILLED: Final = {
    "job": "ann~train",
    "sweep": "ann~train",
    "number": "0",
    "role": "worker",
    "index": "0",
    "attempt": "0",
    "port": "8080",
    "application": "lab",
    "username": "ann",
    "id": "0" * 8,
    "groupname": "team",
    "group": "team",
    "vc": "team",
    "token": "0" * 64,
    "key": "0" * 64,
    "item": "data",
    "revision": "1",
    "digest:digest": "0" * 64,
    "path:path": "a",
    "name:path": "ann~train/default",
}
_DENIED: Final = ("UnauthorizedUserError", "ForbiddenUserError")


@dataclass(frozen=True, slots=True)
class Route:
    """A route as this page has it."""

    method: str
    path: str
    action: str
    """Empty for one that is open."""
    row: str
    """The line of WHO_MAY."""

    @property
    def url(self) -> str:
        """Return an address that leads there."""
        parts = self.path.split("/")
        filled = [
            _NAMES.get(parts[at - 1], "other") if part == "{name}" else _FILLED[part[1:-1]] if part[:1] == "{" else part
            for at, part in enumerate(parts)
        ]
        return "/".join(filled) + QUERIES.get(f"{self.method} {self.path}", "")


def _routes() -> Iterator[Route]:
    for line in ROUTES.strip().splitlines():
        if not line:
            continue
        method, path, row = line.split()
        head, brace, rest = path.partition("{")
        either, _, tail = rest.partition("}")
        prefixes = [f"{head}{one}{tail}" for one in either.split("|")] if brace and "|" in either else [path]
        for each in prefixes:
            yield Route(method, each, "" if row == "-" else row.partition(":")[0], row)


def _who_may() -> dict[str, dict[str, bool]]:
    heads, *lines = (line.split() for line in WHO_MAY.strip().splitlines())
    return {row: dict(zip(heads[1:], (mark == "+" for mark in marks), strict=True)) for row, *marks in lines}


EXPECTED: Final = tuple(_routes())
MAY: Final = _who_may()
PEOPLE: Final = ("guest", "expired", *next(iter(MAY.values())))


def _served() -> dict[tuple[str, str], str]:
    """Return every route there is, and the action it names."""
    found: dict[tuple[str, str], str] = {}
    for module in ROUTERS:
        for route in module.router.routes:
            assert isinstance(route, APIRoute), f"{route} hides its routes from this test"
            for method in route.methods or ():
                found[method, route.path] = action_of(route) or ""
    return found


def test_every_route_is_on_the_page_with_the_action_it_names() -> None:
    served = _served()
    expected = {(route.method, route.path): route.action for route in EXPECTED if route.method != "ANY"}
    for route in EXPECTED:
        if route.method == "ANY":
            expected |= {at: "" for at in served if at[1] == route.path}
    assert {at: served[at] for at in served.keys() - expected.keys()} == {}, "routes that the page does not know"
    assert {at: expected[at] for at in expected.keys() - served.keys()} == {}, "routes that are not there"
    assert {at: action for at, action in served.items() if action != expected[at]} == {}, "routes of another action"


def test_a_route_that_asks_for_nothing_is_listed_as_open() -> None:
    is_open = {f"{method} {path}" for (method, path), action in _served().items() if not action}
    listed = {name for name in is_open if name in OPEN or f"* {name.split()[1]}" in OPEN}
    assert is_open == listed
    paths = {name.split()[1] for name in is_open}
    assert {name.split()[1] for name in OPEN} == paths
    assert set(OPEN.values()) <= ACTIONS.keys()


async def _people(world: World, root: Path) -> dict[str, dict[str, str]]:
    """Create all users; return the headers that each of them sends."""
    await world.users.add_group(Group("team", virtual_clusters=("team",)))
    await world.users.add_group(Group("data", storages=("data",)))
    await world.users.add_group(Group("leads", managed=("team",)))
    everyone, team, data, leads = (Group(name) for name in (DEFAULT_GROUP, "team", "data", "leads"))
    await world.users.add_user(User("vera", "", 1, groups=(everyone, team), is_viewer=True))
    await world.users.add_user(User("mia", "", 1, groups=(everyone, team, data)))
    await world.users.add_user(User("max", "", 1, groups=(everyone, leads)))
    (root / "data").mkdir()
    output = {"name": "data", "type": "local", "data": {"path": str(root / "data")}}
    await world.api.state.context.services.storages.add(output)
    open_ = world.api.state.context.sessions.open
    tokens = {name: await open_(name, lifetime_s=9999) for name in ("vera", "bob", "mia", "max", "ann", "root")}
    for name, user, scope in (
        ("app", "ann", "all"),
        ("rootapp", "root", "all"),
        ("read", "ann", "read"),
        ("jobs", "ann", "jobs"),
    ):
        tokens[name] = await open_(user, lifetime_s=None, is_application=True, scope=scope)
    tokens["expired"] = await open_("root", lifetime_s=0)
    return {"guest": {}, **{name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}}


async def _job(world: World, root: Path) -> None:
    """Store a finished job of ann in the virtual cluster `team`, and an item of hers."""
    item = {"name": "data", "kind": "dataset", "title": "Data", "storage": "data"}
    assert (await world.ask("POST", "/market/items", "ann", json=item)).status_code == 201
    id_ = await world.submit("train")
    await world.queries.set_tag(id_, "sweep:train")
    await world.grant()
    key = AttemptKey(id_, 0, "worker", 0, 0)
    await world.started(key)
    await world.exited(key)
    with sqlite3.connect(root / "pai.db") as database:
        database.execute("UPDATE jobs SET virtual_cluster = 'team'")
    database.close()


class Shut:
    """A platform that does nothing: other tests cover what requests do."""

    def progress(self) -> dict[str, Any]:
        return {}

    def __getattr__(self, name: str) -> Any:
        async def nothing(*args: Any, **more: Any) -> Any:
            raise Unavailable("no server leads")

        return nothing


class Copy:
    """What the database was like, so that one try leaves nothing to the next."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = sqlite3.connect(":memory:")
        with sqlite3.connect(path) as now:
            now.backup(self._kept)
        now.close()

    def restore(self) -> None:
        with sqlite3.connect(self._path) as now:
            self._kept.backup(now)
        now.close()


async def test_every_route_allows_exactly_the_users_of_the_table(world: World, tmp_path: Path) -> None:
    headers = await _people(world, tmp_path)
    await _job(world, tmp_path)
    copy = Copy(tmp_path / "pai.db")
    context = world.api.state.context
    world.api.state.context = replace(context, services=replace(context.services, platform=Shut()))
    wrong: list[str] = []
    for route in EXPECTED:
        # First the users to refuse, while all objects still exist.
        for who in sorted(PEOPLE, key=lambda who: _is_expected(route, who)):
            answer = await _asked(world, route, headers[who])
            is_let_in = _is_let_in(answer)
            if is_let_in != _is_expected(route, who) or answer.status_code == 500:
                message = f"{answer.status_code} {answer.text[:100]}"
                wrong.append(f"{route.method} {route.url} as {who}: let in: {is_let_in}: {message}")
            if route.method != "GET" and answer.status_code < 400:
                copy.restore()
                world.api.state.context.sessions.forget_all()
    assert not wrong, "\n" + "\n".join(wrong)


def _is_expected(route: Route, who: str) -> bool:
    if not route.action:
        return True
    return who not in ("guest", "expired") and MAY[route.row][who]


def _is_let_in(answer: httpx.Response) -> bool:
    if answer.status_code not in (401, 403):
        return True
    return answer.json()["code"] not in _DENIED


async def _asked(world: World, route: Route, headers: Mapping[str, str]) -> httpx.Response:
    method = "PATCH" if route.method == "ANY" else route.method
    body = BODIES.get(f"{route.method} {route.path}", {})
    json = {"json": body} if method in ("POST", "PUT", "DELETE") else {}
    return await world.http.request(method, route.url, headers=dict(headers), **json)


async def test_a_denial_has_the_status_that_says_whether_a_login_would_help(world: World, tmp_path: Path) -> None:
    headers = await _people(world, tmp_path)
    for who, status in (("guest", 401), ("expired", 401), ("bob", 403), ("rootapp", 403), ("read", 403)):
        answer = await world.http.post("/api/v2/users", headers=headers[who], json={})
        assert answer.status_code == status, who
        assert answer.json()["code"] == ("UnauthorizedUserError" if status == 401 else "ForbiddenUserError")
        assert answer.json()["advice"]


async def test_what_a_token_may_do_changes_with_its_owner_at_once(world: World, tmp_path: Path) -> None:
    headers = await _people(world, tmp_path)
    assert (await world.http.get("/api/v2/cluster/config", headers=headers["app"])).status_code == 403
    made = await world.ask("PUT", "/users/ann/admin", "root", json={"admin": True})
    assert made.status_code == 201
    assert (await world.http.get("/api/v2/groups/team/userlist", headers=headers["app"])).status_code == 200
    assert (await world.http.get("/api/v2/groups/team/userlist", headers=headers["read"])).status_code == 200
    assert (await world.ask("PUT", "/users/ann/admin", "root", json={"admin": False})).status_code == 201
    assert (await world.http.get("/api/v2/groups/team/userlist", headers=headers["app"])).status_code == 403
    renamed = {"patch": True, "data": {"groupname": "team", "extension": {"acls": {"admin": True}}}}
    assert (await world.http.get("/api/v2/groups/team/userlist", headers=headers["mia"])).status_code == 403
    assert (await world.ask("PUT", "/groups", "root", json=renamed)).status_code == 201
    assert (await world.http.get("/api/v2/groups/team/userlist", headers=headers["mia"])).status_code == 200
    assert ADMIN_GROUP not in [group.name for group in (await world.users.user("mia") or User("", "", 0)).groups]

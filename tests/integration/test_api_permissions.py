"""Every route, tried as everybody: who is let in and who is not.

What is expected stands here in plain text and is compared with what a server does. Neither the table of the platform
nor the action a route names is believed: a route that names another one, or none, fails here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from fastapi.routing import APIRoute

from openpai.access.table import ACTIONS, OPEN
from openpai.api.app import ROUTERS
from openpai.api.context import action_of
from openpai.lifecycle.model import AttemptKey
from openpai.ports.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, User
from openpai.protocol.errors import Unavailable

from .api_world import World, open_world

# The thing is always ann's: her account, and her finished job `train` in the virtual cluster `team`.
# vera is a viewer whom `team` is granted, bob a user without grants, mia is granted `team` and the storage `data`,
# max manages `team`, root is an administrator. Then tokens: of an application of ann, of one of root, and those of ann
# whose scope is `read` and `jobs`.
WHO_MAY: Final = """
action                vera  bob  mia  max  ann  root   app  rootapp  read  jobs
logout                 +     +    +    +    +    +      -      -      -     -
token.check            +     +    +    +    +    +      +      +      +     +
token.list             +     +    +    +    +    +      -      -      -     -
token.create           +     +    +    +    +    +      -      -      -     -
token.revoke           +     +    +    +    +    +      -      -      -     -
user.list              +     +    +    +    +    +      +      +      +     +
user.read              +     +    +    +    +    +      +      +      +     +
user.details:me        +     +    +    +    +    +      +      +      +     +
user.change_own        -     -    -    -    +    +      -      -      -     -
user.change_own:me     +     +    +    +    +    +      -      -      -     -
user.add               -     -    -    -    -    +      -      -      -     -
user.change            -     -    -    -    -    +      -      -      -     -
user.remove            -     -    -    -    -    +      -      -      -     -
user.tokens            -     -    -    -    +    +      -      -      -     -
user.sign_out          -     -    -    -    +    +      -      -      -     -
group.list             +     +    +    +    +    +      +      +      +     +
group.members          -     -    -    -    -    +      -      +      -     -
group.change           -     -    -    -    -    +      -      -      -     -
vc.list                +     +    +    +    +    +      +      +      +     +
vc.inspect             +     +    +    +    +    +      +      +      +     +
vc.change              -     -    -    -    -    +      -      +      -     -
quota.own              +     +    +    +    +    +      +      +      +     +
quota.list             -     -    -    +    -    +      -      +      -     -
quota.change           -     -    -    +    -    +      -      +      -     -
node.list              +     +    +    +    +    +      +      +      +     +
node.change            -     -    -    -    -    +      -      +      -     -
cluster.read           -     -    -    -    -    +      -      +      -     -
cluster.change         -     -    -    -    -    +      -      +      -     -
scheduler.snapshot     -     -    -    -    -    +      -      +      -     -
alert.list             +     +    +    +    +    +      +      +      +     +
job.list               +     +    +    +    +    +      +      +      +     +
job.submit             -     +    +    +    +    +      +      +      -     +
job.read               +     -    +    +    +    +      +      +      +     +
job.config             +     -    +    +    +    +      +      +      +     +
job.logs               -     -    -    +    +    +      +      +      +     +
job.ssh                -     -    -    -    +    +      +      +      +     +
job.stop               -     -    -    +    +    +      +      +      -     +
job.stop:each          +     +    +    +    +    +      +      +      -     +
job.tag                -     -    -    +    +    +      +      +      -     +
job.priority           -     -    -    +    +    +      +      +      -     +
job.rank               -     -    -    +    -    +      -      +      -     -
job.checkpoint         -     -    -    -    +    +      +      +      -     +
job.archive            -     -    -    -    +    +      +      +      -     +
job.delete             -     -    -    -    +    +      +      +      -     +
storage.list           +     +    +    +    +    +      +      +      +     +
storage.read           -     -    +    -    -    +      -      +      -     -
storage.write          -     -    +    -    -    +      -      +      -     -
storage.change         -     -    -    -    -    +      -      +      -     -
report.own             +     +    +    +    +    +      +      +      +     +
audit.own              +     +    +    +    +    +      +      +      +     +
"""

ROUTES: Final = """
POST    /api/v2/jobs                                                    job.submit
GET     /api/v2/jobs                                                    job.list
GET     /api/v2/jobs/{job}                                              job.read
GET     /api/v2/jobs/{job}/attempts/{number}                            job.read
PUT     /api/v2/jobs/{job}/executionType                                job.stop
GET     /api/v2/jobs/{job}/config                                       job.config
GET     /api/v2/jobs/{job}/events                                       job.read
GET     /api/v2/jobs/{job}/why                                          job.read
GET     /api/v2/jobs/{job}/ssh                                          job.ssh
POST    /api/v2/jobs/bulk                                               job.stop:each
PUT     /api/v2/jobs/{job}/archive                                      job.archive
DELETE  /api/v2/jobs/{job}/archive                                      job.archive
DELETE  /api/v2/jobs/{job}                                              job.delete
PUT     /api/v2/jobs/{job}/tag                                          job.tag
DELETE  /api/v2/jobs/{job}/tag                                          job.tag
PUT     /api/v2/jobs/{job}/priority                                     job.priority
PUT     /api/v2/jobs/{job}/rank                                         job.rank
POST    /api/v2/jobs/{job}/checkpoint                                   job.checkpoint
GET     /api/v2/jobs/{job}/job-attempts/healthz                         job.list
GET     /api/v2/jobs/{job}/job-attempts                                 job.read
GET     /api/v2/jobs/{job}/job-attempts/{number}                        job.read
GET     /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts                        job.read
GET     /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/logs         job.logs
GET     /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/logs/{name}  job.logs

GET     /api/v2/nodes                                                   node.list
PUT     /api/v2/nodes/{name}                                            node.change
DELETE  /api/v2/nodes/{name}                                            node.change
GET     /api/v2/virtual-clusters                                        vc.list
GET     /api/v2/virtual-clusters/{vc}                                   vc.list
PUT     /api/v2/virtual-clusters/{vc}                                   vc.change
DELETE  /api/v2/virtual-clusters/{vc}                                   vc.change
PUT     /api/v2/virtual-clusters/{vc}/status                            vc.change
GET     /api/v2/cluster/sku-types                                       vc.list
GET     /api/v2/cluster/config                                          cluster.read
PUT     /api/v2/cluster/config                                          cluster.change
GET     /api/{v2|v1}/kubernetes/nodes                                   cluster.read
GET     /api/{v2|v1}/kubernetes/pods                                    cluster.read
GET     /api/v2/alerts                                                  alert.list
GET     /v1/inspect/clusterstatus                                       vc.inspect
GET     /v1/inspect/clusterstatus/physicalcluster                       vc.inspect
GET     /v1/inspect/clusterstatus/virtualclusters                       vc.inspect
GET     /v1/inspect/clusterstatus/virtualclusters/                      vc.inspect
GET     /v1/inspect/clusterstatus/virtualclusters/{vc}                  vc.inspect
GET     /v1/inspect/affinitygroups                                      vc.inspect
GET     /v1/inspect/affinitygroups/                                     vc.inspect
GET     /v1/inspect/affinitygroups/{name:path}                          vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus                         vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus/physicalcluster         vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus/virtualclusters         vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus/virtualclusters/        vc.inspect
GET     /api/v2/scheduler/inspect/clusterstatus/virtualclusters/{vc}    vc.inspect
GET     /api/v2/scheduler/inspect/affinitygroups                        vc.inspect
GET     /api/v2/scheduler/inspect/affinitygroups/                       vc.inspect
GET     /api/v2/scheduler/inspect/affinitygroups/{name:path}            vc.inspect
GET     /api/v2/scheduler/snapshot                                      scheduler.snapshot
GET     /api/v2/scheduler/fairness                                      vc.list
PUT     /api/v2/scheduler/fairness                                      cluster.change

GET     /api/{v2/tokens|v1/token}                                       token.list
DELETE  /api/{v2/tokens|v1/token}                                       token.revoke
POST    /api/{v2/tokens|v1/token}/application                           token.create
DELETE  /api/{v2/tokens|v1/token}/{token}                               token.revoke
GET     /api/{v2/tokens|v1/token}/check                                 token.check
DELETE  /api/{v2|v1}/authn/basic/logout                                 logout
GET     /api/v2/{users|user}                                            user.list
GET     /api/v2/{users|user}/me                                         user.details:me
GET     /api/v2/{users|user}/{username}                                 user.read
GET     /api/v1/user/{username}                                         user.read
POST    /api/v2/{users|user}                                            user.add
PUT     /api/v2/{users|user}                                            user.change
PUT     /api/v2/{users|user}/me                                         user.change_own:me
DELETE  /api/v2/{users|user}/{username}                                 user.remove
PUT     /api/v2/{users|user}/{username}/grouplist                       user.change
PUT     /api/v2/{users|user}/{username}/group                           user.change
DELETE  /api/v2/{users|user}/{username}/group                           user.change
PUT     /api/v2/{users|user}/{username}/virtualcluster                  user.change
PUT     /api/v2/{users|user}/{username}/admin                           user.change
PUT     /api/v2/{users|user}/{username}/extension                       user.change_own
PUT     /api/v2/{users|user}/{username}/email                           user.change_own
PUT     /api/v2/{users|user}/{username}/password                        user.change_own
GET     /api/v2/{users|user}/{username}/tokens                          user.tokens
DELETE  /api/v2/{users|user}/{username}/tokens                          user.sign_out
GET     /api/v2/{groups|group}                                          group.list
GET     /api/v2/{groups|group}/{groupname}                              group.list
GET     /api/v2/{groups|group}/{groupname}/userlist                     group.members
POST    /api/v2/{groups|group}                                          group.change
PUT     /api/v2/{groups|group}                                          group.change
DELETE  /api/v2/{groups|group}/{groupname}                              group.change
PUT     /api/v2/{groups|group}/{groupname}/extension                    group.change
PUT     /api/v2/{groups|group}/{groupname}/extension/{path:path}        group.change
PUT     /api/v2/{groups|group}/{groupname}/description                  group.change
PUT     /api/v2/{groups|group}/{groupname}/externalname                 group.change

GET     /api/v2/storages                                                storage.list
POST    /api/v2/storages                                                storage.change
GET     /api/v2/storages/{name}                                         storage.read
PUT     /api/v2/storages/{name}                                         storage.change
DELETE  /api/v2/storages/{name}                                         storage.change
POST    /api/v2/storages/{name}/test                                    storage.change
PUT     /api/v2/storages/{name}/groups/{group}                          storage.change
DELETE  /api/v2/storages/{name}/groups/{group}                          storage.change
GET     /api/v2/storages/{name}/files                                   storage.read
GET     /api/v2/storages/{name}/files/{path:path}                       storage.read
PUT     /api/v2/storages/{name}/files/{path:path}                       storage.write
DELETE  /api/v2/storages/{name}/files/{path:path}                       storage.write
GET     /api/v2/storage/config                                          storage.list
GET     /api/v2/storage/config/{name}                                   storage.read
GET     /api/v2/storage/server                                          storage.list
GET     /api/v2/storage/server/{name}                                   storage.read

GET     /api/v2/quotas                                                  quota.list
PUT     /api/v2/quotas                                                  quota.change
DELETE  /api/v2/quotas                                                  quota.change
GET     /api/v2/quotas/me                                               quota.own
GET     /api/v2/reports/use                                             report.own
GET     /api/v2/audit                                                   audit.own

GET     /healthz                                                        -
GET     /api/{v2|v1}/authn/info                                         -
POST    /api/{v2/tokens|v1/token}                                       -
POST    /api/{v2|v1}/authn/basic/login                                  -
GET     /api/{v2|v1}/authn/oidc/login                                   -
GET     /api/{v2|v1}/authn/oidc/return                                  -
POST    /api/{v2|v1}/authn/oidc/return                                  -
GET     /api/{v2|v1}/authn/oidc/logout                                  -
POST    /api/v2/authn/oidc/token                                        -
ANY     /api/{v2/info|v2/|v1/}                                          -
"""

# What is said where a route wants to know that before it looks who is allowed.
BODIES: Final[Mapping[str, Any]] = {
    "PUT /api/v2/jobs/{job}/executionType": {"value": "STOP"},
    "PUT /api/v2/jobs/{job}/tag": {"value": "tag"},
    "DELETE /api/v2/jobs/{job}/tag": {"value": "tag"},
    "PUT /api/v2/jobs/{job}/priority": {"value": "prod"},
    "PUT /api/v2/jobs/{job}/rank": {"value": "front"},
    "PUT /api/v2/quotas": {"virtualCluster": "team", "gpusRunning": 1},
}
QUERIES: Final[Mapping[str, str]] = {"DELETE /api/v2/quotas": "?virtualCluster=team"}

_NAMES: Final = {"nodes": "n1", "storages": "data", "config": "data", "server": "data", "logs": "stdout"}
_FILLED: Final = {
    "job": "ann~train",
    "number": "0",
    "role": "worker",
    "index": "0",
    "attempt": "0",
    "username": "ann",
    "groupname": "team",
    "group": "team",
    "vc": "team",
    "token": "0" * 64,
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


def test_every_route_is_on_this_page_with_the_action_it_names() -> None:
    served = _served()
    expected = {(route.method, route.path): route.action for route in EXPECTED if route.method != "ANY"}
    for route in EXPECTED:
        if route.method == "ANY":
            expected |= {at: "" for at in served if at[1] == route.path}
    assert {at: served[at] for at in served.keys() - expected.keys()} == {}, "routes that this page does not know"
    assert {at: expected[at] for at in expected.keys() - served.keys()} == {}, "routes that are not there"
    assert {at: action for at, action in served.items() if action != expected[at]} == {}, "routes of another action"


def test_a_route_that_asks_for_nothing_is_listed_as_open() -> None:
    is_open = {f"{method} {path}" for (method, path), action in _served().items() if not action}
    listed = {name for name in is_open if name in OPEN or f"* {name.split()[1]}" in OPEN}
    assert is_open == listed
    paths = {name.split()[1] for name in is_open}
    assert {name.split()[1] for name in OPEN} == paths
    assert set(OPEN.values()) <= ACTIONS.keys()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        yield world


async def _people(world: World, root: Path) -> dict[str, dict[str, str]]:
    """Let everybody in; return the headers each of them sends."""
    await world.users.add_group(Group("team", virtual_clusters=("team",)))
    await world.users.add_group(Group("data", storages=("data",)))
    await world.users.add_group(Group("leads", managed=("team",)))
    everyone, team, data, leads = (Group(name) for name in (DEFAULT_GROUP, "team", "data", "leads"))
    await world.users.add_user(User("vera", "", 1, groups=(everyone, team), is_viewer=True))
    await world.users.add_user(User("mia", "", 1, groups=(everyone, team, data)))
    await world.users.add_user(User("max", "", 1, groups=(everyone, leads)))
    (root / "data").mkdir()
    said = {"name": "data", "type": "local", "data": {"path": str(root / "data")}}
    await world.api.state.desk.services.storages.add(said)
    open_ = world.api.state.desk.sessions.open
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
    """Let ann have run a job in the virtual cluster `team`."""
    id_ = await world.submit("train")
    await world.grant()
    key = AttemptKey(id_, 0, "worker", 0, 0)
    await world.started(key)
    await world.exited(key)
    with sqlite3.connect(root / "pai.db") as database:
        database.execute("UPDATE jobs SET virtual_cluster = 'team'")
    database.close()


class Shut:
    """A platform that does nothing: what lies behind the door is for other tests."""

    def __getattr__(self, name: str) -> Any:
        async def nothing(*args: Any, **more: Any) -> Any:
            raise Unavailable("nobody leads")

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


async def test_every_route_lets_in_whom_it_should_and_nobody_else(world: World, tmp_path: Path) -> None:
    headers = await _people(world, tmp_path)
    await _job(world, tmp_path)
    copy = Copy(tmp_path / "pai.db")
    desk = world.api.state.desk
    world.api.state.desk = replace(desk, services=replace(desk.services, platform=Shut()))
    wrong: list[str] = []
    for route in EXPECTED:
        # First who is to be turned away: they should find what is there, not what others left of it.
        for who in sorted(PEOPLE, key=lambda who: _is_expected(route, who)):
            answer = await _asked(world, route, headers[who])
            is_let_in = _is_let_in(answer)
            if is_let_in != _is_expected(route, who) or answer.status_code == 500:
                told = f"{answer.status_code} {answer.text[:100]}"
                wrong.append(f"{route.method} {route.url} as {who}: let in: {is_let_in}: {told}")
            if route.method != "GET" and answer.status_code < 400:
                copy.restore()
                world.api.state.desk.sessions.forget_all()
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


async def test_everybody_is_denied_with_the_status_that_says_whether_a_login_would_help(
    world: World, tmp_path: Path
) -> None:
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

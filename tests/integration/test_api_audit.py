"""The audit log over HTTP: who did what, who may read it, and that nothing that changes something goes unnoticed."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from typing import Any

import pytest
from fastapi.routing import APIRoute

from openpai.access.model import Scope
from openpai.access.table import ACTIONS, open_action
from openpai.api.app import ROUTERS
from openpai.api.context import action_of
from openpai.ports.usage import AuditEntry, AuditFilter
from openpai.protocol.errors import Unavailable
from openpai.store.usage import SqlUsageStore

from .api_world import PASSWORD, World
from .sign_on import Liar, sign_on_with

READING = {"GET", "HEAD", "OPTIONS"}
LOGIN = "/api/v2/authn/basic/login"
# What needs the permission to change something, and changes nothing.
CHECKING = {"POST /api/v2/jobs/check"}
ENDING_A_LOGIN = {"logout", "token.revoke", "user.sign_out"}


async def entries(world: World, **asked: Any) -> list[AuditEntry]:
    """Return what the log holds, oldest first."""
    rows = await SqlUsageStore(world.database).audit(AuditFilter(limit=1000, **asked))
    return [row.entry for row in reversed(rows)]


async def newest(world: World) -> AuditEntry:
    return (await entries(world))[-1]


def changing_routes() -> list[tuple[str, str, str]]:
    """Return method, path and action of each route that may change something."""
    routes = [route for module in ROUTERS for route in module.router.routes if isinstance(route, APIRoute)]
    found = []
    for route in routes:
        for method in sorted((route.methods or set()) - READING):
            action = action_of(route) or open_action(method, route.path) or "unknown"
            if action == "login" or action not in ACTIONS or ACTIONS[action].scope is not Scope.READ:
                found.append((method, route.path, action))
    # The provider's answer comes twice, and the first logs no user in.
    return [
        (method, path, action)
        for method, path, action in found
        if not path.endswith("/oidc/return") and f"{method} {path}" not in CHECKING
    ]


def filled(path: str) -> str:
    for name in ("number", "index", "attempt"):
        path = path.replace(f"{{{name}}}", "0")
    return re.sub(r":\w+\}", "}", path).replace("{", "").replace("}", "")


def body_of(action: str, path: str) -> dict[str, Any]:
    if action != "login":
        return {}
    return {"code": "x", "verifier": "x"} if "oidc" in path else {"username": "ann", "password": "wrong-one"}


async def test_every_route_that_changes_something_leaves_an_entry_for_every_user(world: World) -> None:
    # Without a provider no user can try to log in at its addresses.
    sign_on_with(world, Liar(world).provider())
    routes = changing_routes()
    assert len(routes) > 50
    for method, path, action in routes:
        for user in ("root", None):
            # Strangers may write slowly only, and so may those who fail to log in.
            world.clock.at_ms += 120_000
            headers = await world.login(user) if user else {}
            before = await entries(world)
            answer = await world.http.request(method, filled(path), headers=headers, json=body_of(action, path))
            after = await entries(world)
            assert len(after) == len(before) + 1, (method, path, user, answer.status_code, answer.text)
            entry = after[-1]
            assert (entry.action, entry.status) == (action, answer.status_code), (method, path, user)
            assert entry.actor == ("" if user is None or action == "login" else user), (method, path)
            assert entry.detail["request"] == f"{method} {path}"
            if action in ENDING_A_LOGIN:
                world.tokens.clear()


async def test_reading_leaves_no_entry(world: World) -> None:
    await world.login("ann")
    before = await entries(world)
    for path in ("/jobs", "/audit", "/quotas/me", "/users/me", "/reports/use"):
        assert (await world.ask("GET", path)).status_code == 200
    assert (await world.ask("POST", "/jobs/check", content=b"nonsense: {")).status_code == 400
    assert await entries(world) == before


async def test_an_entry_names_the_user_the_action_the_target_and_the_address(world: World) -> None:
    body = {"username": "eve", "password": "secret-of-eve", "email": "eve@example.com"}
    assert (await world.ask("POST", "/users", "root", json=body)).status_code == 201
    entry = await newest(world)
    assert (entry.actor, entry.action, entry.target, entry.owner) == ("root", "user.add", "eve", "eve")
    assert (entry.via, entry.address, entry.status) == ("login", "192.0.2.7", 201)
    assert entry.detail == {"request": "POST /api/v2/users", "username": "eve"}


async def test_what_was_refused_is_written_too(world: World) -> None:
    assert (await world.ask("DELETE", "/users/bob", "ann")).status_code == 403
    entry = await newest(world)
    assert (entry.actor, entry.action, entry.target, entry.status) == ("ann", "user.remove", "bob", 403)


async def test_logins_are_written_and_mistyped_names_are_not(world: World) -> None:
    for name, password, status in (("ann", PASSWORD, 200), ("ann", "wrong-one", 400), ("hunter2", "wrong-one", 400)):
        answer = await world.http.post(LOGIN, json={"username": name, "password": password})
        assert answer.status_code == status
    message = [(entry.actor, entry.target, entry.status) for entry in await entries(world)]
    assert message == [("ann", "ann", 200), ("", "ann", 400), ("", "", 400)]
    assert "hunter2" not in str(await entries(world))


async def test_an_application_is_named_by_its_token(world: World) -> None:
    made = await world.ask("POST", "/tokens/application", json={"name": "nightly"})
    assert (await newest(world)).target == "nightly"
    headers = {"Authorization": f"Bearer {made.json()['token']}"}
    await world.http.put("/api/v2/jobs/none/executionType", headers=headers, json={"value": "STOP"})
    entry = await newest(world)
    assert (entry.actor, entry.via, entry.action, entry.status) == ("ann", "nightly", "job.stop", 404)


async def test_a_revoked_token_is_not_written_down(world: World) -> None:
    token = (await world.ask("POST", "/tokens/application")).json()["token"]
    await world.ask("DELETE", f"/tokens/{token}")
    entry = await newest(world)
    assert entry.action == "token.revoke"
    assert len(entry.target) == 12
    assert token not in str(await entries(world))


async def test_a_submission_brings_its_entry_into_its_own_transaction(world: World) -> None:
    await world.submit("train")
    (entry,) = await entries(world, actions=("job.submit",))
    assert (entry.actor, entry.target, entry.owner, entry.status) == ("ann", "ann~train", "ann", 202)
    again = await world.ask("POST", "/jobs", content=b"nonsense: {")
    assert again.status_code == 400
    assert (await newest(world)).status == 400


async def test_a_request_about_several_jobs_leaves_an_entry_for_each(world: World) -> None:
    for name in ("one", "two"):
        await world.submit(name)
    promise = {"action": "stop", "jobs": ["ann~one", "ann~two", "ann~three"]}
    assert (await world.ask("POST", "/jobs/bulk", "root", json=promise)).status_code == 200
    message = {(entry.target, entry.owner, entry.status) for entry in await entries(world, actions=("job.stop",))}
    assert message == {("ann~one", "ann", 200), ("ann~two", "ann", 200), ("ann~three", "ann", 404)}
    assert {row["target"] for row in (await world.get("/audit", action="job.stop"))["entries"]} == {
        target for target, _, _ in message
    }


async def test_owners_read_what_was_done_to_theirs_and_not_from_where(world: World) -> None:
    await world.submit("train")
    await world.ask("PUT", "/jobs/ann~train/executionType", "root", json={"value": "STOP"})
    await world.ask("PUT", "/jobs/none/executionType", "bob", json={"value": "STOP"})
    rows = (await world.get("/audit"))["entries"]
    assert [(row["actor"], row["action"]) for row in rows] == [
        ("root", "job.stop"),
        ("ann", "job.submit"),
        ("ann", "login"),
    ]
    assert (rows[0]["address"], rows[0]["via"], rows[1]["address"]) == ("", "", "192.0.2.7")
    everything = (await world.get("/audit", "root"))["entries"]
    assert {row["actor"] for row in everything} == {"ann", "bob", "root"}
    assert all(row["address"] == "192.0.2.7" for row in everything)


async def test_only_users_who_may_read_everything_ask_about_others(world: World) -> None:
    answer = await world.ask("GET", "/audit", "bob", params={"concerning": "ann"})
    assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")
    assert (await world.ask("GET", "/audit", "root", params={"concerning": "ann"})).status_code == 200


async def test_the_log_is_filtered_and_read_page_by_page(world: World) -> None:
    await world.login("root")
    start = world.clock.at_ms
    for number in range(5):
        world.clock.at_ms += 1000
        await world.ask("DELETE", f"/users/nobody-{number}", "root")
    page = await world.get("/audit", "root", action="user.remove", limit=2)
    assert [row["target"] for row in page["entries"]] == ["nobody-4", "nobody-3"]
    rest = await world.get("/audit", "root", action="user.remove", limit=100, before=page["next"])
    assert [row["target"] for row in rest["entries"]] == ["nobody-2", "nobody-1", "nobody-0"]
    assert rest["next"] is None
    some = await world.get("/audit", "root", **{"from": start + 2000, "to": start + 4000, "actor": "root"})
    assert [row["target"] for row in some["entries"]] == ["nobody-2", "nobody-1"]
    assert (await world.get("/audit", "root", target="nobody-3"))["entries"][0]["status"] == 404
    answer = await world.ask("GET", "/audit", "root", params={"from": "yesterday"})
    assert answer.json()["code"] == "InvalidParametersError"


async def test_the_log_as_csv_holds_no_formula(world: World) -> None:
    await world.ask("DELETE", "/users/=HYPERLINK(1)", "root")
    answer = await world.ask("GET", "/audit", "root", params={"format": "csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert rows[0]["target"] == "'=HYPERLINK(1)"
    assert rows[0]["time"].startswith("2023-11-14T")


async def test_strangers_cannot_flood_the_log(world: World) -> None:
    for _ in range(70):
        await world.http.delete("/api/v2/users/ann")
    assert len(await entries(world)) == 60
    world.clock.at_ms += 10_000
    await world.http.delete("/api/v2/users/ann")
    assert (await newest(world)).detail["leftOut"] == 10


async def test_what_cannot_be_written_down_is_not_answered_as_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.login("root")

    async def refuse(self: SqlUsageStore, entry: AuditEntry) -> None:
        await asyncio.sleep(0)
        raise Unavailable("the disk that holds the database is full")

    monkeypatch.setattr(SqlUsageStore, "note", refuse)
    answer = await world.ask("DELETE", "/users/bob", "root")
    assert (answer.status_code, answer.json()["code"]) == (503, "UnavailableError")

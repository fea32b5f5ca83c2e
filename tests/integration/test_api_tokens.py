"""Tokens: what they may be used for, how long, and how they are taken back."""

from __future__ import annotations

from typing import Any

import pytest

from openpai.api.token_format import new_token

from .api_world import PASSWORD, World


async def new(world: World, user: str = "ann", **promise: Any) -> dict[str, str]:
    """Return the headers that go with a new token of an application."""
    answer = await world.ask("POST", "/tokens/application", user, json=promise)
    assert answer.status_code == 200, answer.text
    return {"Authorization": f"Bearer {answer.json()['token']}"}


async def status(world: World, headers: dict[str, str], method: str = "GET", path: str = "/jobs", **more: Any) -> int:
    return (await world.http.request(method, f"/api/v2{path}", headers=headers, **more)).status_code


async def test_tokens_are_listed_by_ids_and_revoked_by_id_or_token(world: World) -> None:
    app = (await world.ask("POST", "/tokens/application")).json()["token"]
    listed = await world.get("/tokens")
    assert len(listed["tokens"]) == 2
    assert app not in str(listed)
    assert world.tokens["ann"] not in str(listed)
    [current] = [token for token in listed["details"] if token["current"]]
    [applications] = [token["id"] for token in listed["details"] if token["application"]]
    assert current["expirationTime"] == world.clock.at_ms + 86_400_000
    assert (await world.ask("DELETE", f"/tokens/{applications}", "bob")).status_code == 403
    assert (await world.ask("DELETE", f"/tokens/{applications}")).status_code == 200
    assert (await world.http.get("/api/v2/jobs", headers={"Authorization": f"Bearer {app}"})).status_code == 401
    missing = await world.ask("DELETE", f"/tokens/{applications}")
    assert (missing.status_code, missing.json()["code"]) == (404, "NoTokenError")
    assert (await world.ask("DELETE", f"/tokens/{world.tokens['ann']}")).status_code == 200
    assert (await world.ask("GET", "/tokens")).status_code == 401


async def test_the_id_of_a_token_is_distinguished_from_a_token(world: World) -> None:
    await world.ask("POST", "/tokens/application")
    listed = await world.get("/tokens")
    for id_ in (listed["tokens"][0], listed["details"][0]["id"]):
        answer = await world.http.get("/api/v2/tokens", headers={"Authorization": f"Bearer {id_}"})
        assert answer.status_code == 401
        assert "id of a token" in answer.json()["message"]
    assert (await world.ask("DELETE", f"/tokens/{listed['tokens'][0]}")).status_code == 200


async def test_what_a_token_says_of_itself_is_not_believed(world: World) -> None:
    token = (await world.ask("POST", "/tokens/application")).json()["token"]
    header, _, secret = token.split(".")
    as_root = new_token("root", is_application=False, created_at_ms=0, expires_at_ms=None).split(".")[1]
    for forged in (f"{header}.{as_root}.{secret}", f"{header}.{as_root}.", f"{token}x", token.swapcase()):
        answer = await world.http.get("/api/v2/users/root", headers={"Authorization": f"Bearer {forged}"})
        assert answer.status_code == 401
    checked = await world.http.get("/api/v2/tokens/check", headers={"Authorization": f"Bearer {token}"})
    assert checked.json()["username"] == "ann"


async def test_expired_tokens_are_not_listed(world: World) -> None:
    short = {"username": "ann", "password": PASSWORD, "expiration": 60}
    await world.http.post("/api/v2/tokens", json=short)
    assert len((await world.get("/tokens"))["tokens"]) == 2
    world.clock.at_ms += 60_000
    assert len((await world.get("/tokens"))["tokens"]) == 1
    assert len(await world.users.tokens("ann")) == 1


async def test_an_application_gets_a_name_a_scope_and_an_end(world: World) -> None:
    made = await world.ask("POST", "/tokens/application", json={"name": "nightly", "scope": "read", "expiration": 60})
    assert made.json() == {"token": made.json()["token"], "application": True, "name": "nightly", "scope": "read"}
    headers = {"Authorization": f"Bearer {made.json()['token']}"}
    [shown] = [each for each in (await world.get("/tokens"))["details"] if each["application"]]
    assert (shown["name"], shown["scope"], shown["current"]) == ("nightly", "read", False)
    assert shown["expirationTime"] == world.clock.at_ms + 60_000
    checked = (await world.http.get("/api/v2/tokens/check", headers=headers)).json()
    assert (checked["scope"], checked["exp"]) == ("read", world.clock.at_ms // 1000 + 60)
    assert await status(world, headers) == 200
    world.clock.at_ms += 60_000
    assert await status(world, headers) == 401


async def test_a_scope_is_as_far_as_a_token_reaches(world: World) -> None:
    await world.submit("train", "root")
    stop = {"json": {"value": "STOP"}}
    for scope, seen, stopped, promised in (("read", 200, 403, 403), ("jobs", 200, 202, 403), ("all", 200, 202, 400)):
        headers = await new(world, "root", scope=scope)
        assert await status(world, headers) == seen
        assert await status(world, headers, "PUT", "/jobs/root~train/executionType", **stop) == stopped, scope
        assert await status(world, headers, "PUT", "/virtual-clusters/team", json={}) == promised
        for method, path in (("GET", "/tokens"), ("POST", "/tokens/application"), ("POST", "/users")):
            assert await status(world, headers, method, path) == 403, (scope, path)


@pytest.mark.parametrize(
    "promise", [{"scope": "admin"}, {"expiration": 59}, {"expiration": 10**12}, {"name": "x" * 256}, {"color": 1}, []]
)
async def test_a_value_that_cannot_be_is_refused(world: World, promise: Any) -> None:
    refused = await world.ask("POST", "/tokens/application", json=promise)
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidParametersError")


async def test_all_tokens_are_taken_back_together(world: World) -> None:
    body = {"username": "ann", "password": PASSWORD}
    app, headers = await new(world), await world.login("ann")
    other = {"Authorization": f"Bearer {(await world.http.post('/api/v2/tokens', json=body)).json()['token']}"}
    bob = await world.login("bob")
    for query, count, left in (
        ("?browser=false", 1, {"other": 200, "app": 401, "headers": 200}),
        ("?browser=true", 2, {"other": 401, "app": 401, "headers": 401}),
    ):
        answer = await world.http.delete(f"/api/v2/tokens{query}", headers=headers)
        assert answer.json()["revoked"] == count
        for name, expected in left.items():
            token = {"other": other, "app": app, "headers": headers}[name]
            assert await status(world, token) == expected, (query, name)
    assert await status(world, bob) == 200


async def test_an_administrator_ends_the_logins_of_a_user(world: World) -> None:
    app, headers = await new(world), await world.login("ann")
    listed = await world.get("/users/ann/tokens", "root")
    assert [each["application"] for each in listed["details"]] == [False, True]
    assert world.tokens["ann"] not in str(listed)
    for method in ("GET", "DELETE"):
        assert await status(world, await world.login("bob"), method, "/users/ann/tokens") == 403
        missing = await world.ask(method, "/users/nobody/tokens", "root")
        assert (missing.status_code, missing.json()["code"]) == (404, "NoUserError")
    assert await status(world, headers) == await status(world, app) == 200
    answer = await world.ask("DELETE", "/users/ann/tokens?browser=true", "root")
    assert answer.json()["revoked"] == 1
    assert (await status(world, headers), await status(world, app)) == (401, 200)
    answer = await world.ask("DELETE", "/users/ann/tokens", "root")
    assert answer.json()["revoked"] == 1
    assert await status(world, app) == 401


async def test_a_removed_users_tokens_open_nothing_even_for_a_namesake(world: World) -> None:
    app = await new(world)
    assert await status(world, app) == 200
    assert (await world.ask("DELETE", "/users/ann", "root")).status_code == 200
    assert await status(world, app) == 401
    assert (
        await world.ask("POST", "/users", "root", json={"username": "ann", "password": "secret"})
    ).status_code == 201
    assert await status(world, app) == 401

"""Logging in, tokens, users: who is let in, who is not, and what a stranger learns."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .api_world import PASSWORD, World, open_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        yield world


async def test_a_login_gives_a_token_that_says_who_one_is(world: World) -> None:
    body = {"username": "root", "password": PASSWORD, "expiration": 120}
    answer = await world.http.post("/api/v2/authn/basic/login", json=body)
    assert answer.json() == {"user": "root", "token": answer.json()["token"], "admin": True, "hasGitHubPAT": False}
    assert len(answer.json()["token"]) >= 43
    headers = {"Authorization": f"Bearer {answer.json()['token']}"}
    checked = (await world.http.get("/api/v2/tokens/check", headers=headers)).json()
    now_s = world.clock.at_ms // 1000
    assert checked == {
        "username": "root",
        "application": False,
        "jobSpecific": False,
        "encodedFrameworkName": "",
        "iat": now_s,
        "exp": now_s + 120,
        "admin": True,
        "scope": "all",
    }


@pytest.mark.parametrize("path", ["/api/v2/tokens", "/api/v1/token", "/api/v1/authn/basic/login"])
async def test_a_login_may_be_a_form_and_go_to_any_of_its_addresses(world: World, path: str) -> None:
    answer = await world.http.post(path, data={"username": "ann", "password": PASSWORD, "expiration": "60"})
    assert answer.status_code == 200
    assert answer.json()["user"] == "ann"


async def test_a_token_expires_when_it_was_asked_to(world: World) -> None:
    body = {"username": "ann", "password": PASSWORD, "expiration": 60}
    token = (await world.http.post("/api/v2/tokens", json=body)).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    world.clock.at_ms += 59_999
    assert (await world.http.get("/api/v2/tokens/check", headers=headers)).status_code == 200
    world.clock.at_ms += 1
    answer = await world.http.get("/api/v2/tokens/check", headers=headers)
    assert (answer.status_code, answer.json()["message"]) == (401, "this token has expired")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"username": "ann"}, "password: field required"),
        ({"username": "ann", "password": "short"}, "password: string should have at least 6 characters"),
        ({"username": "a/b", "password": PASSWORD}, "username: string should match pattern"),
        ({"username": "ann", "password": PASSWORD, "expiration": 59}, "expiration: input should be greater than"),
        ({"username": "ann", "password": PASSWORD, "color": "red"}, "color: extra inputs are not permitted"),
        ([], "input should be a valid dictionary"),
    ],
)
async def test_a_login_that_is_not_made_as_it_should_be_says_what_is_wrong(
    world: World, body: object, told: str
) -> None:
    answer = await world.http.post("/api/v2/authn/basic/login", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")
    assert told in answer.json()["message"]
    assert PASSWORD not in answer.text


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
async def test_a_body_that_is_no_json_is_a_bad_request(world: World, content: bytes) -> None:
    answer = await world.http.post("/api/v2/authn/basic/login", content=content)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")


async def test_a_stranger_cannot_tell_a_wrong_name_from_a_wrong_password(world: World) -> None:
    wrong = {"username": "ann", "password": "not her password"}
    nobody = {"username": "nobody", "password": "not her password"}
    answers = [await world.http.post("/api/v2/authn/basic/login", json=body) for body in (wrong, nobody)]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["code"] == "IncorrectPasswordError"


async def test_guessing_a_password_soon_has_to_wait(world: World) -> None:
    body = {"username": "ann", "password": "a wrong guess"}
    answers = [await world.http.post("/api/v2/authn/basic/login", json=body) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [400] * 5 + [429]
    assert answers[-1].json()["code"] == "TooManyRequestsError"
    assert answers[-1].headers["retry-after"] == "60"
    right = {"username": "ann", "password": PASSWORD}
    assert (await world.http.post("/api/v2/authn/basic/login", json=right)).status_code == 429
    others = {"username": "bob", "password": PASSWORD}
    assert (await world.http.post("/api/v2/authn/basic/login", json=others)).status_code == 200
    world.clock.at_ms += 60_000
    assert (await world.http.post("/api/v2/authn/basic/login", json=right)).status_code == 200


async def test_logging_out_ends_that_login_only(world: World) -> None:
    body = {"username": "ann", "password": PASSWORD}
    one, other = [(await world.http.post("/api/v2/tokens", json=body)).json()["token"] for _ in range(2)]
    gone, kept = ({"Authorization": f"Bearer {token}"} for token in (one, other))
    assert (await world.http.get("/api/v2/tokens/check", headers=gone)).status_code == 200
    assert (await world.http.delete("/api/v2/authn/basic/logout", headers=gone)).status_code == 200
    assert (await world.http.get("/api/v2/tokens/check", headers=gone)).status_code == 401
    assert (await world.http.get("/api/v2/tokens/check", headers=kept)).status_code == 200


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer nonsense", "Basic !!!", "Basic YW5u", "Digest x", "Bearer \xe9"]
)
async def test_what_is_no_token_opens_nothing(world: World, header: str) -> None:
    headers = {"Authorization": header.encode("latin-1")}
    answer = await world.http.get("/api/v2/jobs", headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (401, "UnauthorizedUserError")


async def test_an_application_token_works_in_both_schemes_but_not_in_person(world: World) -> None:
    made = (await world.ask("POST", "/tokens/application")).json()
    assert made["application"] is True
    bearer = {"Authorization": f"Bearer {made['token']}"}
    basic = {"Authorization": "Basic " + base64.b64encode(f"ann:{made['token']}".encode()).decode()}
    other = {"Authorization": "Basic " + base64.b64encode(f"bob:{made['token']}".encode()).decode()}
    person = {"Authorization": "Basic " + base64.b64encode(f"ann:{world.tokens['ann']}".encode()).decode()}
    for headers, status in ((bearer, 200), (basic, 200), (other, 401), (person, 401)):
        assert (await world.http.get("/api/v2/jobs", headers=headers)).status_code == status
    refused = await world.http.get("/api/v2/tokens", headers=bearer)
    assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenUserError")
    world.clock.at_ms += 10 * 365 * 86_400_000
    checked = (await world.http.get("/api/v2/tokens/check", headers=bearer)).json()
    assert "exp" not in checked


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


async def test_expired_tokens_are_not_listed(world: World) -> None:
    short = {"username": "ann", "password": PASSWORD, "expiration": 60}
    await world.http.post("/api/v2/tokens", json=short)
    assert len((await world.get("/tokens"))["tokens"]) == 2
    world.clock.at_ms += 60_000
    assert len((await world.get("/tokens"))["tokens"]) == 1
    assert len(await world.users.tokens("ann")) == 1


async def test_a_changed_password_ends_logins_but_not_applications(world: World) -> None:
    app = (await world.ask("POST", "/tokens/application")).json()["token"]
    headers = await world.login("ann")
    path = "/api/v2/users/ann/password"
    wrong = {"newPassword": "brand new", "oldPassword": "not it"}
    assert (await world.http.put(path, headers=headers, json=wrong)).status_code == 403
    right = {"newPassword": "brand new", "oldPassword": PASSWORD}
    assert (await world.ask("PUT", "/users/ann/password", "bob", json=right)).status_code == 403
    assert (await world.http.put(path, headers=headers, json=right)).status_code == 201
    assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 401
    bearer = {"Authorization": f"Bearer {app}"}
    assert (await world.http.get("/api/v2/users/me", headers=bearer)).status_code == 200
    old, new = ({"username": "ann", "password": password} for password in (PASSWORD, "brand new"))
    assert (await world.http.post("/api/v2/tokens", json=old)).status_code == 400
    assert (await world.http.post("/api/v2/tokens", json=new)).status_code == 200
    reset = await world.ask("PUT", "/users/ann/password", "root", json={"newPassword": "from above"})
    assert reset.status_code == 201

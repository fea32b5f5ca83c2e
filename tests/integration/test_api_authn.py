"""Logins, tokens and users: which logins succeed, which fail, and what a stranger learns."""

from __future__ import annotations

import asyncio
import base64
import threading
from pathlib import Path

import httpx
import pytest

from openpai.access.accounts import Token, User
from openpai.api.services import Rate
from openpai.identity import passwords

from .api_world import PASSWORD, World, open_world


async def test_a_login_gives_a_token_that_names_the_user(world: World) -> None:
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
    ("body", "message"),
    [
        ({"username": "ann"}, "password: is missing"),
        ({"username": "ann", "password": ""}, "password: must not be empty"),
        ({"username": "a/b", "password": PASSWORD}, "username: must match "),
        ({"username": "ann", "password": PASSWORD, "expiration": 59}, "expiration: must be at least"),
        ({"username": "ann", "password": PASSWORD, "color": "red"}, "color: is not known here"),
        ([], "must be a mapping of keys to values"),
    ],
)
async def test_a_login_that_is_not_made_as_it_should_be_says_what_is_wrong(
    world: World, body: object, message: str
) -> None:
    answer = await world.http.post("/api/v2/authn/basic/login", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")
    assert message in answer.json()["message"]
    assert PASSWORD not in answer.text


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
async def test_a_body_that_is_no_json_is_a_bad_request(world: World, content: bytes) -> None:
    answer = await world.http.post("/api/v2/authn/basic/login", content=content)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")


async def test_a_stranger_cannot_distinguish_a_wrong_name_from_a_wrong_password(world: World) -> None:
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


async def test_no_login_with_an_old_password_outlives_its_change(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    context = world.api.state.context
    compare = context.passwords.matches

    async def while_it_is_changed(password: str, password_hash: str | None) -> bool:
        is_right = await compare(password, password_hash)
        await world.users.set_password("ann", "another hash")
        return bool(is_right)

    monkeypatch.setattr(context.passwords, "matches", while_it_is_changed)
    answer = await world.http.post("/api/v2/tokens", json={"username": "ann", "password": PASSWORD})
    assert (answer.status_code, answer.json()["code"]) == (400, "IncorrectPasswordError")
    assert await world.users.tokens("ann") == ()


async def test_an_owner_is_not_locked_out_by_guesses_from_many_addresses(world: World) -> None:
    right = {"username": "ann", "password": PASSWORD}

    async def tried(address: str, body: dict[str, str]) -> int:
        transport = httpx.ASGITransport(world.api, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://pai") as http:
            return (await http.post("/api/v2/tokens", json=body)).status_code

    assert await tried("203.0.113.1", right) == 200
    wrong = {"username": "ann", "password": "a wrong guess"}
    answers = [await tried(f"198.51.100.{at}", wrong) for at in range(40)]
    assert answers == [400] * 30 + [429] * 10
    assert await tried("203.0.113.2", right) == 429
    assert await tried("203.0.113.1", right) == 200
    assert await tried("198.51.100.1", {"username": "bob", "password": PASSWORD}) == 200
    assert (await world.http.get("/api/v2/users/me", headers=await world.login("bob"))).status_code == 200
    world.clock.at_ms += 60_000
    assert await tried("203.0.113.2", right) == 200


async def test_no_hash_is_spared_for_a_name_that_does_not_exist(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes: list[str | None] = []
    compare = passwords.is_password

    def counted(password: str, password_hash: str | None) -> bool:
        hashes.append(password_hash)
        return compare(password, password_hash)

    monkeypatch.setattr(passwords, "is_password", counted)
    await world.users.add_user(User("sso", "", 1, source="oidc", subject="s"))
    for name in ("ann", "nobody", "sso"):
        answer = await world.http.post("/api/v2/tokens", json={"username": name, "password": "a wrong guess"})
        assert answer.json()["code"] == "IncorrectPasswordError"
    assert [bool(each) for each in hashes] == [True, False, False]


async def test_in_a_flood_of_logins_some_are_asked_to_retry(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "WAITING_MAX", 2)
    go_on, begun, loop = threading.Event(), asyncio.Semaphore(0), asyncio.get_running_loop()

    def slowly(*_: object) -> bool:
        loop.call_soon_threadsafe(begun.release)
        return go_on.wait(60)

    monkeypatch.setattr(passwords, "is_password", slowly)
    body = {"username": "ann", "password": PASSWORD}
    first = [asyncio.create_task(world.http.post("/api/v2/tokens", json=body)) for _ in range(2)]
    for _ in first:
        await begun.acquire()
    answer = await world.http.post("/api/v2/tokens", json=body)
    assert (answer.status_code, answer.json()["code"]) == (503, "UnavailableError")
    go_on.set()
    assert [(await each).status_code for each in first] == [200] * 2
    assert (await world.http.post("/api/v2/tokens", json=body)).status_code == 200


async def test_a_login_leaves_no_cookie_and_a_cookie_is_no_login(world: World) -> None:
    answer = await world.http.post("/api/v2/tokens", json={"username": "root", "password": PASSWORD})
    token = answer.json()["token"]
    assert "set-cookie" not in answer.headers
    # Another site can make a browser send cookies and forms, and never a header of its own.
    for cookie in (token, f"Bearer {token}"):
        world.http.cookies.clear()
        for name in ("token", "authorization", "session", "pai_token"):
            world.http.cookies.set(name, cookie)
        for path, form in (("/api/v2/users", {"username": "evil", "password": "secret"}), ("/api/v2/jobs", {"a": "b"})):
            origin = {"Origin": "https://evil.example", "Referer": "https://evil.example/"}
            forged = await world.http.post(path, data=form, headers=origin)
            assert (forged.status_code, forged.json()["code"]) == (401, "UnauthorizedUserError")
            for place in ("token", "access_token", "authorization"):
                asked = await world.http.get("/api/v2/users/me", params={place: token})
                assert asked.status_code == 401
    assert await world.users.user("evil") is None


async def test_a_token_is_worth_nothing_after_it_was_given_back(world: World) -> None:
    for path in ("/api/v2/authn/basic/logout", "/api/v2/tokens", "/api/v2/users/ann/tokens"):
        headers = await world.login("ann")
        assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 200
        assert (await world.http.delete(path, headers=headers)).status_code == 200
        for _ in range(2):
            replayed = await world.http.get("/api/v2/users/me", headers=headers)
            assert (replayed.status_code, replayed.json()["code"]) == (401, "UnauthorizedUserError")
        del world.tokens["ann"]


async def test_a_token_revoked_while_it_is_looked_up_is_not_believed_afterwards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = await world.login("ann")
    lookup = world.users.token
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(digest: str) -> tuple[Token, User] | None:
        found = await lookup(digest)
        begun.set()
        await goes_on.wait()
        return found

    monkeypatch.setattr(world.users, "token", slow)
    late = asyncio.create_task(world.http.get("/api/v2/users/me", headers=headers))
    await begun.wait()
    monkeypatch.setattr(world.users, "token", lookup)
    await world.api.state.context.sessions.revoke_all("ann")
    goes_on.set()
    await late
    assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v2/info", 200),
        ("GET", "/healthz", 200),
        ("GET", "/api/v2/users", 401),
        ("POST", "/api/v2/tokens", 400),
        ("GET", "/api/v2/nowhere", 404),
        ("PATCH", "/api/v2/jobs", 405),
    ],
)
async def test_every_answer_has_headers_that_keep_a_browser_from_mischief(
    world: World, method: str, path: str, status: int
) -> None:
    answer = await world.http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "access-control-allow-credentials" not in answer.headers


async def test_a_user_has_one_allowance_however_many_tokens(tmp_path: Path) -> None:
    async with open_world(tmp_path, requests=Rate(0.001, 20)) as world:
        tokens = [await world.api.state.context.sessions.open(user, lifetime_s=99) for user in ("ann", "ann", "bob")]
        one, other, bob = ({"Authorization": f"Bearer {token}"} for token in tokens)
        # A token is not known before it was seen once; until then its address counts.
        for headers in (one, other, bob):
            assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 200
        statuses = [(await world.http.get("/api/v2/users/me", headers=one)).status_code for _ in range(20)]
        assert statuses == [200] * 20
        assert (await world.http.get("/api/v2/users/me", headers=other)).status_code == 429
        assert (await world.http.get("/api/v2/users/me", headers=bob)).status_code == 200


async def test_a_network_has_one_allowance_however_many_addresses(tmp_path: Path) -> None:
    async with open_world(tmp_path, requests=Rate(0.001, 3)) as world:
        statuses = []
        for at in range(4):
            transport = httpx.ASGITransport(world.api, client=(f"2001:db8::{at:x}", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://pai") as http:
                statuses.append((await http.get("/api/v2/info")).status_code)
        assert statuses == [200, 200, 200, 429]

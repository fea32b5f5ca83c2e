"""What the server must not trust: other users' browsers, old tokens, addresses to redirect to, and the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from structlog.testing import capture_logs

from openpai.access.accounts import User
from openpai.api.services import Rate
from openpai.identity import passwords

from .api_world import PASSWORD, World, open_world
from .sign_on import Browser, Liar, sign_on_with
from .test_api_attacks import filled, operations

ELSEWHERE: Final = (
    "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "https://evil.example", "",
    "HTTPS://EVIL.EXAMPLE", "http://pai.evil.example", "http://pai@evil.example", "javascript:alert(1)",
    "https://portal.example.org.evil.example", "https://portal.example.org@evil.example", "http:evil.example",
    "https://portal.example.org:444", "http://portal.example.org", "data:text/html,x", "/\t/evil.example",
    "/\r\nLocation: https://evil.example", " //evil.example", "http://[::1", "http://127.0.0.1.evil.example",
    "http://localhost.evil.example", "https://portal.example.org\\@evil.example", "http://\x00127.0.0.1",
    "ftp://localhost/", "/" + "a" * 3000, "http://[::1].evil.example", "http://[::1]evil.example", "http://127.0.0.1:x",
    "http://127.0.0.1:80:90", " http://127.0.0.1/", "http://localhost@evil.example", "http://localhost:80@evil.example",
)  # fmt: skip
HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "cache-control": "no-store",
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    generous = Rate(1e6, 1_000_000)
    limits = dict.fromkeys(("", "_of_address", "_of_user"), 1_000_000)
    settings = {f"login_failures_per_min{of}": count for of, count in limits.items()}
    async with open_world(tmp_path, requests=generous, lists=generous, **settings) as world:
        yield world


async def test_a_login_goes_back_to_pages_of_ours_and_allowed_ones_and_nowhere_else(world: World) -> None:
    sign_on_with(world, Liar(world).provider(), origins=("https://portal.example.org",))
    for target in ELSEWHERE:
        for answer in (
            await Browser(world).begin(redirect_uri=target),
            await world.http.get("/api/v2/authn/oidc/logout", params={"redirect_uri": target}),
        ):
            assert answer.status_code == 400, (target, answer.headers)
            assert answer.json()["code"] == "InvalidParametersError"
            assert "location" not in answer.headers
    for target in ("/", "/jobs?x=1#top", "https://portal.example.org/x", "http://localhost:4711/", "http://[::1]:9/"):
        answer = await Browser(world).begin(redirect_uri=target)
        assert answer.status_code == 302, target
        assert answer.headers["location"].startswith("https://id.example.org/authorization_endpoint?")
        cookie = answer.headers["set-cookie"].lower()
        assert all(each in cookie for each in ("httponly", "samesite=lax", "path=/api"))
        assert "domain=" not in cookie


async def test_the_cookie_of_a_login_over_https_travels_over_nothing_else(world: World, liar: Liar) -> None:
    context = world.api.state.context
    transport = httpx.ASGITransport(world.api, client=("192.0.2.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="https://pai.example.org") as http:
        object.__setattr__(context.services.sign_on, "public_url", "https://pai.example.org")
        answer = await http.get("/api/v2/authn/oidc/login", params={"challenge": "a" * 43})
    assert "secure" in answer.headers["set-cookie"].lower()


async def test_no_cookie_opens_a_door(world: World) -> None:
    """A page elsewhere can make a browser send cookies and simple forms, and never the header that tokens are in."""
    token = (await world.login("root"))["Authorization"].removeprefix("Bearer ")
    cookies = "; ".join(f"{name}={token}" for name in ("token", "Authorization", "session", "pai_sign_on", "user"))
    simple = {"Cookie": cookies, "Origin": "https://evil.example", "Content-Type": "text/plain"}
    tried = 0
    for method, path, operation in operations(world):
        # OpenPAI's portal has nothing but its cookie there, and both only read what every user may see.
        if "security" in operation and path not in ("/prometheus/api/v1/query", "/prometheus/api/v1/query_range"):
            answer = await world.http.request(method, filled(path), headers=simple, content=b"{}")
            assert (answer.status_code, answer.json()["code"]) == (401, "UnauthorizedUserError"), path
            assert not [name for name in answer.headers if name.startswith("access-control-")]
            tried += 1
    assert tried > 90
    for name in ("token", "access_token", "authorization"):
        assert (await world.http.get("/api/v2/users/me", params={name: token})).status_code == 401


async def test_a_page_elsewhere_gets_nothing_that_lets_it_ask(world: World) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "DELETE"}
    for path in ("/api/v2/users/ann", "/api/v2/jobs"):
        answer = await world.http.options(path, headers=asked)
        assert answer.status_code == 405
        assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_every_answer_is_safe_to_show(world: World, liar: Liar) -> None:
    for headers in ({}, await world.login("root")):
        for method, path, _ in operations(world):
            if path.endswith(("/logout", "/tokens")) and method == "DELETE":
                continue  # would end the login this test goes on with
            answer = await world.http.request(method, filled(path), headers=headers)
            for name, value in HEADERS.items():
                assert answer.headers.get(name) == value, (method, path, name)
            assert "server" not in answer.headers
            assert "x-powered-by" not in answer.headers
            if "/oidc/" not in path:
                assert "set-cookie" not in answer.headers, path
    for path in ("/docs", "/openapi.json", "/nothing", "/", "/nothing/<script>alert(1)</script>"):
        answer = await world.http.get(path)
        for name in HEADERS if path != "/docs" else ("x-content-type-options", "x-frame-options", "referrer-policy"):
            assert answer.headers.get(name) == HEADERS[name], (path, name)


async def test_no_token_in_an_address_gets_into_the_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    headers, token = await world.login("ann"), await _token(world)

    async def broken(digest: str) -> None:
        raise ValueError("the store is beside itself")

    monkeypatch.setattr(world.api.state.context.sessions, "revoke", broken)
    with capture_logs() as logged:
        answer = await world.http.delete(f"/api/v2/tokens/{token}", headers=headers)
    assert answer.status_code == 500
    assert [line["path"] for line in logged] == ["/api/v2/tokens/{token}"]
    assert token not in str(logged)


async def _status(world: World, token: str) -> int:
    return (await world.http.get("/api/v2/users/me", headers={"Authorization": f"Bearer {token}"})).status_code


async def _token(world: World, user: str = "ann", password: str = PASSWORD) -> str:
    answer = await world.http.post("/api/v2/tokens", json={"username": user, "password": password})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


async def _application(world: World, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}"}
    return str((await world.http.post("/api/v2/tokens/application", headers=headers)).json()["token"])


async def test_a_token_is_worth_nothing_after_logging_out(world: World) -> None:
    token = await _token(world)
    assert await _status(world, token) == 200
    await world.http.delete("/api/v2/authn/basic/logout", headers={"Authorization": f"Bearer {token}"})
    assert [await _status(world, token) for _ in range(3)] == [401] * 3
    for shape in (token.lower(), token + "=", token[:-1], f" {token}", f"{token}\x00", "null", "undefined", ""):
        headers = {"Authorization": f"Bearer {shape}".encode()}
        assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 401


async def test_a_login_is_worth_nothing_after_the_password_changed(world: World) -> None:
    mine, other = await _token(world), await _token(world)
    body = {"oldPassword": PASSWORD, "newPassword": "battery staple"}
    headers = {"Authorization": f"Bearer {mine}"}
    assert (await world.http.put("/api/v2/users/ann/password", json=body, headers=headers)).status_code == 201
    assert [await _status(world, token) for token in (mine, other)] == [401, 401]
    old = {"username": "ann", "password": PASSWORD}
    assert (await world.http.post("/api/v2/tokens", json=old)).status_code == 400
    assert await _status(world, await _token(world, password="battery staple")) == 200


async def test_a_revoked_token_of_an_application_is_worth_nothing(world: World) -> None:
    login = await _token(world)
    token, other = await _application(world, login), await _application(world, login)
    assert [await _status(world, each) for each in (token, other)] == [200, 200]
    headers = {"Authorization": f"Bearer {login}"}
    assert (await world.http.delete(f"/api/v2/tokens/{token}", headers=headers)).status_code == 200
    assert [await _status(world, each) for each in (token, other)] == [401, 200]


async def test_no_credential_of_a_removed_user_is_accepted(world: World) -> None:
    login = await _token(world, "bob")
    application = await _application(world, login)
    assert await _status(world, application) == 200
    assert (await world.ask("DELETE", "/users/bob", "root")).status_code == 200
    assert [await _status(world, token) for token in (login, application)] == [401, 401]


async def test_a_user_who_is_no_administrator_any_more_loses_the_rights_at_once(world: World) -> None:
    assert (await world.ask("PUT", "/users/ann/admin", "root", json={"admin": True})).status_code == 201
    assert (await world.ask("GET", "/cluster/config", "ann")).status_code != 403
    assert (await world.ask("PUT", "/users/ann/admin", "root", json={"admin": False})).status_code == 201
    assert (await world.ask("GET", "/cluster/config", "ann")).status_code == 403


async def test_a_login_takes_the_same_steps_for_every_user(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.users.add_user(User("outsider", "", 1, source="oidc", subject="o"))
    await world.users.set_password("ann", passwords.hash_password(PASSWORD))
    verified: list[str] = []
    hasher = passwords._hasher

    class Counting:
        def verify(self, password: str, password_hash: str) -> bool:
            verified.append(password_hash.rpartition("$")[0].rpartition("$")[0])
            return hasher.verify(password, password_hash)

        def hash(self, password: str) -> str:
            return hasher.hash(password)

    monkeypatch.setattr(passwords, "_hasher", Counting())
    answers: list[Any] = []
    for name in ("ann", "nobody", "outsider"):
        body = {"username": name, "password": "a wrong guess"}
        answers.append((await world.http.post("/api/v2/authn/basic/login", json=body)).json())
    assert answers == [answers[0]] * 3
    assert len(verified) == 3
    assert len(set(verified)) == 1, "one hash is dearer than another"

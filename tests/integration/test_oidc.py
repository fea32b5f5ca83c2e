"""Single sign-on: a login through a real OpenID provider, and everything an attacker might try instead."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from openpai.access.accounts import Group
from openpai.access.pkce import challenge_of
from openpai.identity.provider import Provider

from .api_world import World, open_world
from .sign_on import BASE, Browser, Liar, log_in_at, query_of, real_provider, sign_on_with


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        world.clock.at_ms = int(time.time() * 1000)
        yield world


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with real_provider() as issuer:
        yield issuer


CAROL = {"email": "carol@example.org", "preferred_username": "carol@example.org", "groups": ["eng", "other"]}


async def test_a_user_logs_in_through_a_real_provider(world: World, issuer: str) -> None:
    await world.users.add_group(Group("vision", external_name="eng", virtual_clusters=("vision",)))
    provider = Provider(issuer, world.clock)
    sign_on_with(world, provider)
    info = (await world.http.get("/api/v2/authn/info")).json()
    assert (info["authn_type"], info["loginURI"]) == ("OIDC", "/api/v1/authn/oidc/login")
    browser = Browser(world)
    begun = await browser.begin(redirect_uri="/jobs?page=2#top", **{"from": "job list"})
    assert begun.status_code == 302
    cookie = begun.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "max-age=600" in cookie
    back = await log_in_at(issuer, begun.headers["location"], "carol-1", CAROL)
    landed = await browser.come_back(back)
    assert landed.status_code == 302
    assert landed.headers["location"].startswith("/jobs?page=2&code=")
    assert landed.headers["location"].endswith("#top")
    message = query_of(landed.headers["location"])
    assert message["from"] == "job list"
    assert "token" not in message
    answer = (await browser.redeem(message["code"])).json()
    assert (answer["user"], answer["admin"]) == ("carol", False)
    me = await world.http.get("/api/v2/users/me", headers={"Authorization": f"Bearer {answer['token']}"})
    assert set(me.json()["grouplist"]) == {"default", "vision"}
    assert "vision" in me.json()["virtualCluster"]
    assert me.json()["email"] == "carol@example.org"
    await provider.close()


async def test_groups_follow_the_provider_at_every_login(world: World, issuer: str) -> None:
    await world.users.add_group(Group("vision", external_name="eng"))
    provider = Provider(issuer, world.clock)
    sign_on_with(world, provider)
    for groups, expected in ((["eng"], {"default", "vision"}), ([], {"default"})):
        browser = Browser(world)
        begun = await browser.begin()
        back = await log_in_at(issuer, begun.headers["location"], "dora-1", {**CAROL, "email": "dora@x.org",
                               "preferred_username": "dora", "groups": groups})  # fmt: skip
        landed = await browser.come_back(back)
        assert (await browser.redeem(query_of(landed.headers["location"])["code"])).status_code == 200
        user = await world.users.user("dora")
        assert user is not None
        assert {group.name for group in user.groups} == expected
    await provider.close()


async def finished(world: World, liar: Liar, browser: Browser | None = None, **answer: str) -> dict[str, str]:
    """Return what a login through the liar comes back with."""
    browser = browser or Browser(world)
    begun = await browser.begin()
    asked = query_of(begun.headers["location"])
    assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
    liar.nonce = asked["nonce"]
    given = {"state": asked["state"], "code": "c1", **answer}
    landed = await browser.http.get("/api/v2/authn/oidc/return", params=given)
    assert landed.status_code == 302, landed.text
    assert challenge_of(liar.forms[-1]["code_verifier"]) == asked["code_challenge"] if liar.forms else True
    return query_of(landed.headers["location"])


async def test_an_honest_provider_is_believed(world: World, liar: Liar) -> None:
    assert "code" in await finished(world, liar)


NOW = 1_000_000


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "somebody-else"},
        {"aud": ["pai", "somebody-else"]},
        {"azp": "somebody-else"},
        {"iss": "https://evil.example.org"},
        {"exp": NOW},
        {"exp": None},
        {"iat": 99_999_999_999},
        {"sub": None},
    ],
    ids=str,
)
async def test_a_proof_made_for_something_else_is_not_believed(world: World, claims: dict[str, Any]) -> None:
    liar = Liar(world)
    liar.claims = claims
    sign_on_with(world, liar.provider())
    message = await finished(world, liar)
    assert "code" not in message
    assert "ID token" in message["errorMessage"]
    assert await world.users.user("carol") is None


async def test_a_proof_signed_with_another_key_is_not_believed(world: World, liar: Liar) -> None:
    liar.signing_key = RSAKey.generate_key(2048, {"kid": "one"})
    assert "errorMessage" in await finished(world, liar)


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
async def test_a_proof_may_not_choose_how_it_is_checked(world: World, liar: Liar, algorithm: str) -> None:
    now_s = world.clock.now_ms() // 1000
    browser = Browser(world)
    asked = query_of((await browser.begin()).headers["location"])
    message = {"iss": liar.issuer, "aud": "pai", "sub": "u1", "iat": now_s, "exp": now_s + 60, "upn": "eve"}
    parts = [{"alg": algorithm, "kid": "one"}, {**message, "nonce": asked["nonce"]}]
    signed = ".".join(encoded(json.dumps(part).encode()) for part in parts)
    # The public key, taken for a shared secret: what a verifier that lets the proof choose would accept.
    seal = hmac.digest(liar.key.as_pem(private=False), signed.encode(), "sha256") if algorithm == "HS256" else b""
    liar.token = f"{signed}.{encoded(seal)}"
    answer = {"state": asked["state"], "code": "c1"}
    landed = await browser.http.get("/api/v2/authn/oidc/return", params=answer)
    assert "ID token cannot be trusted" in query_of(landed.headers["location"])["errorMessage"]


async def test_a_state_is_answered_once_and_only_in_the_browser_that_began(world: World, liar: Liar) -> None:
    browser, other = Browser(world), Browser(world)
    begun = await browser.begin()
    asked = query_of(begun.headers["location"])
    liar.nonce = asked["nonce"]
    answer = {"state": asked["state"], "code": "c1"}
    stranger = await other.http.get("/api/v2/authn/oidc/return", params=answer)
    assert (stranger.status_code, stranger.json()["code"]) == (401, "UnauthorizedUserError")
    cookies = dict(browser.http.cookies)
    assert (await browser.http.get("/api/v2/authn/oidc/return", params=answer)).status_code == 302
    assert not browser.http.cookies, "the keepsake is taken back"
    other.http.cookies.update(cookies)
    again = await other.http.get("/api/v2/authn/oidc/return", params=answer)
    assert again.status_code == 401
    wrong = await browser.begin()
    assert wrong.status_code == 302
    assert (await browser.http.get("/api/v2/authn/oidc/return", params={**answer, "state": "x"})).status_code == 401


async def test_a_login_that_takes_too_long_is_over(world: World, liar: Liar) -> None:
    browser = Browser(world)
    asked = query_of((await browser.begin()).headers["location"])
    world.clock.at_ms += 10 * 60 * 1000
    late = await browser.http.get("/api/v2/authn/oidc/return", params={"state": asked["state"], "code": "c"})
    assert late.status_code == 401


async def test_a_code_works_once_for_a_minute_and_with_its_secret_only(world: World, liar: Liar) -> None:
    browser = Browser(world)
    code = (await finished(world, liar))["code"]
    assert (await browser.redeem(code, "another secret")).status_code == 401
    assert (await browser.redeem(code)).status_code == 200
    assert (await browser.redeem(code)).status_code == 401
    late = (await finished(world, liar))["code"]
    world.clock.at_ms += 60_000
    assert (await browser.redeem(late)).status_code == 401
    assert (await browser.redeem("made up")).status_code == 401


async def test_another_providers_answer_is_not_taken(world: World, liar: Liar) -> None:
    message = await finished(world, liar, iss="https://evil.example.org")
    assert "another identity provider" in message["errorMessage"]


async def test_a_refusal_of_the_provider_is_reported(world: World, liar: Liar) -> None:
    message = await finished(world, liar, error="access_denied", error_description="not today")
    assert message["errorMessage"] == "the identity provider refused the login: not today"


async def test_what_is_handed_back_cannot_split_the_answer(world: World, liar: Liar) -> None:
    answer = await Browser(world).begin(**{"from": "a\r\nSet-Cookie: b=c"})
    assert answer.status_code == 400


async def test_names_that_are_taken_are_never_merged(world: World, liar: Liar) -> None:
    liar.claims = {"preferred_username": "root@example.org"}
    message = await finished(world, liar)
    assert "already a user named 'root'; accounts are never merged" in message["errorMessage"]
    root = await world.users.user("root")
    assert root is not None
    assert root.source == "local"
    liar.claims = {"preferred_username": "Root"}
    assert "looks like 'Root'" in (await finished(world, liar))["errorMessage"]


async def test_a_stranger_of_every_group_is_turned_away(world: World) -> None:
    liar = Liar(world)
    sign_on_with(world, liar.provider(), is_group_required=True)
    assert "none of the groups" in (await finished(world, liar))["errorMessage"]
    await world.users.add_group(Group("vision", external_name="team-a"))
    assert "code" in await finished(world, liar)


async def test_a_posted_answer_is_looked_at_as_a_get(world: World, liar: Liar) -> None:
    browser = Browser(world)
    asked = query_of((await browser.begin()).headers["location"])
    liar.nonce = asked["nonce"]
    form = {"state": asked["state"], "code": "c1"}
    answer = await browser.http.post("/api/v2/authn/oidc/return", data=form)
    assert answer.status_code == 303
    landed = await browser.come_back(BASE + answer.headers["location"])
    assert "code" in query_of(landed.headers["location"])


async def test_logging_out_ends_at_the_provider(world: World, liar: Liar) -> None:
    answer = await world.http.get("/api/v2/authn/oidc/logout", params={"redirect_uri": "/bye"})
    assert answer.headers["location"].startswith(f"{liar.issuer}/bye?")
    assert query_of(answer.headers["location"])["post_logout_redirect_uri"] == f"{BASE}/bye"


async def test_a_provider_that_is_down_is_unavailable(world: World) -> None:
    provider = Provider("http://127.0.0.1:1", world.clock)
    sign_on_with(world, provider)
    answer = await Browser(world).begin()
    assert (answer.status_code, answer.json()["code"]) == (503, "UnavailableError")
    assert (await world.ask("GET", "/users/me", "ann")).status_code == 200, "accounts kept here still log in"
    await provider.close()


async def test_without_single_sign_on_there_is_no_such_page(world: World) -> None:
    for answer in (await Browser(world).begin(), await world.http.get("/api/v2/authn/oidc/login")):
        assert (answer.status_code, answer.json()["code"]) == (404, "NoApiError")
    assert (await world.http.get("/api/v2/authn/info")).json()["authn_type"] == "basic"


async def test_a_user_of_the_provider_has_no_password_here(world: World, liar: Liar) -> None:
    await finished(world, liar)
    carol = await world.users.user("carol")
    assert carol is not None
    assert (carol.password_hash, carol.source) == ("", "oidc")
    assert replace(carol).subject.startswith(liar.issuer)
    body = {"username": "carol", "password": "anything"}
    assert (await world.http.post("/api/v2/authn/basic/login", json=body)).status_code == 400

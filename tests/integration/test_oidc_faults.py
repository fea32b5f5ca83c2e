"""Single sign-on with a provider that is odd, broken or slow, and with requests that no browser would make."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from openpai.access.accounts import Group
from openpai.api.app import create_api
from openpai.identity import provider as provider_module
from openpai.identity.provider import Provider
from openpai.protocol.errors import Unavailable

from .api_world import World, open_world
from .sign_on import VERIFIER, Browser, Liar, query_of, sign_on_with
from .test_oidc import finished


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        world.clock.at_ms = int(time.time() * 1000)
        yield world


@pytest.mark.parametrize(
    "groups",
    [5, True, {"a": 1}, [None, 5, ["x"], {"b": 2}], "team-a", None, ["g"] * 5_000],
    ids=lambda each: str(each)[:20],
)
async def test_a_login_works_with_groups_of_any_type(world: World, liar: Liar, groups: Any) -> None:
    await world.users.add_group(Group("none", external_name="None"))
    liar.claims = {"groups": groups}
    assert "code" in await finished(world, liar)
    carol = await world.users.user("carol")
    assert carol is not None
    assert {group.name for group in carol.groups} == {"default"}


async def test_groups_that_the_provider_leaves_out_are_not_taken_away(world: World, liar: Liar) -> None:
    """Some providers name a place to ask instead when a user is in hundreds of groups."""
    await world.users.add_group(Group("vision", external_name="team-a"))
    assert "code" in await finished(world, liar)
    liar.claims = {"groups": None, "_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "x"}}}
    assert "too many groups" in (await finished(world, liar))["errorMessage"]
    carol = await world.users.user("carol")
    assert carol is not None
    assert {group.name for group in carol.groups} == {"default", "vision"}


@pytest.mark.parametrize("subject", ["", 5, ["u1"], {"a": 1}, "u\x001", "s" * 3_000], ids=lambda each: repr(each)[:20])
async def test_a_subject_that_is_none_is_not_believed(world: World, liar: Liar, subject: Any) -> None:
    liar.claims = {"sub": subject}
    assert "ID token" in (await finished(world, liar))["errorMessage"]
    assert await world.users.user("carol") is None


async def test_an_address_that_is_none_is_left_away(world: World, liar: Liar) -> None:
    for email in ("a\x00b@example.org", "two words", 5, ["a@b"]):
        liar.claims = {"email": email}
        assert "code" in await finished(world, liar)
    carol = await world.users.user("carol")
    assert carol is not None
    assert carol.email == ""


@pytest.mark.parametrize("name", ["me", {"a": 1}, "..", "a/b", "аdmin", "x" * 200], ids=lambda each: repr(each)[:20])
async def test_a_provider_cannot_name_a_user_as_no_user_may_be_named(world: World, liar: Liar, name: Any) -> None:
    liar.claims = {"preferred_username": name, "email": None}
    before = {user.name for user in await world.users.users()}
    assert "errorMessage" in await finished(world, liar)
    assert {user.name for user in await world.users.users()} == before


async def test_a_key_of_an_unknown_kind_is_ignored(world: World, liar: Liar) -> None:
    liar.more_keys = [{"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "new"}, {"kty": "RSA"}, 7]
    assert "code" in await finished(world, liar)


async def test_a_login_ends_where_it_began_when_the_provider_fails_on_the_way(world: World, liar: Liar) -> None:
    for path, reply in (
        ("/token_endpoint", httpx.Response(500, text="oops")),
        ("/token_endpoint", httpx.Response(200, text="<html>")),
        ("/keys", httpx.Response(503)),
        ("/userinfo", httpx.Response(200, text="a.b.c")),
    ):
        sign_on_with(world, liar.provider())
        liar.described = {"userinfo_endpoint": f"{liar.issuer}/userinfo"}
        liar.claims = {"groups": None}
        liar.replies = {path: reply}
        assert "identity provider" in (await finished(world, liar))["errorMessage"]


@pytest.mark.parametrize(
    "described",
    [
        {"token_endpoint_auth_methods_supported": None},
        {"token_endpoint": "https://[::1"},
        {"token_endpoint": 7},
        {"userinfo_endpoint": "https://[::1"},
        {"jwks_uri": "https://[::1"},
    ],
    ids=str,
)
async def test_an_odd_description_is_reported_and_breaks_nothing(world: World, liar: Liar, described: Any) -> None:
    liar.described = described
    liar.claims = {"groups": None}
    message = await finished(world, liar)
    assert ("code" in message) == ("token_endpoint_auth_methods_supported" in described)


async def test_an_answer_without_end_is_not_read_to_the_end(world: World) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b"[" * 65_536
        raise AssertionError("it was read to the end")

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    provider = Provider("https://id.example.org", world.clock, httpx.AsyncClient(transport=transport))
    with pytest.raises(Unavailable, match="more than"):
        await provider.about()


async def test_json_without_bottom_is_no_answer(world: World) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"[" * 200_000))
    provider = Provider("https://id.example.org", world.clock, httpx.AsyncClient(transport=transport))
    with pytest.raises(Unavailable):
        await provider.about()


async def test_a_provider_that_answers_byte_by_byte_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_module, "ANSWER_S", 0.05)
    asked = asyncio.Event()

    async def trickle() -> AsyncIterator[bytes]:
        asked.set()
        await asyncio.Event().wait()
        yield b""

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=trickle()))
    provider = Provider("https://id.example.org", world.clock, httpx.AsyncClient(transport=transport))
    async with asyncio.timeout(60):
        with pytest.raises(Unavailable, match="does not answer"):
            await provider.about()
    assert asked.is_set()


async def test_a_clock_that_was_set_back_keeps_no_old_keys(world: World, liar: Liar) -> None:
    provider = liar.provider()
    await provider.keys("one")
    world.clock.at_ms -= 90 * 86_400_000
    liar.key = type(liar.key).generate_key(2048, {"kid": "two", "use": "sig"})
    assert "two" in {key.kid for key in (await provider.keys("two")).keys}


async def test_a_provider_may_replace_its_keys(world: World, liar: Liar) -> None:
    assert "code" in await finished(world, liar)
    liar.key = liar.signing_key = type(liar.key).generate_key(2048, {"kid": "two", "use": "sig"})
    liar.header = {"alg": "RS256", "kid": "two"}
    world.clock.at_ms += 30_000
    assert "code" in await finished(world, liar)


async def test_odd_answers_of_a_browser_are_refused(world: World, liar: Liar) -> None:
    browser = Browser(world)
    begun = await browser.begin()
    keepsake = browser.http.cookies["pai_sign_on"]
    for state in ("é", "x" * 5_000):
        answer = await browser.http.get("/api/v2/authn/oidc/return", params={"state": state, "code": "c"})
        assert (answer.status_code, answer.json()["code"]) == (401, "UnauthorizedUserError")
    # What is sealed for one purpose opens nothing elsewhere.
    assert (await browser.redeem(keepsake)).status_code == 401
    code = (await finished(world, liar))["code"]
    other = Browser(world)
    other.http.cookies.set("pai_sign_on", code)
    state = query_of(begun.headers["location"])["state"]
    assert (await other.http.get("/api/v2/authn/oidc/return", params={"state": state})).status_code == 401


@pytest.mark.parametrize(
    "form", [b"code=\xff&state=x", "code=\u00e9".encode(), b"a=\r\nX: y", b"code=a b", b"a" * 20_000]
)
async def test_a_posted_answer_that_is_no_form_is_refused(world: World, liar: Liar, form: bytes) -> None:
    answer = await Browser(world).http.post("/api/v2/authn/oidc/return", content=form)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")


async def test_a_code_brings_no_login_back_that_was_ended(world: World, liar: Liar) -> None:
    browser = Browser(world)
    code = (await finished(world, liar))["code"]
    token = (await browser.redeem(code)).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert (await world.http.delete("/api/v2/authn/basic/logout", headers=headers)).status_code == 200
    assert (await browser.redeem(code)).status_code == 401
    assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 401
    # Nor does it at another server over the same database.
    context = world.api.state.context
    other = create_api(context.services)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(other), base_url="http://pai") as http:
        again = await http.post("/api/v2/authn/oidc/token", json={"code": code, "verifier": VERIFIER})
        assert (again.status_code, again.json()["code"]) == (401, "UnauthorizedUserError")


async def test_a_code_does_not_log_in_a_later_user_of_the_same_name(world: World, liar: Liar) -> None:
    code = (await finished(world, liar))["code"]
    assert (await world.ask("DELETE", "/users/carol", "root")).status_code == 200
    world.clock.at_ms += 1
    new = {"username": "carol", "password": "secret", "admin": True}
    assert (await world.ask("POST", "/users", "root", json=new)).status_code == 201
    assert (await Browser(world).redeem(code)).status_code == 401


async def test_who_is_turned_away_leaves_their_groups_here_too(world: World) -> None:
    liar = Liar(world)
    sign_on_with(world, liar.provider(), is_group_required=True)
    await world.users.add_group(Group("bosses", external_name="team-a", is_admin=True))
    code = (await finished(world, liar))["code"]
    headers = {"Authorization": f"Bearer {(await Browser(world).redeem(code)).json()['token']}"}
    assert (await world.http.get("/api/v2/users/ann/tokens", headers=headers)).status_code == 200
    liar.claims = {"groups": []}
    assert "none of the groups" in (await finished(world, liar))["errorMessage"]
    assert (await world.http.get("/api/v2/users/ann/tokens", headers=headers)).status_code == 403


async def test_a_right_that_the_provider_took_away_ends_with_the_next_login(world: World, liar: Liar) -> None:
    await world.users.add_group(Group("bosses", external_name="team-a", is_admin=True))
    code = (await finished(world, liar))["code"]
    headers = {"Authorization": f"Bearer {(await Browser(world).redeem(code)).json()['token']}"}
    assert (await world.http.get("/api/v2/users/ann/tokens", headers=headers)).status_code == 200
    liar.claims = {"groups": []}
    assert "code" in await finished(world, liar)
    assert (await world.http.get("/api/v2/users/ann/tokens", headers=headers)).status_code == 403


async def test_the_provider_gets_name_and_secret_as_its_standard_says(world: World, liar: Liar) -> None:
    """RFC 6749, 2.3.1: each is written as in a form before the two are joined."""
    seen: list[str] = []
    answer = liar._answer

    def listen(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization", ""))
        return answer(request)

    sign_on_with(world, Provider(liar.issuer, world.clock, httpx.AsyncClient(transport=httpx.MockTransport(listen))))
    assert "code" in await finished(world, liar)
    assert f"Basic {base64.b64encode(b'pai:client+secret').decode()}" in seen

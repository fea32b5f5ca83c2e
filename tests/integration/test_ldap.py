"""Logging in with a directory's password, against a real directory, and what an attacker might try instead."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from structlog.testing import capture_logs

from openpai.access.accounts import Group
from openpai.identity import directory as directory_module
from openpai.identity.directory import Directory, LdapSettings
from openpai.ports.identity import Vouched
from openpai.protocol.errors import Refused, Unavailable
from tests.ports import free_port

from .api_world import World
from .ldap_server import BASE, LdapServer, ldap_server
from .sign_on import sign_on_with


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LdapServer]:
    with ldap_server(tmp_path_factory.mktemp("ldap")) as server:
        yield server


def settings_of(server: LdapServer) -> LdapSettings:
    return LdapSettings(
        url=server.url,
        user_base=f"ou=people,{BASE}",
        bind_dn=f"cn=search,{BASE}",
        bind_password="secret",
        group_base=f"ou=groups,{BASE}",
    )


async def log_in(world: World, name: str, password: str) -> httpx.Response:
    return await world.http.post("/api/v2/authn/basic/login", json={"username": name, "password": password})


async def test_a_user_logs_in_with_the_directorys_password(world: World, server: LdapServer) -> None:
    await world.users.add_group(Group("team", external_name="vision", virtual_clusters=("vision",)))
    sign_on_with(world, None, directory=Directory(settings_of(server)))
    answer = await log_in(world, "erin", "erin's word")
    assert answer.status_code == 200, answer.text
    assert answer.json()["user"] == "erin"
    erin = await world.users.user("erin")
    assert erin is not None
    assert (erin.source, erin.email, erin.password_hash) == ("ldap", "erin@example.org", "")
    assert {group.name for group in erin.groups} == {"default", "team"}
    again = await log_in(world, "erin", "erin's word")
    assert again.status_code == 200
    assert (await log_in(world, "erin", "grace's word")).json()["code"] == "IncorrectPasswordError"


@pytest.mark.parametrize("is_over_tls", [True, False])
async def test_the_connection_is_sealed_and_the_directory_has_to_prove_itself(
    server: LdapServer, is_over_tls: bool
) -> None:
    url = server.secure_url if is_over_tls else server.url
    trusting = replace(settings_of(server), url=url, start_tls=not is_over_tls, ca_file=server.ca_file)
    assert await Directory(trusting).check("erin", "erin's word") is not None
    with pytest.raises(Exception, match="does not answer as it should"):
        await Directory(replace(trusting, ca_file="")).check("erin", "erin's word")


@pytest.mark.parametrize("is_over_tls", [True, False])
async def test_a_certificate_of_another_host_is_refused_and_the_log_says_why(
    server: LdapServer, is_over_tls: bool
) -> None:
    url = (server.secure_url if is_over_tls else server.url).replace("127.0.0.1", "localhost")
    other = replace(settings_of(server), url=url, start_tls=not is_over_tls, ca_file=server.ca_file)
    with capture_logs() as logged, pytest.raises(Unavailable):
        await Directory(other).check("erin", "erin's word")
    assert "doesn't match" in logged[0]["why"]
    assert "erin's word" not in str(logged)


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("erin", ""),
        ("", "erin's word"),
        ("*", "erin's word"),
        ("er*", "erin's word"),
        ("erin)(uid=*", "erin's word"),
        ("*)(|(uid=*", "x"),
        ("nobody", "erin's word"),
        ("erin\x00", "erin's word"),
        # What normalising a password may leave nothing of, or nothing but what was to be left out.
        ("erin", "\u00ad" * 6),
        ("erin", "\u00aderin's word"),
        ("erin", "erin's word\x00"),
        ("heidi", "1\u20442 \tpound"),
    ],
)
async def test_neither_empty_passwords_nor_filters_log_in(server: LdapServer, name: str, password: str) -> None:
    assert await Directory(settings_of(server)).check(name, password) is None


async def test_a_name_with_odd_letters_is_found_as_it_is(server: LdapServer) -> None:
    person = await Directory(settings_of(server)).check("frank*", "frank's word")
    assert person is not None
    assert (person.name, person.groups) == ("frank*", frozenset())


async def test_a_password_is_compared_as_it_was_typed(server: LdapServer) -> None:
    assert await Directory(settings_of(server)).check("heidi", "½ \u00ad\tpound") is not None


async def test_names_in_capital_letters_are_the_same_user(world: World, server: LdapServer) -> None:
    await world.users.add_group(Group("team", external_name="unix"))
    sign_on_with(world, None, directory=Directory(settings_of(server)))
    for name in ("ERIN", "erin", "Erin"):
        assert (await log_in(world, name, "erin's word")).json()["user"] == "erin"
        erin = await world.users.user("erin")
        assert erin is not None
        assert {group.name for group in erin.groups} == {"default", "team"}


async def test_a_password_of_an_unknown_user_is_compared_too(
    server: LdapServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Directory(settings_of(server))
    connections: list[str] = []
    connect = directory._connected
    monkeypatch.setattr(directory, "_connected", lambda dn, word: (connections.append(dn), connect(dn, word))[1])
    counts = []
    for name in ("erin", "nobody"):
        assert await directory.check(name, "wrong") is None
        counts.append(len(connections))
        connections.clear()
    assert counts[0] == counts[1]


async def test_a_directory_that_is_silent_keeps_only_its_own_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_module, "ASKING_MAX", 40)
    monkeypatch.setattr(directory_module, "TIMEOUT_S", 300)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        port = silent.getsockname()[1]
        directory = Directory(
            LdapSettings(f"ldap://127.0.0.1:{port}", "ou=people", bind_dn="cn=search", bind_password="x")
        )
        asking = [asyncio.create_task(directory.check("erin", "a word")) for _ in range(40)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="being asked by 40 others"):
            await directory.check("erin", "a word")
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(int, "7") == 7
    # The port is closed now, so the logins that still wait fail.
    assert all(isinstance(each, Unavailable) for each in await asyncio.gather(*asking, return_exceptions=True))
    with pytest.raises(Unavailable, match="does not answer"):
        await directory.check("erin", "a word")


async def test_an_account_kept_here_is_never_the_directorys(world: World, server: LdapServer) -> None:
    await world.ask("POST", "/users", "root", json={"username": "grace", "password": "local word"})
    sign_on_with(world, None, directory=Directory(settings_of(server)))
    assert (await log_in(world, "grace", "grace's word")).status_code == 400
    assert (await log_in(world, "grace", "local word")).status_code == 200


async def test_a_wrong_password_costs_the_directory_as_much_for_every_user(world: World, server: LdapServer) -> None:
    asked: list[tuple[str, str]] = []

    class Counting(Directory):
        async def check(self, name: str, password: str) -> Vouched | None:
            asked.append((name, password))
            return await super().check(name, password)

    sign_on_with(world, None, directory=Counting(settings_of(server)))
    for name in ("ann", "nobody"):
        assert (await log_in(world, name, "a wrong guess")).status_code == 400
    assert len(asked) == 2
    assert asked[0][0] != "ann"
    assert asked[0][1] != "a wrong guess"
    assert (await log_in(world, "ann", "correct horse")).status_code == 200
    assert len(asked) == 2


async def test_accounts_kept_here_log_in_while_the_directory_is_down(world: World, server: LdapServer) -> None:
    down = replace(settings_of(server), url=f"ldap://127.0.0.1:{free_port()}")
    sign_on_with(world, None, directory=Directory(down))
    # However often they try: a login that could not be checked is not a failed one.
    for _ in range(world.api.state.context.services.settings.login_failures_per_min + 1):
        answer = await log_in(world, "erin", "erin's word")
        assert (answer.status_code, answer.json()["code"]) == (503, "UnavailableError")
    assert (await log_in(world, "ann", "correct horse")).status_code == 200


async def test_a_platform_that_may_not_search_says_so(server: LdapServer) -> None:
    with pytest.raises(Exception, match="does not let the platform search"):
        await Directory(replace(settings_of(server), bind_password="wrong")).check("erin", "erin's word")


@pytest.mark.parametrize("wrong", ["user_base", "group_base"])
async def test_a_base_that_is_not_there_is_reported_as_such(server: LdapServer, wrong: str) -> None:
    elsewhere = replace(settings_of(server), **{wrong: f"ou=nowhere,{BASE}"})
    with pytest.raises(Unavailable, match=r"does not search ou=nowhere.*noSuchObject"):
        await Directory(elsewhere).check("erin", "erin's word")


@pytest.mark.parametrize("pattern", ["(objectClass=person)", "uid={name}", "(uid={name}"])
def test_a_filter_that_finds_no_user_or_any_user_is_refused(server: LdapServer, pattern: str) -> None:
    with pytest.raises(Refused, match="filter"):
        Directory(replace(settings_of(server), user_filter=pattern))


async def test_of_several_entries_none_is_taken(server: LdapServer) -> None:
    several = replace(settings_of(server), user_filter="(|(uid={name})(objectClass=inetOrgPerson))")
    assert await Directory(several).check("erin", "erin's word") is None


def test_passwords_are_not_sent_in_clear_over_a_network() -> None:
    settings = LdapSettings("ldap://directory.example.org", "ou=people")
    with pytest.raises(Refused, match="in clear"):
        Directory(settings)
    Directory(replace(settings, start_tls=True))
    with pytest.raises(Refused, match="is none"):
        Directory(LdapSettings("directory.example.org", "ou=people"))

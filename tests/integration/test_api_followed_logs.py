"""Followed logs over HTTP: the stream of events on a real server."""

from __future__ import annotations

import asyncio
import contextlib

import httpx
import pytest

from .api_world import World
from .log_readers import TASK, Events, addresses, running, serving


async def test_a_log_is_followed_by_its_address_until_the_login_ends(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"x")
    uri = (await addresses(world))["stdout"]
    async with (
        serving(world) as http,
        httpx.AsyncClient(trust_env=False, timeout=60) as browser,
        browser.stream("GET", f"{http.base_url.copy_with(path='')}{uri}&follow=true") as response,
    ):
        events = Events(response)
        assert (await events.log())["text"] == "x"
        world.write(key, "stdout", b"y")
        assert (await events.log())["text"] == "y"
        assert (await world.ask("DELETE", "/authn/basic/logout")).is_success
        kind = "comment"
        with contextlib.suppress(EOFError):
            while kind == "comment":
                kind, _ = await events.next()
        assert kind == "comment"


async def test_a_followed_log_comes_as_it_is_written_and_ends(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", "héllo\n".encode())
    async with (
        serving(world) as http,
        http.stream("GET", f"{TASK}/all", params={"follow": "true"}) as response,
    ):
        events = Events(response)
        assert await events.log() == {"stream": "stdout", "offset": 0, "text": "héllo\n"}
        world.write(key, "stderr", b"oops\n")
        assert await events.log() == {"stream": "stderr", "offset": 0, "text": "oops\n"}
        assert await events.next() == ("comment", None)
        world.write(key, "stdout", "€".encode()[:2])
        assert await events.next() == ("comment", None)
        world.write(key, "stdout", "€".encode()[2:])
        assert await events.log() == {"stream": "stdout", "offset": 7, "text": "€"}
        assert events.last_id == "stdout=10,stderr=5"
        world.write(key, "stdout", b"bye")
        await world.exited(key)
        assert await events.log() == {"stream": "stdout", "offset": 10, "text": "bye"}
        assert await events.log() is None
        with pytest.raises(EOFError):
            await events.next()


async def test_a_lost_connection_is_taken_up_at_the_very_byte(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"one ")
    async with serving(world) as http:
        async with http.stream("GET", f"{TASK}/all", params={"follow": "true"}) as response:
            events = Events(response)
            assert (await events.log())["text"] == "one "
            last_id = events.last_id
        world.write(key, "stdout", b"two")
        world.write(key, "stderr", b"err")
        await world.exited(key)
        headers = {"Last-Event-ID": last_id}
        async with http.stream("GET", f"{TASK}/all", params={"follow": "true"}, headers=headers) as response:
            events = Events(response)
            rest = [await events.log(), await events.log(), await events.log()]
    assert rest == [
        {"stream": "stdout", "offset": 4, "text": "two"},
        {"stream": "stderr", "offset": 0, "text": "err"},
        None,
    ]


async def test_following_may_start_at_the_tail_and_never_inside_a_character(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", ("€" * 10_000).encode())
    await world.exited(key)
    async with serving(world) as http:
        for params, text in (({"tail-mode": "true"}, "€" * 5461), ({"offset": "-4"}, "€"), ({"offset": "29997"}, "€")):
            path = f"{TASK}/stdout"
            async with http.stream("GET", path, params={"follow": "true", **params}) as response:
                events = Events(response)
                got = ""
                while (piece := await events.log()) is not None:
                    got += piece["text"]
                assert got == text


async def test_following_logs_that_are_gone_is_an_error_at_once(world: World) -> None:
    key = await running(world)
    await world.exited(key)
    answer = await world.ask("GET", f"{TASK}/all", params={"follow": "true"})
    assert (answer.status_code, answer.json()["code"]) == (404, "NoTaskLogError")


async def test_a_reader_that_leaves_is_forgotten(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"x")
    async with serving(world) as http:
        async with http.stream("GET", f"{TASK}/stdout", params={"follow": "true"}) as response:
            assert (await Events(response).log())["text"] == "x"
            assert not world.logs.is_idle
        for _ in range(500):
            if world.logs.is_idle:
                break
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.01)
        assert world.logs.is_idle


@pytest.mark.parametrize("way", ["logged out", "demoted"])
async def test_a_followed_log_ends_with_the_right_to_read_it(world: World, way: str) -> None:
    key = await running(world)
    world.write(key, "stdout", b"x")
    assert (await world.ask("PUT", "/users/bob/admin", "root", json={"admin": True})).status_code == 201
    headers = await world.login("bob")
    async with (
        serving(world) as http,
        http.stream("GET", f"{TASK}/stdout", params={"follow": "true"}, headers=headers) as response,
    ):
        events = Events(response)
        assert (await events.log())["text"] == "x"
        if way == "logged out":
            answer = await world.ask("DELETE", "/authn/basic/logout", "bob")
        else:
            answer = await world.ask("PUT", "/users/bob/admin", "root", json={"admin": False})
        assert answer.is_success
        kind = "comment"
        with contextlib.suppress(EOFError):
            while kind == "comment":
                kind, _ = await events.next()
        assert kind == "comment"


async def test_a_stopping_server_lets_its_readers_go_without_saying_it_is_over(world: World) -> None:
    key = await running(world)
    world.write(key, "stdout", b"x")
    async with (
        serving(world) as http,
        http.stream("GET", f"{TASK}/stdout", params={"follow": "true"}) as response,
    ):
        events = Events(response)
        assert (await events.log())["text"] == "x"
        world.logs.hang_up()
        kind = "comment"
        with contextlib.suppress(EOFError):
            while kind == "comment":
                kind, _ = await events.next()
        assert kind == "comment"

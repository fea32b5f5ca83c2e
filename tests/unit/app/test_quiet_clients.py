"""Connections need open files: stalled ones are closed, and those beyond the limit are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from openpai.app.connection_limits import Connections
from openpai.app.http_guard import BODY_LEAST_BYTES_PER_S, LOOK_S, BoundedHeads

pytestmark = pytest.mark.slow

HEAD = b"PUT /file HTTP/1.1\r\ncontent-length: 3\r\n\r\n"


class Strict(BoundedHeads):
    """Checks only on request, and accepts two connections."""

    look_s = 3600.0
    body_looks = 1


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await asyncio.Event().wait()
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


@pytest.fixture
async def server() -> AsyncIterator[uvicorn.Server]:
    heads = type("Counted", (Strict,), {"bounds": Connections(files=3, per_address=2)})
    heads.bounds.per_address = 2
    config = uvicorn.Config(answer, port=0, http=heads, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - no event reports that it listens
        await asyncio.sleep(0.01)
    yield server
    server.should_exit = server.force_exit = True
    await serving


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - no event reports the state of the server's end
        await asyncio.sleep(0)


class Guest:
    """A client of the server, which sees it from the other side as well."""

    def __init__(self, server: uvicorn.Server) -> None:
        self._server = server

    async def knock(self) -> Guest:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def enter(self) -> Guest:
        inside = self._server.server_state.connections
        known = set(inside)
        await self.knock()
        await until(lambda: bool(inside - known))
        self.there = cast("Strict", (inside - known).pop())
        return self

    async def say(self, piece: bytes) -> None:
        whole = self.there._received_bytes + len(piece)
        self.writer.write(piece)
        await until(lambda: self.there._received_bytes >= whole)

    async def describe(self) -> tuple[int, dict[str, str]]:
        """Return the status and the document of the answer before the server disconnects."""
        head, _, body = (await self.reader.read()).partition(b"\r\n\r\n")
        self.writer.close()
        assert b"x-content-type-options: nosniff" in head
        return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("begin", [b"", b"\r\n", b"GET / HTTP/1.1\r\nx: ", HEAD + b"a"])
async def test_a_stalled_client_is_disconnected(server: uvicorn.Server, begin: bytes) -> None:
    guest = await Guest(server).enter()
    await guest.say(begin)
    guest.there.look()
    guest.there.look()
    status, document = await guest.describe()
    assert (status, document["code"]) == (408, "InvalidParametersError")


async def test_a_head_in_drops_is_given_up_and_a_body_that_keeps_coming_is_not(server: uvicorn.Server) -> None:
    enough = b"a" * int(BODY_LEAST_BYTES_PER_S * LOOK_S)
    slow, steady = await Guest(server).enter(), await Guest(server).enter()
    await slow.say(b"GET / HTTP/1.1\r\nx: ")
    await steady.say(b"PUT /file HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (5 * len(enough)))
    steady.there.look()
    for _ in range(2):
        await slow.say(b"a")
        await steady.say(enough)
        slow.there.look()
        steady.there.look()
    assert (await slow.describe())[0] == 408
    await steady.say(enough)
    steady.there.look()
    await steady.say(enough + enough)
    assert (await steady.reader.readline()).startswith(b"HTTP/1.1 200")
    steady.writer.close()


async def test_a_body_in_drops_is_given_up(server: uvicorn.Server) -> None:
    guest = await Guest(server).enter()
    await guest.say(b"PUT /file HTTP/1.1\r\ncontent-length: 1000\r\n\r\n")
    guest.there.look()
    await guest.say(b"a")
    guest.there.look()
    assert (await guest.describe())[0] == 408


async def test_one_address_cannot_use_up_all_connections(server: uvicorn.Server) -> None:
    bounds = cast("Connections", server.config.http_protocol_class.bounds)  # type: ignore[union-attr]
    bounds.total_max, bounds.per_address = 100, 20
    silent = [await Guest(server).knock() for _ in range(50)]
    refused = [guest for guest in silent if guest is not None][20:]
    for guest in refused:
        status, document = await guest.describe()
        assert (status, document["code"]) == (429, "TooManyRequestsError")
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
    writer.write(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
    for guest in silent:
        guest.writer.close()


async def test_a_stream_may_be_silent_for_ever(server: uvicorn.Server) -> None:
    guest = await Guest(server).enter()
    await guest.say(b"GET /stream HTTP/1.1\r\n\r\n")
    await guest.reader.readuntil(b"first\r\n")
    for _ in range(3):
        guest.there.look()
    assert not guest.there.transport.is_closing()
    # Nor is an answer that has begun mixed with another one.
    await guest.say(b"NONSENSE\r\n\r\n")
    assert await guest.reader.read() == b""
    guest.writer.close()


async def test_one_connection_too_many_is_refused(server: uvicorn.Server) -> None:
    first, _ = await Guest(server).enter(), await Guest(server).enter()
    status, document = await (await Guest(server).knock()).describe()
    assert (status, document["code"]) == (503, "UnavailableError")
    first.writer.close()
    await until(lambda: first.there not in server.server_state.connections)
    again = await Guest(server).enter()
    await again.say(b"GET / HTTP/1.1\r\n\r\n")
    assert (await again.reader.readline()).startswith(b"HTTP/1.1 200")


async def test_a_request_that_is_not_http_is_refused_in_our_shape(server: uvicorn.Server) -> None:
    guest = await Guest(server).enter()
    await guest.say(b"NONSENSE\r\n\r\n")
    status, document = await guest.describe()
    assert (status, document["code"]) == (400, "InvalidParametersError")

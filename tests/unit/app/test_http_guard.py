"""Headers are limited: a client that sends more is disconnected before the request is processed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from openpai.app.http_guard import HEAD_MAX_BYTES, BoundedHeads

PIECE = b"a" * 65_536
SEEN: list[str] = []


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    SEEN.append(scope["path"])
    length = b"%d" % len(body)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-body", length)]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    SEEN.clear()
    config = uvicorn.Config(answer, port=0, http=BoundedHeads, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - no event reports that it listens
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


async def describe(port: int, *pieces: bytes) -> bytes:
    """Return what is answered to pieces that are sent one after another, until either side hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    with suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.write_eof()
        while piece := await reader.read(65_536):
            found += piece
    writer.close()
    return found


@pytest.mark.parametrize("begin", [b"GET /endless HTTP/1.1\r\nx: ", b"GET /many HTTP/1.1\r\n"])
async def test_headers_without_end_reach_no_handler(port: int, begin: bytes) -> None:
    many = b"".join(b"x-%d: y\r\n" % number for number in range(8000))
    piece = PIECE if begin.endswith(b": ") else many
    await describe(port, begin, *[piece] * 60, b"\r\n\r\n")
    assert SEEN == []
    assert b"200 OK" in await describe(port, b"GET /next HTTP/1.1\r\nconnection: close\r\n\r\n")


async def test_long_headers_and_longer_bodies_are_served(port: int) -> None:
    head = b"PUT /file HTTP/1.1\r\nx: %b\r\ncontent-length: %d\r\n\r\n" % (PIECE, 60 * len(PIECE))
    last = b"GET /last HTTP/1.1\r\nx: %b\r\nconnection: close\r\n\r\n" % PIECE
    assert len(PIECE) < HEAD_MAX_BYTES
    answered = await describe(port, head, *[PIECE] * 59, PIECE + last)
    assert SEEN == ["/file", "/last"]
    assert b"x-body: %d" % (60 * len(PIECE)) in answered

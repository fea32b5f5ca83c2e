"""Requests over kept-alive connections: against a server that answers as no server should, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop

from openpai.kube import connection_pool
from openpai.kube.client import KubeClient
from openpai.kube.config import ClusterAccess
from openpai.kube.connection_pool import HEAD_MAX, Answer, ConnectionPool, NoAnswerError
from openpai.protocol.errors import Refused
from tests.kube.certificates import Authority
from tests.ports import free_port

OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PATIENCE_S: Final = 20.0
pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")
Turn = Callable[["Server", asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy], ids=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> Any:
    """Return the loops of the commands and of the server."""
    return request.param()


class Server:
    """A server that answers each request as the test says, in the order in which they come; then with `ok`."""

    def __init__(self) -> None:
        self.turns: list[bytes | Turn] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self.ended = asyncio.Event()
        """Set when a client has closed a connection."""
        self.may_go_on = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0
        self._asked = asyncio.Event()

    async def asked(self, count: int) -> None:
        """Return once so many requests have come."""
        while len(self.requests) < count:
            self._asked.clear()
            await self._asked.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                turn = self.turns.pop(0) if self.turns else OK
                if turn is not answered_early:
                    length = next(
                        (int(line[15:]) for line in head.split(b"\r\n") if line[:15] == b"Content-Length:"), 0
                    )
                    head += await reader.readexactly(length)
                self.requests.append(head)
                self._asked.set()
                if isinstance(turn, bytes):
                    writer.write(turn)
                else:
                    await turn(self, writer)
        self.ended.set()
        writer.close()


async def answered_early(_: Server, writer: asyncio.StreamWriter) -> None:
    """Answer a request of which only the head was read."""
    writer.write(OK)


async def answered_late(server: Server, writer: asyncio.StreamWriter) -> None:
    """Answer when the test says so."""
    await server.may_go_on.wait()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale")


def cut(answer: bytes) -> Turn:
    """Return a turn that ends the connection after an answer that is not whole."""

    async def turn(_: Server, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        raise ConnectionError

    return turn


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    made = Server()
    listener = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    made.port = listener.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        listener.close()
        for writer in made.writers:
            writer.transport.abort()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as made:
        yield made


@pytest.fixture
async def pool(server: Server) -> AsyncIterator[ConnectionPool]:
    made = pool_of(server)
    yield made
    made.close()


def pool_of(server: Server, tls: ssl.SSLContext | None = None, name: str = "") -> ConnectionPool:
    return ConnectionPool("127.0.0.1", server.port, f"127.0.0.1:{server.port}", tls, name)


async def ask(
    pool: ConnectionPool, path: str = "/", body: bytes | None = b"{}", patience_s: float = PATIENCE_S
) -> Answer:
    return await pool.ask("POST", path, (("Accept", "x"),), body, patience_s)


@pytest.mark.parametrize(
    ("sent", "content"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", id="with its length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: v\r\n\r\n",
            b"abc",
            id="in chunks",
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="empty"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK, b"ok", id="after 1xx"),
    ],
)
async def test_an_answer_is_read_whole_and_its_connection_kept(
    server: Server, pool: ConnectionPool, sent: bytes, content: bytes
) -> None:
    async def in_single_bytes(_: Server, writer: asyncio.StreamWriter) -> None:
        for at in range(len(sent)):
            writer.write(sent[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)

    server.turns = [sent, in_single_bytes, sent]
    assert [(await ask(pool, f"/{number}")).content for number in range(4)] == [content] * 3 + [b"ok"]
    assert server.connections == 1


async def test_a_request_is_written_as_http_has_it(server: Server, pool: ConnectionPool) -> None:
    headers = (("Accept", "a/b"), ("Authorization", "Bearer t"))
    await pool.ask("PATCH", "/api/v1?x=%20y", headers, b"body", PATIENCE_S)
    await pool.ask("GET", "/api/v1", headers, None, PATIENCE_S)
    await pool.ask("DELETE", "/api/v1", headers, None, PATIENCE_S)
    host = b"Host: 127.0.0.1:%d\r\nAccept: a/b\r\nAuthorization: Bearer t\r\n" % server.port
    assert server.requests == [
        b"PATCH /api/v1?x=%%20y HTTP/1.1\r\n%bContent-Length: 4\r\n\r\nbody" % host,
        b"GET /api/v1 HTTP/1.1\r\n%b\r\n" % host,
        b"DELETE /api/v1 HTTP/1.1\r\n%bContent-Length: 0\r\n\r\n" % host,
    ]


async def test_what_a_refusal_says_is_returned(server: Server, pool: ConnectionPool) -> None:
    server.turns = [b"HTTP/1.1 429 Too Many\r\nretry-AFTER: 7\r\nContent-Length: 1\r\n\r\nx"]
    assert await ask(pool) == Answer(429, "7", b"x")
    assert (await ask(pool)).retry_after is None


async def test_an_answer_without_a_length_ends_with_its_connection(server: Server, pool: ConnectionPool) -> None:
    server.turns = [cut(b"HTTP/1.1 200 OK\r\n\r\nall of it")]
    assert (await ask(pool)).content == b"all of it"
    assert (await ask(pool)).content == b"ok"
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="part of a head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", id="part of a body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", id="part of a chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", id="no last chunk"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", id="only 100"),
    ],
)
async def test_an_answer_that_breaks_off_is_none(server: Server, pool: ConnectionPool, answer: bytes) -> None:
    server.turns = [OK, cut(answer)]
    await ask(pool)
    with pytest.raises(NoAnswerError) as lost:
        await ask(pool, "/lost")
    assert lost.value.was_sent
    assert (await ask(pool, "/next")).content == b"ok"
    assert [request.split(b" ")[1] for request in server.requests] == [b"/", b"/lost", b"/next"]
    assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "no HTTP", id="garbage"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk", "no HTTP", id="lengths"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
            "no HTTP",
            id="two framings",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no HTTP", id="garbage for a chunk"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * HEAD_MAX, "head of its answer", id="endless header"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 4000, "head of its answer", id="endless 1xx"),
        pytest.param(
            b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "changes the protocol", id="upgrade"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", "compressed", id="compressed"
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 99999, "its answer", id="large"),
    ],
)
async def test_an_answer_that_is_not_as_it_should_be_is_none(
    server: Server, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch, answer: bytes, reason: str
) -> None:
    monkeypatch.setattr(connection_pool, "ANSWER_MAX", 50_000)
    server.turns = [answer]
    with pytest.raises(NoAnswerError, match=reason) as lost:
        await ask(pool)
    assert lost.value.was_sent
    await server.ended.wait()
    assert (await ask(pool)).content == b"ok"


async def test_a_slow_answer_is_not_waited_for_and_not_taken_for_the_next(server: Server, pool: ConnectionPool) -> None:
    server.turns = [OK, answered_late]
    await ask(pool)
    with pytest.raises(NoAnswerError, match="too long") as lost:
        await ask(pool, patience_s=0.02)
    assert lost.value.was_sent
    server.may_go_on.set()
    assert (await ask(pool)).content == b"ok"


async def test_the_answer_to_a_cancelled_request_is_not_taken_for_the_next(
    server: Server, pool: ConnectionPool
) -> None:
    server.turns = [OK, answered_late]
    await ask(pool)
    cancelled = asyncio.create_task(ask(pool, "/cancelled"))
    await server.asked(2)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    server.may_go_on.set()
    assert (await ask(pool)).content == b"ok"


async def test_a_request_that_was_answered_early_leaves_nothing_on_the_connection(
    server: Server, pool: ConnectionPool
) -> None:
    server.turns = [answered_early]
    assert (await ask(pool, body=b"x" * (64 << 20))).content == b"ok"
    assert (await ask(pool, "/next")).content == b"ok"
    assert [request.split(b" ")[1] for request in server.requests] == [b"/", b"/next"]
    assert server.connections == 2


async def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next(server: Server, pool: ConnectionPool) -> None:
    server.turns = [OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"]
    assert (await ask(pool)).content == b"ok"
    assert (await ask(pool)).content == b"ok"
    assert server.connections == 2
    server.writers[1].write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
    await server.ended.wait()
    server.ended.clear()
    await server.ended.wait()
    assert (await ask(pool)).status == 200
    assert server.connections == 3


@pytest.mark.parametrize("last", [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", cut(OK)])
async def test_a_connection_that_the_server_ends_is_not_used_again(
    server: Server, pool: ConnectionPool, last: bytes | Turn
) -> None:
    server.turns = [last]
    assert (await ask(pool)).content == b"ok"
    await server.ended.wait()
    # What the network brings after that, the loop reads after that.
    other = pool_of(server)
    await ask(other)
    other.close()
    assert (await ask(pool)).content == b"ok"
    assert server.connections == 3


async def test_connections_are_as_many_as_requests_at_a_time(server: Server, pool: ConnectionPool) -> None:
    server.turns = [answered_late for _ in range(7)]
    waiting = [asyncio.create_task(ask(pool)) for _ in range(7)]
    await server.asked(7)
    server.may_go_on.set()
    await asyncio.gather(*waiting)
    await asyncio.gather(*(ask(pool) for _ in range(7)))
    assert server.connections == 7


async def test_an_idle_connection_is_closed(
    server: Server, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "IDLE_S", 0.01)
    await ask(pool)
    await server.ended.wait()
    await ask(pool)
    assert server.connections == 2


async def test_a_closed_pool_answers_nothing(server: Server, pool: ConnectionPool) -> None:
    server.turns = [answered_late]
    waiting = asyncio.create_task(ask(pool))
    await server.asked(1)
    pool.close()
    with pytest.raises(NoAnswerError) as lost:
        await waiting
    assert lost.value.was_sent


async def test_nothing_was_sent_without_a_connection() -> None:
    port = free_port()
    pool = ConnectionPool("localhost", port, f"localhost:{port}", None)
    with pytest.raises(NoAnswerError, match=f"cannot connect to localhost:{port}: ") as lost:
        await ask(pool)
    assert not lost.value.was_sent


async def test_a_line_break_in_a_header_is_refused(server: Server, pool: ConnectionPool) -> None:
    with pytest.raises(Refused, match="'Authorization'"):
        await pool.ask("GET", "/", (("Authorization", "Bearer a\r\nX: y"),), None, PATIENCE_S)
    assert not server.requests


async def test_the_name_in_the_certificate_is_checked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("server", "server", hosts=["kubernetes.example"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.with_suffix(".crt"), issued.with_suffix(".key"))
    trusts = ClusterAccess("https://x", authority=authority.path.with_suffix(".crt").read_text())
    async with serving(context) as server:
        pool = pool_of(server, trusts.tls(), "kubernetes.example")
        assert [(await ask(pool, body=b"x" * 300_000)).content for _ in range(2)] == [b"ok", b"ok"]
        assert server.connections == 1
        pool.close()
        for tls, name in ((trusts.tls(), ""), (ClusterAccess("https://x").tls(), "kubernetes.example")):
            pool = pool_of(server, tls, name)
            with pytest.raises(NoAnswerError, match="certificate verify failed") as lost:
                await ask(pool)
            assert not lost.value.was_sent
    assert len(server.requests) == 2


async def test_a_handshake_that_never_ends_was_no_request(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "CONNECT_PATIENCE_S", 0.05)
    pool = pool_of(server, ClusterAccess("https://x").tls())
    with pytest.raises(NoAnswerError, match="too long") as lost:
        await ask(pool)
    assert not lost.value.was_sent


async def test_a_proxy_is_asked_for_the_server(server: Server) -> None:
    server.turns = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]
    access = ClusterAccess("http://kubernetes.example", proxy=f"http://127.0.0.1:{server.port}")
    async with KubeClient(access) as client:
        assert await client.raw("GET", "/version") == b"{}"
    assert server.requests[0].startswith(b"GET http://kubernetes.example/version HTTP/1.1\r\n")

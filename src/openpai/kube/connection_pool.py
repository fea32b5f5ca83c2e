"""Requests to one server over kept-alive connections, with as little work for each as HTTP/1.1 allows.

A server creates pods by the thousand, and a general HTTP client takes several times as long to send such a request and
to read its answer as this does. A connection carries one request at a time. Nothing is sent twice: an answer that is
lost is lost, also if it was lost on a connection that the server had just closed. Whatever is not as it should be, such
as bytes that nobody asked for, ends the connection, so that no request ever gets the answer to another one.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any, Final, NamedTuple

import aiohappyeyeballs
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from openpai.protocol.errors import Refused

CONNECT_PATIENCE_S: Final = 10.0
OPENED_AT_ONCE: Final = 4
"""So many handshakes of TLS go on at a time. What hundreds at once need for a moment lies between what each connection
keeps, so that a third of their memory could not be given back; and their keys would be computed in one go."""
IDLE_S: Final = 30.0
"""How long a connection is kept for another request."""
HEAD_MAX: Final = 64 << 10
ANSWER_MAX: Final = 1 << 30
"""More than any list: an answer without an end must not fill the memory."""
_SECOND_FAMILY_AFTER_S: Final = 0.25
"""How long IPv6 is tried before IPv4 is, too (RFC 8305)."""
_HEADS_MAX: Final = 64
Headers = tuple[tuple[str, str], ...]
# A peer that lost its power answers nothing: it is found after 30 s without it.
_ALIVE: Final = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


class NoAnswerError(Exception):
    """A request got no answer, or none that can be read."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent
        """Whether the server may have carried it out."""


class Answer(NamedTuple):
    """What the server answered."""

    status: int
    retry_after: str | None
    content: bytes


class ConnectionPool:
    """Connections to one server. The caller limits how many requests there are at a time."""

    def __init__(self, host: str, port: int, authority: str, tls: ssl.SSLContext | None, server_name: str = "") -> None:
        """`authority` is the server as the `Host` header has it; `server_name` the name in its certificate."""
        self._host = host
        self._port = port
        self._authority = authority
        self._tls = tls
        self._server_name = (server_name or host).rstrip(".") if tls is not None else None
        self._opening = asyncio.Semaphore(OPENED_AT_ONCE)
        self._all: set[_Pooled] = set()
        self._idle: list[_Pooled] = []
        """The one that was used last is used next, so that those that are not needed are closed."""
        self._sweep: asyncio.TimerHandle | None = None
        self._heads: dict[tuple[str, str, Headers], bytes] = {}

    async def ask(self, method: str, target: str, headers: Headers, body: bytes | None, patience_s: float) -> Answer:
        """Return the answer to a request. Raise NoAnswerError if there is none within the patience."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + patience_s
        request = self._encoded(method, target, headers, body)
        connection = self._kept() or await self._opened(until_s)
        if not connection.is_open:
            raise NoAnswerError(f"{self._authority} closed the connection at once", was_sent=False)
        waiting = connection.send(request)
        timer = loop.call_at(until_s, connection.fail, "it took too long")
        try:
            answer = await waiting
        except BaseException:
            # Its answer may still come, and must not be taken for that of the next request.
            connection.abort()
            raise
        finally:
            timer.cancel()
        if connection.is_reusable:
            self._keep(connection, loop)
        else:
            connection.abort()
        return answer

    def close(self) -> None:
        """Close every connection; what is under way gets no answer."""
        self._idle.clear()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in tuple(self._all):
            connection.fail("the connection was closed here")

    def _encoded(self, method: str, target: str, headers: Headers, body: bytes | None) -> bytes:
        key = (method, target, headers)
        found = self._heads.get(key)
        if found is None:
            if len(self._heads) >= _HEADS_MAX:
                self._heads.clear()
            found = self._heads[key] = _head(method, target, self._authority, headers)
        if body is None and method == "GET":
            return b"%b\r\n" % found
        return b"%bContent-Length: %d\r\n\r\n%b" % (found, len(body or b""), body or b"")

    def _kept(self) -> _Pooled | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: _Pooled, loop: asyncio.AbstractEventLoop) -> None:
        connection.idle_since_s = loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_S, self._close_idle, loop)

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweep = None
        over_s = loop.time() - IDLE_S
        kept = [one for one in self._idle if one.idle_since_s > over_s]
        for connection in self._idle:
            if connection.idle_since_s <= over_s:
                connection.abort()
        self._idle = kept
        if kept:
            self._sweep = loop.call_at(kept[0].idle_since_s + IDLE_S, self._close_idle, loop)

    async def _opened(self, until_s: float) -> _Pooled:
        try:
            async with asyncio.timeout_at(until_s), self._opening:
                # One may have become free meanwhile.
                return self._kept() or await self._open()
        except (OSError, TimeoutError) as error:
            # An ssl.SSLError, such as of a certificate that is not trusted, is an OSError.
            reason = str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)
            message = f"cannot connect to {self._authority}: {reason}"
            raise NoAnswerError(message, was_sent=False) from error

    async def _open(self) -> _Pooled:
        loop = asyncio.get_running_loop()
        made: socket.socket | None = None
        try:
            async with asyncio.timeout(CONNECT_PATIENCE_S):
                places = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                made = await aiohappyeyeballs.start_connection(
                    places, happy_eyeballs_delay=_SECOND_FAMILY_AFTER_S, interleave=1, loop=loop, socket_factory=alive
                )
                _, connection = await loop.create_connection(
                    lambda: _Pooled(self._all), sock=made, ssl=self._tls, server_hostname=self._server_name
                )
        except BaseException:
            if made is not None:
                made.close()
            raise
        return connection


class _Pooled(asyncio.Protocol):
    """A connection of the pool."""

    __slots__ = (
        "_all", "_head_bytes", "_is_bounded", "_loop", "_parser", "_parts", "_retry_after",
        "_size", "_status", "_transport", "_waiting", "idle_since_s",
    )  # fmt: skip

    def __init__(self, everyone: set[_Pooled]) -> None:
        self._all = everyone
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self.idle_since_s = 0.0
        self._begin()

    @property
    def is_open(self) -> bool:
        """Return whether a request may be sent."""
        return self._parser is not None and self._transport is not None

    @property
    def is_reusable(self) -> bool:
        """Return whether another request may be sent after one that was answered."""
        # An answer that came before its request was written in full leaves the rest of that on the way.
        return self._parser is not None and self._transport is not None and not self._transport.get_write_buffer_size()

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a request, if the connection is open; return where its answer will be."""
        self._begin()
        waiting = self._waiting = self._loop.create_future()
        if self._transport is not None:
            self._transport.write(request)
        return waiting

    def fail(self, reason: str) -> None:
        """Leave the request that is under way without an answer, and close the connection."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(NoAnswerError(reason, was_sent=True))
        self.abort()

    def abort(self) -> None:
        """Close the connection."""
        self._parser = None
        self._all.discard(self)
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _begin(self) -> None:
        self._status = 0
        self._retry_after: str | None = None
        self._parts: list[bytes] = []
        self._size = self._head_bytes = 0
        self._is_bounded = False

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._parser = HttpResponseParser(self)
        self._all.add(self)

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            return
        if self._waiting is None:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self.fail("its answer changes the protocol")
        except HttpParserError as error:
            self.fail(f"its answer is no HTTP: {error.__context__ or error}")
        else:
            if not self._status:
                self._head_bytes += len(data)
                if self._head_bytes > HEAD_MAX:
                    self.fail(f"the head of its answer is larger than {HEAD_MAX} bytes")

    def eof_received(self) -> None:
        if self._waiting is not None and self._status and not self._is_bounded:
            # Without a length, the end of the connection is the end of the answer.
            self._answered()
        self.fail("it closed the connection")

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.fail(f"the connection was lost: {error}" if error else "it closed the connection")

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._waiting is None:
            self._parser = None

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif name in (b"content-length", b"transfer-encoding"):
            self._is_bounded = True
        elif name == b"content-encoding" and value.lower() != b"identity":
            self.fail("its answer is compressed, which was not asked for")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code() if self._parser is not None else 0
        if status >= 200:
            self._status = status

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)
        if self._size > ANSWER_MAX:
            self.fail(f"its answer is larger than {ANSWER_MAX} bytes")

    def on_message_complete(self) -> None:
        if not self._status:
            # Such as 100 Continue: the answer comes after it.
            self._is_bounded, self._retry_after = False, None
            return
        parser = self._parser
        if parser is not None and not parser.should_keep_alive():
            self._parser = None
        self._answered()

    def _answered(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            parts = self._parts
            content = parts[0] if len(parts) == 1 else b"".join(parts)
            waiting.set_result(Answer(self._status, self._retry_after, content))


def alive(address: Any) -> socket.socket:
    """Return a socket for an address, as `getaddrinfo` returns it, that finds out when its peer is gone."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in _ALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _head(method: str, target: str, authority: str, headers: Headers) -> bytes:
    """Return the head of a request, without what says how long its body is and without the empty line after it."""
    for name, value in headers:
        if any(sign in name or sign in value for sign in "\r\n\0"):
            raise Refused(
                "BadConfigurationError",
                f"the header {name!r} of requests to Kubernetes has a line break",
                "check the token and the user in the kubeconfig",
            )
    lines = [f"{method} {target} HTTP/1.1", f"Host: {authority}", *(f"{name}: {value}" for name, value in headers)]
    return "".join(f"{line}\r\n" for line in lines).encode()

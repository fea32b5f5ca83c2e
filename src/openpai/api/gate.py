"""Middleware around every request: rate limits, the size of the body, safe headers, and an answer to every error.

Plain ASGI for speed. Errors are answered in OpenPAI's shape; an unexpected one is logged with its traceback, and the
client sees only an unknown error.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any, Final
from urllib.parse import parse_qsl

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from structlog.contextvars import bound_contextvars

from openpai.api.answers import refusal
from openpai.api.bodies import invalid
from openpai.api.browser_sessions import with_session
from openpai.api.client_address import address_of, with_origin
from openpai.api.denial import deny
from openpai.api.legacy_paths import as_described, is_file
from openpai.api.rate_limits import RateLimiter, TooManyRequests, network_of
from openpai.api.request_ids import header_of, request_id_of
from openpai.api.request_times import RequestTimes
from openpai.api.sessions import Sessions
from openpai.ports.identity import Sealer
from openpai.protocol.errors import Broken, PaiError, Refused, Unavailable
from openpai.system.tracing import Span, span

_log = structlog.get_logger(__name__)

Headers = Iterable[tuple[bytes, bytes]]

_SAFE: Final[Headers] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
# Answers are data: a browser that shows one must not run scripts in it or cache it.
SAFE_DATA: Final[Headers] = (
    *_SAFE,
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cache-control", b"no-store"),
)
# Pages for browsers, which run their own scripts.
_PAGES: Final = ("/docs", "/static-offline-docs/")


class Gate:
    """ASGI middleware around the whole API."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        sessions: Sessions,
        sealer: Sealer,
        requests: RateLimiter,
        body_max_bytes: int,
        upload_max_bytes: int,
        times: RequestTimes,
        logs_requests: bool = False,
    ) -> None:
        self._app = app
        self._times = times
        self._logs_requests = logs_requests
        self._sealer = sealer
        self._sessions = sessions
        self._requests = requests
        self._body_max_bytes = body_max_bytes
        self._upload_max_bytes = upload_max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; every outcome is answered."""
        request_id = request_id_of(scope["headers"]) if "headers" in scope else ""
        # Each line of the log that is written for this request carries its number.
        with bound_contextvars(request_id=request_id):
            if scope["type"] == "http":
                await self._handle(scope, receive, send, request_id)
            else:
                await self._open(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        scope = with_session(with_origin({**scope, "path": as_described(scope["path"])}, self._sealer))
        # A file that is put into a storage is streamed there and never held in memory.
        is_upload = scope["method"] == "PUT" and is_file(scope["path"])
        limit_bytes = self._upload_max_bytes if is_upload else self._body_max_bytes
        scope.setdefault("state", {})["request_id"] = request_id
        passage = _Passage(scope, receive, send, limit_bytes)
        passage.add_header(*header_of(request_id))
        try:
            with span("request", scope["headers"], **{"pai.request_id": request_id}) as begun:
                await self._pass(scope, passage, receive)
                _describe(begun, scope, passage.status)
        finally:
            if passage.answered_s is not None:
                self._times.add(scope, passage.status, passage.answered_s)
                if self._logs_requests:
                    self._log_answer(scope, passage.status, passage.answered_s)

    async def _pass(self, scope: Scope, passage: _Passage, receive: Receive) -> None:
        try:
            if scope["path"] not in ("/healthz", "/readyz"):
                left = self._requests.take(self._client(scope))
                passage.add_limit_headers(self._requests.rate.burst, left)
            passage.check_announced_length()
            _refuse_nul(scope)
            await self._app(scope, passage.receive, passage.send)
        except ClientDisconnect:
            return
        except TooManyRequests as error:
            await refusal(error, error.headers())(scope, receive, passage.send)
        except (Refused, Unavailable) as error:
            await self._answer(passage, error)
        except Exception:
            _log.exception("a request failed", method=scope["method"], path=_shown_path(scope))
            request_id = scope["state"]["request_id"]
            await self._answer(passage, Broken(f"the server failed to answer request {request_id}"))

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a WebSocket pass as one request."""
        if scope["type"] == "websocket":
            scope = with_origin({**scope, "path": as_described(scope["path"])}, self._sealer)
            try:
                self._requests.take(self._client(scope))
                _refuse_nul(scope)
            except Refused as error:
                await deny(WebSocket(scope, receive, send), error)
                return
        await self._app(scope, receive, send)

    def _log_answer(self, scope: Scope, status: int, seconds: float) -> None:
        caller = scope["state"].get("caller")
        _log.info(
            "answered",
            method=scope["method"],
            path=_shown_path(scope),
            status=status,
            ms=round(seconds * 1000, 1),
            user=caller.user if caller is not None else "",
            address=address_of(scope),
        )

    def _client(self, scope: Scope) -> str:
        authorization = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        known = self._sessions.client(authorization.decode("latin-1")) if authorization else None
        # Only a recognised token names a client: each made-up one would have a fresh limit.
        return known or network_of(address_of(scope))

    async def _answer(self, passage: _Passage, error: PaiError) -> None:
        if passage.is_answered:
            # Too late for an error: only a broken connection shows that the answer is incomplete.
            raise error
        await refusal(error)(passage.scope, passage.receive, passage.send)


def _describe(span: Span, scope: Scope, status: int) -> None:
    route = getattr(scope.get("route"), "path", "")
    span.name(f"{scope['method']} {route}".rstrip())
    names = {"http.request.method": scope["method"], "http.route": route}
    span.note(**names, **{"http.response.status_code": status})


def _shown_path(scope: Scope) -> str:
    # A token in a path is a secret.
    return str(scope["route"].path if "token" in scope.get("path_params", ()) else scope["path"])


def _refuse_nul(scope: Scope) -> None:
    """Raise Refused for a path with a NUL character, which no name contains and PostgreSQL refuses."""
    if "\x00" in scope["path"]:
        raise invalid("the path contains a NUL character")
    if b"%00" not in scope["query_string"] and b"\x00" not in scope["query_string"]:
        return
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        if "\x00" in name + value:
            raise invalid(f"{name.partition(chr(0))[0]}: holds a NUL character")


class _Passage:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, body_max_bytes: int) -> None:
        self.scope = scope
        self.is_answered = False
        self.status = 0
        self.answered_s: float | None = None
        """How long it took until the answer began."""
        self._began_s = perf_counter()
        self._receive = receive
        self._send = send
        self._body_max_bytes = body_max_bytes
        self._read_bytes = 0
        self._extra: list[tuple[bytes, bytes]] = list(_SAFE if str(scope["path"]).startswith(_PAGES) else SAFE_DATA)

    def header(self, name: bytes) -> bytes | None:
        """Return a header of the request."""
        return next((value for found, value in self.scope["headers"] if found == name), None)

    def add_header(self, name: bytes, value: bytes) -> None:
        """Add a header to the answer."""
        self._extra.append((name, value))

    def add_limit_headers(self, limit: int, left: int) -> None:
        """Add headers that say how many requests the client has left."""
        self.add_header(b"x-ratelimit-limit", b"%d" % limit)
        self.add_header(b"x-ratelimit-remaining", b"%d" % left)

    def check_announced_length(self) -> None:
        """Refuse a body whose announced length is too large."""
        announced = self.header(b"content-length")
        if announced is not None and announced.isdigit() and int(announced) > self._body_max_bytes:
            raise self._too_large()

    async def receive(self) -> Message:
        """Pass on a part of the request and count its bytes: not every body announces its length."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._read_bytes += len(message.get("body", b""))
            if self._read_bytes > self._body_max_bytes:
                raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer, with the headers of every answer."""
        if message["type"] == "http.response.start":
            self.is_answered = True
            self.status, self.answered_s = message["status"], perf_counter() - self._began_s
            message = {**message, "headers": [*message.get("headers", ()), *self._missing(message)]}
        await self._send(message)

    def _missing(self, message: Message) -> Headers:
        given: set[Any] = {name.lower() for name, _ in message.get("headers", ())}
        return [header for header in self._extra if header[0] not in given]

    def _too_large(self) -> Refused:
        limit_kib = self._body_max_bytes // 1024
        return Refused(
            "RequestTooLargeError",
            f"the request is larger than {limit_kib} KiB",
            "put data and code into a storage or an image, not into the job file",
        )

"""The application proxy: one ASGI app for the origins of all applications.

In this order it asks which application is meant, whether the request comes from a page of it, who sent it, and whether
they may; then it passes it on. Its own addresses are below `/.pai/`.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from openpai.applications.connections import Upstreams
from openpai.applications.cookies import Cookies
from openpai.applications.incoming import Incoming
from openpai.applications.labels import Named, named
from openpai.applications.model import Services, Visitor
from openpai.applications.origins import comes_from_elsewhere
from openpai.applications.pages import page
from openpai.applications.requests import METHODS, Exchange
from openpai.applications.sessions import OPEN_AGAIN, ApplicationSessions
from openpai.applications.watching import Watch
from openpai.applications.web_sockets import Denied, SocketExchange
from openpai.lifecycle.model import JOB_FINAL
from openpai.lifecycle.states import JOB_STATES
from openpai.ports.applications import PlacedApplication
from openpai.ports.platform import NotLeading
from openpai.ports.shells import NothingListens
from openpai.ports.usage import AuditEntry
from openpai.protocol.errors import Broken, PaiError, Refused, Unavailable

ENTER: Final = "/.pai/enter"
ACTION: Final = "job.exec"
_OWN: Final = "/.pai/"
_log: Final = structlog.get_logger(__name__)


class ApplicationProxy:
    """Answers requests on the origins of applications."""

    def __init__(self, services: Services, sessions: ApplicationSessions, upstreams: Upstreams, watch: Watch) -> None:
        self._services = services
        self._sessions = sessions
        self._upstreams = upstreams
        self._watch = watch
        self._sockets: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; every outcome is answered."""
        if scope["type"] not in ("http", "websocket"):
            return
        answer = _Answer(scope, receive, send)
        try:
            await self._handle(scope, receive, answer.send)
        except Denied as denied:
            await answer.deny(denied)
        except PaiError as error:
            await answer.refuse(error)
        except Exception:
            _log.exception("a request to an application failed", label=self._services.origins.label(scope))
            await answer.refuse(Broken("the platform failed to answer this request"))

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        origins = self._services.origins
        label = origins.label(scope)
        about = named(label)
        if about is None or sum(name == b"host" for name, _ in scope["headers"]) != 1:
            raise Refused("NoApiError", "there is no application at this address", OPEN_AGAIN)
        await self._require_leader()
        cookies = origins.cookies(label)
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if scope["type"] == "http" and scope["path"] == ENTER and scope["method"] == "GET":
            await (await self._enter(scope, label, cookies))(scope, receive, send)
            return
        if scope["path"].startswith(_OWN):
            raise Refused("NoApiError", f"there is no {scope['path']}", OPEN_AGAIN)
        session = cookies.session_in(value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie")
        visitor = await self._sessions.visitor(session, label)
        if visitor is None:
            raise Refused("UnauthorizedUserError", "this browser is not logged in at this application", OPEN_AGAIN)
        self._check(scope, headers)
        place = await self._place(about)
        await self._pass_on(scope, receive, send, label, place, cookies, session)

    async def _require_leader(self) -> None:
        """Raise Unavailable on a server that reaches no tasks, before it uses up a ticket."""
        try:
            await self._services.platform.require_leader()
        except NotLeading as error:
            raise Unavailable("another server of the platform leads now", "open the application again") from error

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        origins = self._services.origins
        is_socket = scope["type"] == "websocket"
        method = "GET" if is_socket else scope["method"]
        if not is_socket and method not in METHODS:
            raise Refused("MethodNotAllowedError", f"applications do not take {method}")
        # Without Origin no browser sent it: each sends that with a WebSocket.
        elsewhere = comes_from_elsewhere(method, headers, origins.own(scope))
        if elsewhere and not (is_socket and b"origin" not in headers):
            raise Refused("ForbiddenUserError", "a page of another address may not use this application", OPEN_AGAIN)
        is_worker = headers.get(b"service-worker") is not None or headers.get(b"sec-fetch-dest") == b"serviceworker"
        if is_worker and origins.is_shared_host:
            # It would stay in the browser, and would see the pages of the next application at this port.
            message = "service workers need applications with a domain of their own"
            raise Refused("ForbiddenUserError", message, "an operator sets it with --app-url")

    async def _enter(self, scope: Scope, label: str, cookies: Cookies) -> Response:
        """Exchange a ticket for a session, and leave the address that has it."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        value, visitor = await self._sessions.exchange(query.get("ticket", [""])[0], label)
        about = named(label)
        place = await self._place(about) if about is not None else None
        await self._note(scope, label, visitor)
        path = place.application.path if place is not None else "/"
        headers = {
            "location": _local(query.get("to", [""])[0]) or path,
            "set-cookie": cookies.session_cookie(value),
            "referrer-policy": "no-referrer",
            "cache-control": "no-store",
        }
        given = (value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie")
        if self._services.origins.is_shared_host and not await self._sessions.may_go_on(
            cookies.session_in(given), label
        ):
            # What an earlier application left at this port. Cookies stay: they are those of the whole host.
            headers["clear-site-data"] = '"cache", "storage"'
        return Response(status_code=303, headers=headers)

    async def _note(self, scope: Scope, label: str, visitor: Visitor) -> None:
        about = named(label)
        row = await self._services.jobs.job_of_id(about.job) if about is not None else None
        if about is None or row is None:
            return
        client = scope.get("client")
        detail = {"event": "start", "application": about.application, "session": secrets.token_hex(4)}
        await self._services.usage.note(
            AuditEntry(
                self._services.clock.now_ms(), visitor.user, ACTION, row.full_name, row.user,
                via=visitor.via, address=client[0] if client else "local", status=303, detail=detail,
            )
        )  # fmt: skip

    async def _place(self, about: Named) -> PlacedApplication:
        """Return where an application is; raise Refused or Unavailable with the state of its job."""
        found = await self._services.platform.applications(about.job)
        place = next((one for one in found if one.application.name == about.application), None)
        row = await self._services.jobs.job_of_id(about.job) if place is None or place.key is None else None
        if row is None:
            if place is None or place.key is None:
                raise Refused("NoJobError", "the job of this application was deleted")
            return place
        name = f"job {row.user}~{row.name}"
        phase = next(phase for phase in JOB_STATES if phase == row.phase)
        state = JOB_STATES[phase].state
        if phase in JOB_FINAL or place is None:
            message = f"application {about.application} is gone: {name} is over ({state})"
            advice = f"`pai job show {row.user}~{row.name}` shows how it ended\n"
            raise Refused("FinishedJobError", message, f"{advice}`pai job start {row.name}` runs it again")
        if place.is_over:
            message = f"application {about.application} is gone: its task in {name} has ended"
            raise Refused("FinishedJobError", message, f"`pai job logs {row.user}~{row.name}` shows why")
        message = f"application {about.application} does not run yet: {name} is {state}"
        raise Unavailable(message, f"`pai job why {row.user}~{row.name}` shows why it waits")

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, label: str, place: PlacedApplication, cookies: Cookies,
        session: str,
    ) -> None:  # fmt: skip
        limits = self._services.limits
        touch = partial(self._watch.touch, label)
        incoming = Incoming(
            scope, receive, send, place, cookies, self._services.origins.scheme, touch,
            partial(self._sessions.may_go_on, session, label), limits.look_every_s,
        )  # fmt: skip
        try:
            if scope["type"] == "websocket":
                with self._one_socket(label):
                    stream = await self._services.platform.connect(*_where(place))
                    try:
                        await SocketExchange(incoming).run(stream)
                    finally:
                        await stream.close()
                return
            kind = place.application.kind
            is_use = self._watch.is_use(kind, scope["method"], scope["path"].encode(), scope["query_string"])
            if is_use:
                touch()
            exchange = Exchange(
                incoming if is_use else replace(incoming, touch=_nothing),
                answer_s=limits.answer_s,
                stalled_s=limits.stalled_s,
            )
            await exchange.run(self._upstreams)
        except Unavailable as error:
            where = f"job {place.full_name} is running; `pai job logs {place.full_name}` shows what its task does"
            advice = where if isinstance(error, NothingListens) else error.advice or where
            message = f"application {place.application.name} does not answer: {error.message}"
            raise Unavailable(message, advice) from error

    @contextlib.contextmanager
    def _one_socket(self, label: str) -> Iterator[None]:
        most = self._services.limits.sockets
        if self._sockets[label] >= most:
            message = f"the application has {most} open WebSockets, which are as many as it may have"
            raise Refused("TooManyRequestsError", message, "close other pages of it")
        self._sockets[label] += 1
        try:
            yield
        finally:
            self._sockets[label] -= 1
            if not self._sockets[label]:
                del self._sockets[label]


class _Answer:
    """The answer to one request, if the platform gives it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._is_begun = False

    async def send(self, message: Any) -> None:
        """Pass on a part of the answer."""
        self._is_begun = True
        await self._send(message)

    async def refuse(self, error: PaiError) -> None:
        """Answer with a page about an error."""
        if self._is_begun:
            return
        accept = dict(self._scope["headers"]).get(b"accept", b"")
        is_page = self._scope["type"] == "http" and b"text/html" in accept
        title = "Not logged in" if error.status == 401 else error.message[:1].upper() + error.message[1:]
        await self._respond(page(error.status, title, error, is_html=is_page, reloads=isinstance(error, Unavailable)))

    async def deny(self, denied: Denied) -> None:
        """Answer a WebSocket as the application did."""
        kept = [value for name, value in denied.headers if name.lower() == b"content-type"][:1]
        headers = {"content-type": kept[0].decode("latin-1")} if kept else {}
        await self._respond(Response(denied.body, denied.status, headers))

    async def _respond(self, response: Response) -> None:
        if self._scope["type"] == "http":
            await response(self._scope, self._receive, self._send)
            return
        await self._send(
            {"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers}
        )
        await self._send({"type": "websocket.http.response.body", "body": response.body, "more_body": False})


def _where(place: PlacedApplication) -> tuple[Any, int]:
    if place.key is None or place.port is None:
        raise Unavailable("its task does not run")
    return place.key, place.port


def _local(path: str) -> str:
    """Return a path of this origin; empty for anything that a browser might take for another host."""
    is_path = path.startswith("/") and not path.startswith(("//", "/\\", _OWN))
    return path if is_path and path.isascii() and path.isprintable() and "\\" not in path else ""


def _nothing() -> None:
    """Note nothing."""

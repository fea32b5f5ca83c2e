"""The audit log: every change, and every attempt at one, leaves an entry before it is answered.

Plain ASGI around the routes, because only there the status of every answer is known, refusals included. The target of a
request comes from its path and from keys of its body that are listed here; no other part of a body or file is read. The
entry of an accepted job is written with the job, in one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openpai.access.model import Scope as Reach
from openpai.access.table import ACTIONS, open_action
from openpai.api.client_address import address_of
from openpai.api.context import action_of
from openpai.api.rate_limits import RateLimiter, TooManyRequests, network_of
from openpai.api.services import Rate, Services
from openpai.api.sessions import Caller, digest_of
from openpai.ports.usage import AuditEntry
from openpai.protocol.job import owner_and_job

LOGIN: Final = "login"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Keys of bodies that are recorded because their values are never secrets. Keys with values of any kind, such as
# extensions and the data of storages, are not among them.
_WORDS: Final = (
    "username", "groupname", "name", "user", "virtualCluster", "grouplist", "admin", "viewer", "scope", "expiration",
    "drained", "deadlineSeconds", "badDevices", "reason", "force",
    "promise", "promises", "version", "vcStatus", "halfLifeHours", "threshold", "action", "tag",
    "gpusRunning", "gpusPerJob", "jobsUnfinished", "gpuHoursPerMonth", "gpuHours", "period", "stops",
    "noticeMinutes", "contact", "patch", "kind", "readOnly", "shared",
)  # fmt: skip
_TARGETS: Final = ("username", "groupname", "name", "user", "virtualCluster")
_WORD_MAX: Final = 200
_LIST_MAX: Final = 20
# The rate at which each address without a login may add entries.
_STRANGERS: Final = Rate(1, 60)


def about(request: Request, *, actor: str = "", target: str = "", owner: str = "") -> None:
    """Set the actor, the target and its owner of the request's entry, where the path does not name them."""
    given = {"actor": actor, "target": target, "owner": owner}
    known = getattr(request.state, "about", {})
    request.state.about = {**known, **{word: value for word, value in given.items() if value}}


def about_each(request: Request, jobs: Sequence[tuple[str, int]]) -> None:
    """Write an entry for each of several jobs that a request changed, with its result."""
    request.state.about_each = tuple(jobs)


def entry_of_submission(request: Request, caller: Caller, now_ms: int) -> AuditEntry:
    """Return the entry that the store writes together with a job; the store adds the job's name."""
    entry = AuditEntry(now_ms, caller.user, caller.action, "", caller.user)
    return replace(entry, via=via(caller), address=address_of(request.scope), status=202)


def is_written(request: Request) -> None:
    """Record that the audit log has the entry of this request already."""
    request.state.is_audited = True


class Auditing:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, *, services: Services) -> None:
        self._app = app
        self._services = services
        self._strangers = RateLimiter(_STRANGERS, services.clock, "too many requests without a login")
        self._left_out = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, and write its entry before its answer is sent."""
        if scope["type"] != "http" or scope["method"] in _READING:
            await self._app(scope, receive, send)
            return
        failed: list[Exception] = []

        async def note_then_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                try:
                    await self._note(scope, message["status"])
                except Exception as error:
                    failed.append(error)
            if not failed:
                await send(message)

        try:
            await self._app(scope, receive, note_then_send)
        except ClientDisconnect:
            raise
        except Exception:
            if not failed:
                await self._note(scope, 500)
            raise
        if failed:
            # Do not report success for a change whose entry could not be written.
            raise failed[0]

    async def _note(self, scope: Scope, status: int) -> None:
        request = Request(scope)
        action = _action(scope)
        is_done = getattr(request.state, "is_audited", False) or getattr(request.state, "is_forwarded", False)
        # A request over a rate limit changed nothing, and floods must not fill the log.
        if action is None or is_done or status == 429 or not self._may_write(request, status):
            return
        entry = await self._entry(request, action, status)
        each = getattr(request.state, "about_each", ())
        entries = [_of_job(entry, name, became) for name, became in each] or [entry]
        # Writes that are requested together share a commit.
        await asyncio.gather(*(self._services.usage.note(one) for one in entries))

    def _may_write(self, request: Request, status: int) -> bool:
        if hasattr(request.state, "caller") or status != 401:
            return True
        try:
            self._strangers.take(network_of(address_of(request.scope)))
        except TooManyRequests:
            self._left_out += 1
            return False
        return True

    async def _entry(self, request: Request, action: str, status: int) -> AuditEntry:
        caller: Caller | None = getattr(request.state, "caller", None)
        body = _words(getattr(request.state, "asked", None))
        target, owner = _thing(request.path_params, body, caller)
        detail: dict[str, Any] = {"request": f"{request.method} {request.scope['route'].path}", **body}
        actor = caller.user if caller else ""
        if action == LOGIN:
            target = owner = await self._known(target)
            detail.pop("username", None)
            actor = target if status < 400 else ""
        if self._left_out:
            detail["leftOut"], self._left_out = self._left_out, 0
        how = via(caller) if caller else ""
        named = {"actor": actor, "target": target, "owner": owner, **getattr(request.state, "about", {})}
        now_ms = self._services.clock.now_ms()
        address = address_of(request.scope)
        # A route with several actions has recorded which one it was.
        done = caller.action if caller and caller.action else action
        return AuditEntry(now_ms, action=done, via=how, address=address, status=status, detail=detail, **named)

    async def _known(self, name: str) -> str:
        # Some users type their password into the field of the name: record only names that exist.
        return name if name and await self._services.users.user(name) is not None else ""


def _action(scope: Scope) -> str | None:
    """Return the action of the route of a request if it changes something."""
    route = scope.get("route")
    if not isinstance(route, APIRoute):
        return None
    action = action_of(route)
    if action is None:
        # A body without a user name is not an attempt to log in, nor is the answer of an identity provider.
        is_attempt = hasattr(Request(scope).state, "asked")
        return LOGIN if is_attempt and open_action(scope["method"], route.path) == LOGIN else None
    return None if ACTIONS[action].scope is Reach.READ else action


def _of_job(entry: AuditEntry, name: str, status: int) -> AuditEntry:
    return replace(entry, target=name, owner=owner_and_job(name, "")[0], status=status)


def via(caller: Caller) -> str:
    """Return how a caller is logged in, for an entry."""
    return (caller.token.name or "application token") if caller.token.is_application else "login"


def _words(body: BaseModel | None) -> dict[str, Any]:
    """Return the values of a body that are recorded, shortened."""
    if body is None:
        return {}
    values = body.model_dump(mode="json", include={*_WORDS, "data"}, exclude_unset=True)
    nested = values.pop("data", None)
    if isinstance(nested, Mapping):
        values = {**nested, **values}
    return {word: _short(values[word]) for word in _WORDS if values.get(word, "") != ""}


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_WORD_MAX]
    if isinstance(value, list):
        return [_short(each) for each in value[:_LIST_MAX]]
    return value if isinstance(value, bool | int | float) else None


def _thing(params: Mapping[str, Any], body: Mapping[str, Any], caller: Caller | None) -> tuple[str, str]:
    """Return the target of a request and its owner, as far as its path and its body name them."""
    if "job" in params:
        owner, name = owner_and_job(str(params["job"]), caller.user if caller else "")
        return (f"{owner}~{name}" if owner else name), owner
    if "token" in params:
        # A path may contain a token, which is a secret; its digest is not.
        token = str(params["token"])
        digest = token if len(token) == 64 else digest_of(token)
        return digest[:12], ""
    target = "/".join(str(value) for value in params.values())
    target = target or next((str(body[word]) for word in _TARGETS if body.get(word)), "")
    owner = params.get("username") or body.get("username") or ""
    return target, str(owner)

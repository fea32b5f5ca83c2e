"""What routes share: the services, sessions and limits of this server, and the permission each route needs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, cast

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer as BearerModel
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase

from openpai.access.deciding import at_door
from openpai.access.table import ACTIONS
from openpai.api.changes import ChangeFeed
from openpai.api.log_tickets import Tickets
from openpai.api.rate_limits import LoginLimiter, RateLimiter
from openpai.api.request_times import RequestTimes
from openpai.api.services import Services
from openpai.api.sessions import Caller, Sessions
from openpai.api.shell_sessions import OpenSessions
from openpai.api.shell_tickets import ShellTickets
from openpai.api.task_cache import TaskCache
from openpai.identity.passwords import Passwords
from openpai.orchestrator.quotas import QuotaCache


@dataclass(frozen=True, slots=True)
class ApiContext:
    """Everything the routes of one server share."""

    services: Services
    sessions: Sessions
    tickets: Tickets
    passwords: Passwords
    lists: RateLimiter
    logins: LoginLimiter
    quotas: QuotaCache
    shell_tickets: ShellTickets
    shells: OpenSessions
    changes: ChangeFeed
    task_cache: TaskCache = field(default_factory=TaskCache)
    times: RequestTimes = field(default_factory=RequestTimes)
    replaying: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the past is replayed with other promises: one at a time."""


def context_of(request: Request) -> ApiContext:
    """Return the context of the server that received a request."""
    return cast("ApiContext", request.app.state.context)


class RequiredAction(SecurityBase):
    """Admits callers who may do an action; where that depends on the object, the route calls `Caller.check`."""

    def __init__(self, action: str) -> None:
        self.action = ACTIONS[action]
        self.model = BearerModel(description="a browser token from a login, or an application token")
        self.scheme_name = "token"

    async def __call__(self, request: Request) -> Caller:
        """Return who is calling; raise UnauthorizedUserError or ForbiddenUserError."""
        caller = replace(await self.recognise(request), action=self.action.name)
        request.state.caller = caller
        at_door(caller.principal, self.action.name)
        return caller

    async def recognise(self, request: Request) -> Caller:
        """Return who sent a request."""
        return await context_of(request).sessions.caller(request.headers.get("authorization"))


class ActionByTicket(RequiredAction):
    """Also admits requests with a ticket for their path instead of a login."""

    async def recognise(self, request: Request) -> Caller:
        """Return the sender of a request, or the caller of its ticket."""
        ticket = request.query_params.get("ticket")
        if ticket is None or "authorization" in request.headers:
            return await super().recognise(request)
        return await context_of(request).tickets.caller(ticket, request.scope["path"])


class ActionByCookie(RequiredAction):
    """Also admits a token in the cookie of OpenPAI's portal; for reading only."""

    async def recognise(self, request: Request) -> Caller:
        """Return who sent a request."""
        token = request.cookies.get("token")
        if not token or "authorization" in request.headers:
            return await super().recognise(request)
        # Cookies are not forwarded to the leader; this header is.
        request.state.authorization = f"Bearer {token}"
        return await context_of(request).sessions.caller(request.state.authorization)


def needs(action: str) -> Any:
    """Return the dependency that admits callers who may do an action of `access.table`."""
    return Depends(RequiredAction(action))


def needs_or_ticket(action: str) -> Any:
    """Return the dependency that also admits requests with a ticket for their path."""
    return Depends(ActionByTicket(action))


def needs_or_cookie(action: str) -> Any:
    """Return the dependency that also admits requests with a token in a cookie."""
    return Depends(ActionByCookie(action))


def action_of(route: APIRoute) -> str | None:
    """Return the action that a route needs; None for an open route."""
    found = (each.call for each in route.dependant.dependencies)
    return next((call.action.name for call in found if isinstance(call, RequiredAction)), None)

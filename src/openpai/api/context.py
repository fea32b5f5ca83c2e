"""What a request finds at the desk: the services, the sessions and the limits of this server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer as BearerModel
from fastapi.security.base import SecurityBase

from openpai.api.limits import Buckets, Failures
from openpai.api.passwords import Passwords
from openpai.api.services import Services
from openpai.api.sessions import Caller, Sessions
from openpai.protocol.errors import Refused


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything the routes of one server share."""

    services: Services
    sessions: Sessions
    passwords: Passwords
    lists: Buckets
    logins: Failures
    logins_of_address: Failures


def desk(request: Request) -> Desk:
    """Return the desk of the server a request came to."""
    return cast("Desk", request.app.state.desk)


class _SignedIn(SecurityBase):
    """Lets nobody pass who has no valid token."""

    def __init__(self) -> None:
        self.model = BearerModel(description="a browser token from a login, or an application token")
        self.scheme_name = "token"

    async def __call__(self, request: Request) -> Caller:
        """Return who is calling; raise UnauthorizedUserError for a guest."""
        return await desk(request).sessions.caller(request.headers.get("authorization"))


signed_in = _SignedIn()
SignedIn = Annotated[Caller, Depends(signed_in)]
"""Any valid token."""


async def _in_person(caller: SignedIn) -> Caller:
    if caller.token.is_application:
        raise Refused("ForbiddenUserError", "an application token may not do this", "log in with a password")
    return caller


InPerson = Annotated[Caller, Depends(_in_person)]
"""A token from a login with a password, not an application's."""


async def _admin(caller: InPerson) -> Caller:
    if not caller.is_admin:
        raise Refused("ForbiddenUserError", "only an administrator may do this", "ask an administrator")
    return caller


Admin = Annotated[Caller, Depends(_admin)]
"""An administrator, in person."""

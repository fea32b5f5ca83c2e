"""A user's tokens: listing, making one for an application, revoking, checking.

Tokens themselves are shown once, when they are made. Lists name them by an id, and revoking takes either.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from openpai.api.answers import reply
from openpai.api.context import desk, doing
from openpai.api.sessions import Caller, digest_of
from openpai.api.shapes import users as shapes
from openpai.protocol.errors import Refused

router = APIRouter(tags=["tokens"])
_ID: Final = re.compile(r"[0-9a-f]{64}")


@router.get("/api/v2/tokens")
@router.get("/api/v1/token", include_in_schema=False)
async def tokens(request: Request, caller: Annotated[Caller, doing("token.list")]) -> Response:
    """Return the ids of one's own tokens that are valid, and what is known of each."""
    found = await desk(request).sessions.live(caller.user)
    details = [shapes.token(token, caller.token) for token in found]
    return reply({"tokens": [token.digest for token in found], "details": details})


@router.post("/api/v2/tokens/application")
@router.post("/api/v1/token/application", include_in_schema=False)
async def application_token(request: Request, caller: Annotated[Caller, doing("token.create")]) -> Response:
    """Return a new token for an application; it lasts until it is revoked."""
    here = desk(request)
    token = await here.sessions.open(caller.user, lifetime_s=None, is_application=True)
    return reply({"token": token, "application": True})


@router.delete("/api/v2/tokens/{token}")
@router.delete("/api/v1/token/{token}", include_in_schema=False)
async def revoke(request: Request, caller: Annotated[Caller, doing("token.revoke")], token: str) -> Response:
    """Revoke one of one's own tokens, named by itself or by its id."""
    here = desk(request)
    digest = digest_of(token)
    found = await here.services.users.token(digest)
    if found is None and _ID.fullmatch(token):
        digest = token
        found = await here.services.users.token(digest)
    if found is None:
        raise Refused("NoTokenError", "there is no such token", "it may have been revoked or have expired already")
    if found[0].user != caller.user:
        raise Refused("ForbiddenUserError", "this token belongs to somebody else", "revoke your own tokens only")
    await here.sessions.revoke(digest)
    return reply({"message": "revoke successfully"})


@router.get("/api/v2/tokens/check")
@router.get("/api/v1/token/check", include_in_schema=False)
async def check(request: Request, caller: Annotated[Caller, doing("token.check")]) -> Response:
    """Return what the token of this request stands for."""
    return reply(shapes.checked(caller.token, caller.is_admin))

"""Tokens of users: list, create one for an application, revoke, check.

A token itself is shown once, when it is created. Lists name tokens by their ids; to revoke one, give either.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Request
from pydantic import Field

from openpai.api.answers import Accepted, Reply, accepted, reply
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller, digest_of
from openpai.api.shapes import tokens as shapes
from openpai.api.token_format import digest_in, id_of
from openpai.protocol.errors import Refused
from openpai.wire.tokens import NewToken, Revoked, TokenInfo, TokenList

router = Router("tokens", {"/api/v2/tokens": "/api/v1/token"})
YEARS_TEN_S: Final = 10 * 366 * 86_400


class NewApplication(Body, example={"name": "ci", "scope": "jobs"}, is_required=False):
    """A new token: its scope, its lifetime in seconds (by default unlimited), and a name."""

    name: str = Field("", max_length=255, pattern=r"^[^\x00]*$")
    scope: Literal["all", "jobs", "read"] = "all"
    expiration: int | None = Field(None, ge=60, le=YEARS_TEN_S)


@router.serves("GET /api/v2/tokens", "List one's own tokens")
async def list_tokens(request: Request, caller: Annotated[Caller, needs("token.list")]) -> Reply[TokenList]:
    """Return the ids and details of one's own valid tokens.

    An id in `tokens` has the form of a JWT, for clients that read dates out of it; `details` has its short form.
    """
    found = await context_of(request).sessions.live(caller.user)
    details = [shapes.token(token, caller.token) for token in found]
    return reply(TokenList(tokens=[id_of(token) for token in found], details=details))


@router.serves("POST /api/v2/tokens/application", "Create a token for an application", takes=NewApplication)
async def create_application_token(
    request: Request, caller: Annotated[Caller, needs("token.create")]
) -> Reply[NewToken]:
    """Return a new token for an application; without an `expiration` it lasts until it is revoked.

    The body may be omitted. A token with scope `read` can change nothing, one with scope `jobs` only jobs and
    storages; neither can change the user's own account.
    """
    body = await read_body(request, NewApplication) if await request.body() else NewApplication.model_validate({})
    token = await context_of(request).sessions.open(
        caller.user, lifetime_s=body.expiration, is_application=True, scope=body.scope, name=body.name
    )
    return reply(NewToken(token=token, application=True, name=body.name, scope=body.scope))


@router.serves("DELETE /api/v2/tokens", "Revoke one's own tokens")
async def revoke_tokens(
    request: Request, caller: Annotated[Caller, needs("token.revoke")], browser: bool | None = None
) -> Reply[Revoked]:
    """Revoke one's own tokens: all, or with `browser` only logins (true) or only those of applications (false)."""
    return await revoked(request, caller.user, browser)


async def revoked(request: Request, user: str, browser: bool | None) -> Reply[Revoked]:
    """Revoke a user's tokens: all, only logins, or only those of applications."""
    is_application = None if browser is None else not browser
    count = await context_of(request).sessions.revoke_all(user, is_application=is_application)
    return reply(Revoked(message="revoke successfully", revoked=count))


@router.serves("DELETE /api/v2/tokens/{token}", "Revoke a token", "NoTokenError")
async def revoke_token(request: Request, caller: Annotated[Caller, needs("token.revoke")], token: str) -> Accepted:
    """Revoke one of one's own tokens, named by itself or by its id."""
    context = context_of(request)
    digest = digest_of(token)
    found = await context.services.users.token(digest)
    if found is None and (named := digest_in(token)) is not None:
        digest = named
        found = await context.services.users.token(digest)
    if found is None:
        raise Refused("NoTokenError", "there is no such token", "it may have been revoked or have expired already")
    if found[0].user != caller.user:
        raise Refused("ForbiddenUserError", "this token belongs to another user", "revoke your own tokens only")
    await context.sessions.revoke(digest)
    return accepted("revoke successfully")


@router.serves("GET /api/v2/tokens/check", "Show the user and scope of a token")
async def check_token(request: Request, caller: Annotated[Caller, needs("token.check")]) -> Reply[TokenInfo]:
    """Return the user, scope and times of the token of this request."""
    return reply(shapes.checked(caller.token, caller.is_admin))

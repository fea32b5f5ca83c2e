"""Logging in and out."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Annotated, Final

from fastapi import Request
from pydantic import Field

from openpai.access.accounts import USER_NAME, User
from openpai.api.accounts import sign_in, wrong_password
from openpai.api.answers import Accepted, Reply, accepted, reply
from openpai.api.bodies import Body, read_body
from openpai.api.client_address import address_of
from openpai.api.context import ApiContext, context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.sign_on import admit
from openpai.identity.passwords import PASSWORD_MAX
from openpai.protocol.errors import Unavailable
from openpai.wire import tokens as wire
from openpai.wire.tokens import LoginInfo

router = Router("authentication", {"/api/v2/authn": "/api/v1/authn", "/api/v2/tokens": "/api/v1/token"})


ERRORS: Final = "IncorrectPasswordError ForbiddenUserError ConflictUserError"
_ANN: Final = {"username": "ann", "password": "correct horse"}


class Login(Body, example=_ANN):
    """A user's name and password, and how many seconds the login lasts."""

    username: str = Field(pattern=USER_NAME)
    # A directory may have shorter passwords than this platform accepts for new ones.
    password: str = Field(min_length=1, max_length=PASSWORD_MAX)
    expiration: int | None = Field(None, ge=60, le=604_800)


@router.serves("GET /api/v2/authn/info", "Show how to log in")
async def get_login_info(request: Request) -> Reply[LoginInfo]:
    """Return how to log in: with a password, or on an identity provider's page; passwords work in both cases."""
    sign_on = context_of(request).services.sign_on
    basic = "/api/v1/authn/basic/login"
    if sign_on is None or sign_on.sso is None:
        return reply(LoginInfo(authn_type="basic", loginURI=basic, loginURIMethod="post"))
    page = LoginInfo(authn_type="OIDC", loginURI="/api/v1/authn/oidc/login", loginURIMethod="get")
    return reply({**page, "label": sign_on.sso.label, "passwordLoginURI": basic})


@router.serves("POST /api/v2/authn/basic/login", "Log in with a password", ERRORS, takes=Login)
@router.serves(
    "POST /api/v2/tokens", "Log in with a password", ERRORS, takes=Login, id_="createToken", tags=("tokens",)
)
async def log_in(request: Request) -> Reply[wire.Login]:
    """Return a token for a user's name and password, as JSON or as a form; it lasts `expiration` seconds."""
    return reply(await signed_in(request, await read_body(request, Login)))


async def signed_in(request: Request, body: Login) -> wire.Login:
    """Return a new token for a name and a password; raise IncorrectPasswordError for wrong ones."""
    context = context_of(request)
    address = address_of(request.scope)
    # Count the attempt before the hash is computed, so that concurrent attempts are all counted.
    context.logins.begin(body.username, address)
    try:
        user = await _who(context, body.username, body.password)
    except Unavailable:
        context.logins.undecided(body.username, address)
        raise
    if user is None:
        raise wrong_password()
    login = await sign_in(context, user, body.expiration)
    context.logins.succeeded(body.username, address)
    return login


async def _who(context: ApiContext, name: str, password: str) -> User | None:
    """Return the user with this name and password: a local account, or else one of the directory."""
    user = await context.services.users.user(name)
    if await context.passwords.matches(password, (user.password_hash or None) if user else None):
        return user
    sign_on = context.services.sign_on
    if sign_on is None or sign_on.directory is None:
        return None
    if user is not None and user.is_local:
        # The directory is not asked about local accounts, but a faster answer would reveal which accounts are local.
        with suppress(Unavailable):
            await sign_on.directory.check(secrets.token_hex(8), secrets.token_hex(8))
        return None
    person = await sign_on.directory.check(name, password)
    return await admit(context, sign_on, person) if person is not None else None


@router.serves("DELETE /api/v2/authn/basic/logout", "Log out")
async def log_out(request: Request, caller: Annotated[Caller, needs("logout")]) -> Accepted:
    """Revoke the token of this request."""
    await context_of(request).sessions.revoke(caller.token.digest)
    return accepted("revoke successfully")

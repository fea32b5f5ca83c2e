"""Logging browsers in and out: half of the token goes into a cookie that no script can read, half to the page."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Request

from openpai.api import browser_sessions
from openpai.api.answers import Accepted, Reply, accepted, reply
from openpai.api.bodies import read_body
from openpai.api.context import context_of, needs
from openpai.api.routes.authn import ERRORS, Login, signed_in
from openpai.api.routes.oidc import Code, Provider, redeemed
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.wire.tokens import BrowserLogin

router = Router("authentication")
_SET: Final = {"Set-Cookie": "half of the token of the login, for this server's own pages"}


@router.serves(
    "POST /api/v2/authn/browser/login", "Log a browser in with a password", ERRORS, takes=Login, headers=_SET
)
async def log_in_browser(request: Request) -> Reply[BrowserLogin]:
    """Log in with half of the token in a cookie that no script can read, and half in the answer, for the page.

    A request needs both: the cookie, and `pageKey` of the answer in the header `X-Pai-Page-Key`. Browsers send the
    cookie to every port of this host, also to a task that serves HTTP there: alone, it is of no use.
    """
    body = await read_body(request, Login)
    login = await signed_in(request, body)
    return _kept(request, login["user"], login["token"], body.expiration)


@router.serves(
    "POST /api/v2/authn/oidc/browser",
    "Log a browser in with the code of a sign-on",
    "NoApiError UnauthorizedUserError",
    takes=Code,
    headers=_SET,
)
async def redeem_in_browser(request: Request, provider: Provider) -> Reply[BrowserLogin]:
    """Exchange the code of a login and its secret for a session, as a login with a password does."""
    login = await redeemed(request)
    return _kept(request, login["user"], login["token"])


@router.serves("DELETE /api/v2/authn/browser/logout", "Log a browser out", headers={"Set-Cookie": "removes the cookie"})
async def log_out_browser(request: Request, caller: Annotated[Caller, needs("logout")]) -> Accepted:
    """Revoke the token of this request, and remove its cookie."""
    await context_of(request).sessions.revoke(caller.token.digest)
    answer = accepted("revoke successfully")
    browser_sessions.forget(request, answer)
    return answer


def _kept(request: Request, user: str, token: str, lifetime_s: int | None = None) -> Reply[BrowserLogin]:
    cookie, key = browser_sessions.split(token)
    answer = reply(BrowserLogin(user=user, pageKey=key))
    lifetime_s = lifetime_s or context_of(request).services.settings.token_lifetime_s
    browser_sessions.keep(request, answer, cookie, lifetime_s)
    return answer

"""Logging in through an identity provider's page, and coming back from it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request
from pydantic import Field
from starlette.responses import RedirectResponse, Response

from openpai.api.answers import Reply, reply
from openpai.api.audit import about
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of
from openpai.api.routing import Router
from openpai.api.services import SignOn
from openpai.api.sign_on import CHALLENGE, admit, checked_target, code_for, onward, redeem
from openpai.ports.identity import SignOnFailed, SingleSignOn
from openpai.protocol.errors import InvalidParameters, PaiError, Refused
from openpai.wire.tokens import Login

_OLDER: Final = {f"/api/v2/authn/oidc/{page}": f"/api/v1/authn/oidc/{page}" for page in ("login", "return", "logout")}
router = Router("authentication", _OLDER)
KEEPSAKE: Final = "pai_sign_on"
_TEXT: Final = r"^[^\x00-\x1f\x7f]*$"
_FORM: Final = re.compile(rb"[\x21-\x7e]{0,16384}")
_RETURN: Final = "/api/v2/authn/oidc/return"
_LOGIN_PAGE: Final = "/login"
_LOCATION: Final = {"Location": "the page to continue at"}
_ONWARD: Final[dict[str, Any]] = {
    "status": 302,
    "success": "to the identity provider, or back to the client that began the login",
    "headers": _LOCATION,
}


class Code(Body, example={"code": "gAAAAABo", "verifier": "a-secret-of-this-browser"}):
    """The code of a login, and the secret of its challenge."""

    code: str = Field(min_length=1, max_length=4096)
    verifier: str = Field(min_length=1, max_length=256)


async def _provider(request: Request) -> tuple[SignOn, SingleSignOn]:
    sign_on = context_of(request).services.sign_on
    if sign_on is None or sign_on.sso is None:
        message = "this platform has no single sign-on"
        raise Refused("NoApiError", message, "log in with a name and a password; see /api/v2/authn/info")
    return sign_on, sign_on.sso


# Checked first: without a provider these routes do not exist.
Provider = Annotated[tuple[SignOn, SingleSignOn], Depends(_provider)]


@router.serves("GET /api/v2/authn/oidc/login", "Log in on a provider's page", "NoApiError", **_ONWARD)
async def begin_sign_on(
    request: Request,
    provider: Provider,
    challenge: Annotated[str, Query(pattern=CHALLENGE, description="SHA-256 of a secret of the client, base64url")],
    redirect_uri: Annotated[str, Query(max_length=2048, description="the address to return to")] = "/",
    origin: Annotated[str, Query(alias="from", max_length=2048, pattern=_TEXT, description="returned unchanged")] = "",
) -> Response:
    """Send the browser to the identity provider; it returns to `redirect_uri` with a `code` for the token route."""
    sign_on, sso = provider
    target = checked_target(redirect_uri, sign_on)
    back = {"target": target, "from": origin, "challenge": challenge}
    try:
        started = await sso.start(_return_to(request, sign_on), back)
    except PaiError as error:
        if not _is_page(request):
            raise
        return RedirectResponse(onward(target, errorMessage=error.sentence, **_origin(back)), 302)
    answer = RedirectResponse(started.url, 302)
    answer.set_cookie(KEEPSAKE, started.keepsake, max_age=600, **_cookie(request, sign_on))
    return answer


@router.serves(
    f"POST {_RETURN}",
    "Return from a provider's page by a form",
    "InvalidParametersError",
    status=303,
    headers=_LOCATION,
    success="the same answer, as a GET",
)
async def pass_on_sign_on(request: Request) -> Response:
    """Accept an answer that the provider posts as a form; redirect to a GET, which carries the cookie."""
    form = await request.body()
    if not _FORM.fullmatch(form):
        raise InvalidParameters("this is not the answer of an identity provider", "log in again")
    return Response(status_code=303, headers={"location": f"{_RETURN}?{form.decode()}"})


@router.serves(f"GET {_RETURN}", "Return from a provider's page", "NoApiError UnauthorizedUserError", **_ONWARD)
async def end_sign_on(request: Request, provider: Provider) -> Response:
    """Accept the provider's answer, and redirect the browser with a `code`, or with an `errorMessage`."""
    context = context_of(request)
    sign_on, sso = provider
    keepsake = request.cookies.get(KEEPSAKE, "")
    try:
        finished = await sso.finish(_return_to(request, sign_on), dict(request.query_params), keepsake)
        back = finished.back
        try:
            user = await admit(context, sign_on, finished.person)
        except PaiError as error:
            raise SignOnFailed(error.sentence, back) from error
        place = onward(back["target"], code=code_for(context, user, back["challenge"]), **_origin(back))
    except SignOnFailed as failed:
        if not failed.back and not _is_page(request):
            raise Refused("UnauthorizedUserError", failed.message, "log in again") from failed
        # Where it is unknown where this login began, the page of the login shows the error.
        back = failed.back or {"target": _LOGIN_PAGE}
        place = onward(back["target"], errorMessage=failed.message, **_origin(back))
    answer = RedirectResponse(place, 302)
    answer.delete_cookie(KEEPSAKE, **_cookie(request, sign_on))
    return answer


@router.serves(
    "POST /api/v2/authn/oidc/token",
    "Exchange the code of a sign-on for a token",
    "NoApiError UnauthorizedUserError",
    takes=Code,
)
async def redeem_sign_on(request: Request, provider: Provider) -> Reply[Login]:
    """Return a token for the code of a login and its secret; each code works once, within a minute."""
    return reply(await redeemed(request))


async def redeemed(request: Request) -> Login:
    """Return a new token for the code of a sign-on and its secret."""
    body = await read_body(request, Code)
    login = await redeem(context_of(request), body.code, body.verifier)
    about(request, actor=login["user"], target=login["user"], owner=login["user"])
    return login


@router.serves("GET /api/v2/authn/oidc/logout", "Log out at a provider", "NoApiError", **_ONWARD)
async def end_provider_session(
    request: Request,
    provider: Provider,
    redirect_uri: Annotated[str, Query(max_length=2048, description="the address to return to")] = "/",
) -> Response:
    """Send the browser to the provider's logout page; revoke the token with the basic logout first."""
    sign_on, sso = provider
    target = checked_target(redirect_uri, sign_on)
    absolute = f"{_base(request, sign_on)}{target}" if target.startswith("/") else target
    return RedirectResponse(await sso.logout_url(absolute) or target, 302)


def _base(request: Request, sign_on: SignOn) -> str:
    return (sign_on.public_url or str(request.base_url)).rstrip("/")


def _cookie(request: Request, sign_on: SignOn) -> dict[str, Any]:
    is_secure = _base(request, sign_on).startswith("https:")
    return {"path": "/api", "httponly": True, "samesite": "lax", "secure": is_secure}


def _return_to(request: Request, sign_on: SignOn) -> str:
    return f"{_base(request, sign_on)}{_RETURN}"


def _is_page(request: Request) -> bool:
    """Return whether a person reads the answer, in a browser's window."""
    return "text/html" in request.headers.get("accept", "")


def _origin(back: object) -> dict[str, str]:
    origin = back.get("from", "") if isinstance(back, dict) else ""
    return {"from": origin} if origin else {}

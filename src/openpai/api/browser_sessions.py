"""Sessions of browsers: the token of a login in a cookie that no script can read.

Another site must not use it. The cookie is for requests of our own pages only (`SameSite=Strict`), and it is not
accepted from a page of another origin, such as a task that serves HTTP on another port of the same host: browsers name
the relation in `Sec-Fetch-Site`. A request that may change something also needs the header `X-Requested-With`, which no
form can send, and a script of another origin only with a permission that this server never gives.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from openpai.api.context import context_of

COOKIE: Final = "pai_session"
_READING: Final = frozenset({"GET", "HEAD"})
_PATH: Final = "/api"


def with_session(scope: Scope) -> Scope:
    """Return a request of the portal with the token of its cookie as its credentials; any other one unchanged."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    cookies = headers.get(b"cookie", b"")
    if b"authorization" in headers or COOKIE.encode() not in cookies or not scope["path"].startswith(f"{_PATH}/"):
        return scope
    if not _is_own(scope["method"], headers):
        return scope
    try:
        morsel = SimpleCookie(cookies.decode("latin-1")).get(COOKIE)
    except CookieError:
        return scope
    if morsel is None or not morsel.value:
        return scope
    return {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + morsel.value.encode("latin-1"))]}


def _is_own(method: str, headers: dict[bytes, bytes]) -> bool:
    """Return whether a request came from a page of ours, or for reading from the address bar."""
    site = headers.get(b"sec-fetch-site")
    if method in _READING:
        return site in (None, b"same-origin", b"none")
    return site in (None, b"same-origin") and b"x-requested-with" in headers


def keep(request: Request, answer: Response, token: str, lifetime_s: int) -> None:
    """Set the cookie of a login."""
    answer.set_cookie(COOKIE, token, max_age=lifetime_s, **_attributes(request))


def forget(request: Request, answer: Response) -> None:
    """Remove the cookie of a login."""
    answer.delete_cookie(COOKIE, **_attributes(request))


def _attributes(request: Request) -> dict[str, Any]:
    sign_on = context_of(request).services.sign_on
    address = (sign_on.public_url if sign_on else "") or str(request.base_url)
    return {"path": _PATH, "httponly": True, "samesite": "strict", "secure": address.startswith("https:")}

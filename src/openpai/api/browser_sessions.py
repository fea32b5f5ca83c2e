"""Sessions of browsers: the token of a login in two halves, a cookie that no script can read and a key of the page.

Cookies know no ports: a task that serves HTTP on another port of the same host receives the cookie when a user opens
its `/api` addresses. Therefore the cookie alone is worth nothing. The page sends the other half in the header
`X-Pai-Page-Key`, from a storage of its own origin, which the pages of a task cannot read; that half alone is worth
nothing either. No form can send the header, and a script of another origin could only with a permission that this
server never gives. In addition, requests that a browser says come from another origin (`Sec-Fetch-Site`) are not
logged in.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from openpai.api.context import context_of

COOKIE: Final = "pai_session"
PAGE_KEY: Final = "X-Pai-Page-Key"
_PATH: Final = "/api"


def with_session(scope: Scope) -> Scope:
    """Return a request of the portal with the token of its session as its credentials; any other one unchanged."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    cookies, key = headers.get(b"cookie", b""), headers.get(PAGE_KEY.lower().encode())
    if b"authorization" in headers or key is None or COOKIE.encode() not in cookies:
        return scope
    if not scope["path"].startswith(f"{_PATH}/") or not _is_own(headers):
        return scope
    try:
        morsel = SimpleCookie(cookies.decode("latin-1")).get(COOKIE)
    except CookieError:
        return scope
    token = _joined(morsel.value.encode("latin-1"), key) if morsel is not None else b""
    return {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + token)]} if token else scope


def _is_own(headers: dict[bytes, bytes]) -> bool:
    """Return whether a request came from a page of ours, as far as its browser says."""
    return headers.get(b"sec-fetch-site") in (None, b"same-origin")


def split(token: str) -> tuple[str, str]:
    """Return two texts, each of them random, that make the token together."""
    plain = token.encode()
    pad = secrets.token_bytes(len(plain))
    return _text(pad), _text(bytes(one ^ other for one, other in zip(plain, pad, strict=True)))


def _text(half: bytes) -> str:
    return base64.urlsafe_b64encode(half).decode().rstrip("=")


def _joined(cookie: bytes, key: bytes) -> bytes:
    """Return the token of two halves, nothing for halves that do not belong together."""
    try:
        halves = [base64.b64decode(half + b"=" * (-len(half) % 4), b"-_", validate=True) for half in (cookie, key)]
    except (binascii.Error, ValueError):
        return b""
    if len(halves[0]) != len(halves[1]):
        return b""
    token = bytes(one ^ other for one, other in zip(*halves, strict=True))
    return token if token.isascii() and token.decode().isprintable() else b""


def keep(request: Request, answer: Response, half: str, lifetime_s: int) -> None:
    """Set the cookie of a login."""
    answer.set_cookie(COOKIE, half, max_age=lifetime_s, **_attributes(request))


def forget(request: Request, answer: Response) -> None:
    """Remove the cookie of a login."""
    answer.delete_cookie(COOKIE, **_attributes(request))


def _attributes(request: Request) -> dict[str, Any]:
    sign_on = context_of(request).services.sign_on
    address = (sign_on.public_url if sign_on else "") or str(request.base_url)
    return {"path": _PATH, "httponly": True, "samesite": "strict", "secure": address.startswith("https:")}

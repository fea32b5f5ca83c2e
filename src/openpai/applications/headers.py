"""Which headers pass between a browser and an application.

Nothing of the platform reaches an application: no Authorization, no page key, no cookie that is not its own. Nothing
of an application reaches beyond its origin: no cookie of another host, no order to a browser or to a proxy in front of
the platform about anything but this answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from openpai.applications.cookies import SET_MAX, Cookies

Headers = list[tuple[bytes, bytes]]

_HOPS: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    }
)
_NOT_INWARDS: Final = _HOPS | {b"authorization", b"cookie", b"expect", b"forwarded", b"x-real-ip"}
_NOT_OUTWARDS: Final = _HOPS | {
    *(b"set-cookie", b"set-cookie2", b"strict-transport-security", b"clear-site-data", b"alt-svc", b"x-sendfile"),
    *(b"public-key-pins", b"public-key-pins-report-only", b"referrer-policy", b"service-worker-allowed"),
    *(b"www-authenticate", b"nel", b"report-to", b"reporting-endpoints"),
}
_PREFIXES_INWARDS: Final = (b"x-pai-", b"x-forwarded-", b"sec-websocket-")
_PREFIXES_OUTWARDS: Final = (b"x-pai-", b"x-accel-", b"proxy-", b"access-control-allow-private-network")
_BUFFERING: Final = b"x-accel-buffering"
_ADDED: Final[Headers] = [
    # A second policy: both have to allow what a page does.
    (b"content-security-policy", b"frame-ancestors 'self'"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_BODILESS: Final = (204, 304)


def inwards(headers: Headers, cookies: Cookies, *, token: str, scheme: str, client: str) -> Headers:
    """Return the headers of a request as the application gets them, without those that frame its body."""
    dropped = _NOT_INWARDS | _named_by_connection(headers)
    kept = [
        (name, value)
        for name, value in headers
        # Many servers cannot distinguish `_` from `-` in the name of a header.
        if name not in dropped and not name.startswith(_PREFIXES_INWARDS) and b"_" not in name
    ]
    kept = [(name, value) for name, value in kept if name != b"content-length"]
    cookie = cookies.inwards(value.decode("latin-1") for name, value in headers if name == b"cookie")
    if cookie:
        kept.append((b"cookie", cookie.encode("latin-1")))
    if token:
        kept.append((b"authorization", b"Bearer " + token.encode()))
    host = next((value for name, value in headers if name == b"host"), b"")
    return [
        *kept,
        (b"x-forwarded-proto", scheme.encode()),
        (b"x-forwarded-host", host),
        (b"x-forwarded-for", client.encode()),
    ]


def outwards(headers: Iterable[tuple[bytes, bytes]], cookies: Cookies, status: int) -> Headers:
    """Return the headers of an answer as the browser gets them."""
    given = [(name.lower(), value) for name, value in headers]
    dropped = _NOT_OUTWARDS | _named_by_connection(given)
    if status in _BODILESS:
        dropped = dropped | {b"content-length"}
    kept = [
        (name, value)
        for name, value in given
        if name not in dropped and (not name.startswith(_PREFIXES_OUTWARDS) or name == _BUFFERING)
    ]
    if not any(name == b"x-frame-options" for name, _ in kept):
        kept.append((b"x-frame-options", b"SAMEORIGIN"))
    set_ = [value for name, value in given if name == b"set-cookie"][:SET_MAX]
    renamed = (cookies.outwards(value.decode("latin-1")) for value in set_)
    return [*kept, *_ADDED, *((b"set-cookie", value.encode("latin-1")) for value in renamed if value is not None)]


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    words = (word for name, value in headers if name == b"connection" for word in value.lower().split(b","))
    return frozenset(word.strip() for word in words)

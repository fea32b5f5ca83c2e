"""Whether a request comes from a page of its own application.

A cookie says which browser sends a request, never which page. On one host all applications and the platform are one
site, so SameSite does not keep them apart either. Browsers say where a request comes from: in Sec-Fetch-Site where
the address is trustworthy (https, or this machine), elsewhere in Origin and Referer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_SAFE: Final = ("GET", "HEAD")
_OWN: Final = (b"same-origin", b"none")


def comes_from_elsewhere(method: str, headers: Mapping[bytes, bytes], origin: str) -> bool:
    """Return whether another page than one of `origin` sends a request, other than by a link to it."""
    sent = headers.get(b"origin")
    if sent is not None and sent.decode("latin-1").lower() != origin:
        return True
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        is_link = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
        return site not in _OWN and not (is_link and method in _SAFE)
    if sent is not None or _origin_of(headers.get(b"referer", b"")) == origin:
        return False
    # Neither says anything: a page that was typed or linked is harmless, a script or image of it is not.
    return method not in _SAFE or b"text/html" not in headers.get(b"accept", b"")


def _origin_of(referer: bytes) -> str:
    try:
        parts = urlsplit(referer.decode("latin-1"))
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower()

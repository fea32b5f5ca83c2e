"""A number for each request, by which its answer, its lines of the server's log and its trace are found.

A client or proxy may give it as `X-Request-ID`; otherwise the server makes one. Every answer returns it, and a request
that is forwarded to the leader keeps it.
"""

from __future__ import annotations

import re
import secrets
from typing import Any, Final

HEADER: Final = "x-request-id"
_NAME: Final = HEADER.encode()
# Nothing that ends a line, a field or a header; longer ones would fill the log.
_USABLE: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


def request_id_of(headers: Any) -> str:
    """Return the number that a request carries, or a new one if it carries none that can be used."""
    given = next((value for name, value in headers if name == _NAME), b"")
    return given.decode("ascii") if _USABLE.fullmatch(given) else secrets.token_hex(12)


def header_of(request_id: str) -> tuple[bytes, bytes]:
    """Return the header of an answer."""
    return _NAME, request_id.encode("ascii")

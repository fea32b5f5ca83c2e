"""Cookies of applications, apart from those of the platform and of each other.

Cookies know no ports, so applications that share a host with the platform share its cookies in every browser. There
each cookie of an application has a prefix of its own in the browser, which is removed on the way to the application;
no other cookie reaches it. An application with a host of its own keeps its names, so that its scripts find them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SET_MAX: Final = 50
"""The number of cookies that one answer may set."""
_SIZE_MAX: Final = 4096
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\x20-\x3a\x3c-\x7e\x80-\xff]*")
_ATTRIBUTES: Final = frozenset({"path", "expires", "max-age", "secure", "httponly", "samesite", "partitioned"})
_OURS: Final = ("pai_session", "pai-app", "__host-pai", "__secure-pai")


@dataclass(frozen=True, slots=True)
class Cookies:
    """How the cookies of one application are called in a browser."""

    session: str
    """The cookie that lets its browser in."""
    prefix: str = ""
    """Before the names of the application's own cookies; empty if it has a host of its own."""
    is_secure: bool = False

    def session_in(self, headers: Iterable[str]) -> str:
        """Return the value of the session in Cookie headers; empty without one, or with several."""
        found = [value for name, value in _pairs(headers) if name == self.session]
        # Another application of the same host may have added one for a longer path: neither is believed.
        return found[0] if len(set(found)) == 1 else ""

    def inwards(self, headers: Iterable[str]) -> str:
        """Return the Cookie header for the application; empty if none of its cookies is among them."""
        kept = []
        for name, value in _pairs(headers):
            own = name.removeprefix(self.prefix)
            is_own = name.startswith(self.prefix) if self.prefix else not _is_ours(name)
            if is_own and own and _NAME.fullmatch(own) and _VALUE.fullmatch(value):
                kept.append(f"{own}={value}")
        return "; ".join(kept)

    def outwards(self, value: str) -> str | None:
        """Return a Set-Cookie header as the browser gets it; None for one that is refused."""
        first, *rest = value.split(";")
        name, equals, content = first.partition("=")
        name, content = name.strip(), content.strip()
        fits = _NAME.fullmatch(name) and _VALUE.fullmatch(content) and len(value) <= _SIZE_MAX
        if not equals or not fits or (not self.prefix and _is_ours(name)):
            return None
        kept = [f"{self.prefix}{name}={content}"]
        for attribute in rest:
            word = attribute.partition("=")[0].strip().lower()
            # Without Domain a cookie belongs to this host only.
            if word in _ATTRIBUTES and _VALUE.fullmatch(attribute):
                kept.append(attribute.strip())
        return "; ".join(kept)

    def session_cookie(self, value: str) -> str:
        """Return the Set-Cookie header of a session."""
        secure = "; Secure" if self.is_secure else ""
        return f"{self.session}={value}; Path=/; HttpOnly; SameSite=Lax{secure}"


def _is_ours(name: str) -> bool:
    return name.lower().startswith(_OURS)


def _pairs(headers: Iterable[str]) -> Iterable[tuple[str, str]]:
    for header in headers:
        for pair in header.split(";"):
            name, equals, value = pair.partition("=")
            if equals:
                yield name.strip(), value.strip()

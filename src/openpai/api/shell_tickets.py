"""One-use tickets in the address of a WebSocket: a browser cannot send an Authorization header with one.

A ticket names one path and one login. It lives a minute in the memory of the server that leads, which also opens the
WebSocket, so that it cannot be used twice.
"""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple

from openpai.api.sessions import Caller, Sessions
from openpai.ports.clock import Clock
from openpai.protocol.errors import Refused

LIFETIME_S: Final = 60
_KEPT_MAX: Final = 10_000


class Issued(NamedTuple):
    """A ticket and when it expires."""

    ticket: str
    until_ms: int


class _Contents(NamedTuple):
    path: str
    digest: str
    until_ms: int


class ShellTickets:
    """Issues tickets, and returns the caller of a ticket once."""

    def __init__(self, sessions: Sessions, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock
        self._issued: dict[str, _Contents] = {}

    def ticket(self, caller: Caller, path: str) -> Issued:
        """Return a ticket for one caller and one path."""
        while len(self._issued) >= _KEPT_MAX:
            del self._issued[next(iter(self._issued))]
        issued = Issued(secrets.token_urlsafe(32), self._clock.now_ms() + LIFETIME_S * 1000)
        self._issued[issued.ticket] = _Contents(path, caller.token.digest, issued.until_ms)
        return issued

    async def caller(self, ticket: str, path: str) -> Caller:
        """Return the caller of a ticket, and forget it.

        Raises ForbiddenUserError for another path, and UnauthorizedUserError for any text that is no ticket (any more).
        """
        contents = self._issued.pop(ticket, None)
        if contents is None or self._clock.now_ms() >= contents.until_ms:
            message = "this is not a ticket, or it was used, or is older than a minute"
            raise Refused("UnauthorizedUserError", message, "request another one, or log in")
        if contents.path != path:
            raise Refused("ForbiddenUserError", "the ticket is for another address", "request one for this address")
        return await self._sessions.holder(contents.digest)

"""Tickets in the address of a log, valid for two minutes: for a browser's new tab, or a stream of events.

Neither can send an Authorization header, and OpenPAI's clients read logs at the address they receive. A ticket is
sealed with the platform's key. It names one path and one login; it gives access to nothing else, and to nothing
once that login has ended or has lost the right to read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from openpai.api.client_address import sealed_text
from openpai.api.sessions import Caller, Sessions
from openpai.ports.clock import Clock
from openpai.ports.identity import Sealer
from openpai.ports.store import Sealed
from openpai.protocol.errors import Refused

LIFETIME_S: Final = 120
# Other values are sealed with the same key.
_TICKET: Final = "address of a log"


class _Contents(NamedTuple):
    path: str
    digest: str
    until_ms: int


class Tickets:
    """Issues tickets, and returns the caller of a ticket."""

    def __init__(self, sealer: Sealer, sessions: Sessions, clock: Clock) -> None:
        self._sealer = sealer
        self._sessions = sessions
        self._clock = clock

    def ticket(self, caller: Caller, path: str) -> str:
        """Return a ticket for one caller and one path."""
        contents = _Contents(path, caller.token.digest, self._clock.now_ms() + LIFETIME_S * 1000)
        return sealed_text(self._sealer, {_TICKET: contents})

    async def caller(self, ticket: str, path: str) -> Caller:
        """Return the caller of a ticket.

        Raises ForbiddenUserError for an expired one or another path, UnauthorizedUserError for any other text.
        """
        contents = self._opened(ticket)
        if contents is None:
            raise Refused("UnauthorizedUserError", "this is not a ticket", "ask for the logs again, or log in")
        if contents.path != path or self._clock.now_ms() >= contents.until_ms:
            message = "the address of a log is valid for two minutes and for this log only"
            raise Refused("ForbiddenUserError", message, "ask for the logs again, or log in")
        return await self._sessions.holder(contents.digest)

    def _opened(self, ticket: str) -> _Contents | None:
        try:
            contents = self._sealer.open(Sealed(ticket.encode("utf-8", "replace"))).get(_TICKET)
        except Refused:
            return None
        return _Contents(*contents) if contents else None

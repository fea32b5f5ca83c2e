"""Lets users into an application: by a ticket in an address, once, then a cookie that is worth nothing elsewhere.

A cookie is sealed with the server's key and names one application and one login, so it survives a restart of the
server and ends with that login. The right is the one of `job.exec`, and is asked for again every few seconds.
"""

from __future__ import annotations

import secrets
from typing import Any, Final, NamedTuple

from openpai.applications.labels import named
from openpai.applications.model import Services, Visitor
from openpai.ports.store import Sealed
from openpai.protocol.errors import Refused

TICKET_S: Final = 60
OPEN_AGAIN: Final = "open it from the page of its job in the portal, or with `pai job open JOB`"
_KEPT_MAX: Final = 10_000
_KNOWN_MAX: Final = 10_000
# Other values are sealed with the same key.
_SESSION: Final = "session of an application"


class Ticket(NamedTuple):
    """A ticket, and when it expires."""

    text: str
    until_ms: int


class _Contents(NamedTuple):
    label: str
    login: str
    until_ms: int


class _Known(NamedTuple):
    visitor: Visitor
    until_ms: int


class ApplicationSessions:
    """Issues tickets, exchanges them for sessions, and returns who has a session."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._issued: dict[str, _Contents] = {}
        self._known: dict[tuple[str, str], _Known] = {}

    def ticket(self, label: str, login: str) -> Ticket:
        """Return a ticket for one application and one login."""
        while len(self._issued) >= _KEPT_MAX:
            del self._issued[next(iter(self._issued))]
        issued = Ticket(secrets.token_urlsafe(32), self._services.clock.now_ms() + TICKET_S * 1000)
        self._issued[issued.text] = _Contents(label, login, issued.until_ms)
        return issued

    async def exchange(self, ticket: str, label: str) -> tuple[str, Visitor]:
        """Return a session for a ticket, which it uses up, and who has it.

        Raises UnauthorizedUserError for any text that is no ticket for this application (any more).
        """
        contents = self._issued.pop(ticket, None)
        if contents is None or contents.label != label or self._services.clock.now_ms() >= contents.until_ms:
            message = "this address was used already, or is older than a minute"
            raise Refused("UnauthorizedUserError", message, OPEN_AGAIN)
        visitor = await self._visitor(contents.login, label, is_fresh=True)
        sealed = self._services.sealer.seal({_SESSION: [label, contents.login]})
        return (sealed.data.decode() if sealed else ""), visitor

    async def visitor(self, session: str, label: str) -> Visitor | None:
        """Return who has a session of an application, None for text that is none.

        Raises Refused if the login has ended or lost the right.
        """
        found = self._opened(session)
        if not isinstance(found, list) or len(found) != 2 or found[0] != label:
            return None
        return await self._visitor(str(found[1]), label, is_fresh=False)

    async def may_go_on(self, session: str, label: str) -> bool:
        """Return whether an open connection may stay."""
        try:
            return await self.visitor(session, label) is not None
        except Refused:
            return False

    async def _visitor(self, login: str, label: str, *, is_fresh: bool) -> Visitor:
        now_ms = self._services.clock.now_ms()
        known = self._known.get((login, label))
        left_ms = known.until_ms - now_ms if known is not None else 0
        # Also after the clock was set back.
        if known is not None and not is_fresh and 0 < left_ms <= self._services.limits.known_s * 1000:
            return known.visitor
        self._known.pop((login, label), None)
        place = named(label)
        if place is None:
            raise Refused("NoJobError", "there is no such application")
        try:
            found = await self._services.visitor(login, place.job)
        except Refused as error:
            if error.status != 401:
                raise
            message = "the login with which this application was opened has ended"
            raise Refused("UnauthorizedUserError", message, OPEN_AGAIN) from error
        if len(self._known) >= _KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[login, label] = _Known(found, now_ms + int(self._services.limits.known_s * 1000))
        return found

    def _opened(self, session: str) -> Any:
        if not session:
            return None
        try:
            return self._services.sealer.open(Sealed(session.encode("latin-1", "replace"))).get(_SESSION)
        except Refused:
            return None

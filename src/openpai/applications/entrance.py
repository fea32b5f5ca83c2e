"""`ports.applications.Applications`: the entrance of one server, with its proxy, its tickets and its watch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from openpai.applications.connections import Upstreams
from openpai.applications.labels import label_of
from openpai.applications.model import Services
from openpai.applications.proxy import ENTER, ApplicationProxy
from openpai.applications.sessions import ApplicationSessions
from openpai.applications.watching import Watch
from openpai.ports.applications import ApplicationView, Entry, PlacedApplication
from openpai.system.supervision import supervise


class Entrance:
    """Lets browsers into applications."""

    def __init__(self, services: Services) -> None:
        self._origins = services.origins
        self._sessions = ApplicationSessions(services)
        self._upstreams = Upstreams(services.platform.connect, services.limits.requests)
        self.watch = Watch(services, self._upstreams)
        self.proxy = ApplicationProxy(services, self._sessions, self._upstreams, self.watch)

    def views(self, job: str) -> Mapping[str, ApplicationView]:
        return self.watch.views(job)

    def enter(self, place: PlacedApplication, login: str, host: str) -> Entry:
        label = label_of(place)
        origin = self._origins.of(label, host, place.user)
        ticket = self._sessions.ticket(label, login)
        return Entry(f"{origin}{ENTER}?ticket={ticket.text}", ticket.until_ms)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch the applications until the end of the context."""
        watching = supervise("watch applications", self.watch.run)
        try:
            yield
        finally:
            watching.cancel()
            await self._upstreams.close()

"""Applications of jobs: addresses that open them in a browser."""

from __future__ import annotations

from openpai.client import model
from openpai.client.calls.naming import Naming, segment
from openpai.client.calls_core import Call, asks, whole


class Applications(Naming):
    """Opens the applications of jobs."""

    @asks
    def open_application(self, job: str, application: str) -> Call[model.ApplicationTicket]:
        """Return an address that opens an application of a job in a browser; it works once, for a minute."""
        name = segment(application, "an application")
        return Call("POST", f"{self.path(job)}/applications/{name}/ticket", whole(model.ApplicationTicket.read))

"""Events of jobs, why they wait, and how to reach their tasks."""

from __future__ import annotations

from openpai.client import model
from openpai.client.calls.naming import Naming
from openpai.client.calls_core import (
    Call,
    asks,
    listed,
    said,
    whole,
)


class JobEvents(Naming):
    """What happens to a job."""

    @asks
    def events(self, name: str, kind: str | None = None) -> Call[tuple[model.Event, ...]]:
        """Return the job's history, newest first; `kind` keeps only Normal or only Warning events."""
        return Call("GET", f"{self.path(name)}/events", listed(model.Event.read, "data"), said(type=kind))

    @asks
    def why(self, name: str) -> Call[tuple[model.Wait, ...]]:
        """Return why the job waits; empty when nothing of it waits."""
        return Call("GET", f"{self.path(name)}/why", listed(model.Wait.read, "waits"))

    @asks
    def in_the_way(self, name: str) -> Call[model.Held]:
        """Return what jobs hold the room that a waiting job wants, the largest first."""
        return Call(
            "GET", f"{self.path(name)}/why", whole(lambda document: model.Held.read(document.get("held") or {}))
        )

    @asks
    def ssh(self, name: str) -> Call[tuple[model.SshTask, ...]]:
        """Return how to reach each running task by SSH; raise NoJobSshInfoError when none can be."""
        return Call("GET", f"{self.path(name)}/ssh", listed(model.SshTask.read, "containers"))

"""Events of jobs, why they wait, and how to reach their tasks."""

from __future__ import annotations

import httpx

from openpai.client import model
from openpai.client.calls.naming import Naming
from openpai.client.calls_core import Call, asks, listed, query_of, whole


def _gateway(response: httpx.Response) -> tuple[model.SshGatewayTask, ...]:
    found = response.json().get("gateway") or ()
    return tuple(model.SshGatewayTask.read(each) for each in found)


class JobEvents(Naming):
    """Events of jobs, reasons for waiting, and SSH addresses."""

    @asks
    def events(self, name: str, kind: str | None = None) -> Call[tuple[model.Event, ...]]:
        """Return the job's events, newest first; `kind` selects only Normal or only Warning events."""
        return Call("GET", f"{self.path(name)}/events", listed(model.Event.read, "data"), query_of(type=kind))

    @asks
    def changes(self, after: int | None = None) -> Call[model.JobChanges]:
        """Return which jobs have had events after a number; without one, only the number to begin with."""
        return Call("GET", "/api/v2/changes", whole(model.JobChanges.read), query_of(after=after))

    @asks
    def why(self, name: str) -> Call[tuple[model.Wait, ...]]:
        """Return why the job waits; empty if no task of it waits."""
        return Call("GET", f"{self.path(name)}/why", listed(model.Wait.read, "waits"))

    @asks
    def in_the_way(self, name: str) -> Call[model.Held]:
        """Return the jobs that hold the resources that a waiting job needs, largest first."""
        return Call(
            "GET", f"{self.path(name)}/why", whole(lambda document: model.Held.read(document.get("held") or {}))
        )

    @asks
    def borrowed(self, name: str) -> Call[model.Resources]:
        """Return what the job uses now without a guarantee, until others need that back."""
        return Call(
            "GET", f"{self.path(name)}/why", whole(lambda found: model.Resources.read(found.get("borrowed") or {}))
        )

    @asks
    def ssh(self, name: str) -> Call[tuple[model.SshTask, ...]]:
        """Return the SSH address of each running task; raise NoJobSshInfoError if there is none."""
        return Call("GET", f"{self.path(name)}/ssh", listed(model.SshTask.read, "containers"))

    @asks
    def ssh_gateway(self, name: str) -> Call[tuple[model.SshGatewayTask, ...]]:
        """Return how SSH clients reach each running task; raise NoJobSshInfoError without a gateway or such a task."""
        return Call("GET", f"{self.path(name)}/ssh", _gateway)

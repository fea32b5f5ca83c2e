"""The applications of jobs, as the server that leads sees them: where they are, whether they answer, and their use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from openpai.lifecycle.model import AttemptKey
from openpai.protocol.applications import Application


class ApplicationState(StrEnum):
    """How far an application is."""

    WAITING = "waiting"
    """Its task does not run yet, or not at the moment."""
    STARTING = "starting"
    """Its task runs, and it does not answer yet."""
    READY = "ready"
    GONE = "gone"
    """Its job, or its task, has ended."""


@dataclass(frozen=True, slots=True)
class PlacedApplication:
    """An application of a job that is not over, and where it is."""

    job: str
    """The id of its job."""
    user: str
    job_name: str
    application: Application
    key: AttemptKey | None
    """The task attempt in which it runs; None while that does not run."""
    port: int | None
    token: str = field(repr=False)
    """What the platform sends to it with every request, and what its task finds in its environment."""
    is_over: bool = False
    """Whether its task has ended for good."""

    @property
    def full_name(self) -> str:
        """Return `user~job`."""
        return f"{self.user}~{self.job_name}"


class ApplicationView(NamedTuple):
    """What is known of an application that is watched."""

    state: ApplicationState
    used_at_ms: int | None
    """When it was used last, as far as this server knows."""
    stops_at_ms: int | None
    """When its job will be stopped if it is not used; None if it will not."""


class Entry(NamedTuple):
    """The address of an application for one browser."""

    uri: str
    until_ms: int
    """When the ticket in it expires."""


class Applications(Protocol):
    """The entrance of browsers to applications."""

    def views(self, job: str) -> Mapping[str, ApplicationView]:
        """Return what is known of the applications of a job that runs, by their names."""

    def enter(self, place: PlacedApplication, login: str, host: str) -> Entry:
        """Return an address that lets one browser into an application, once and soon.

        `login` is the digest of the token on which the session depends, and `host` the host at which the user reaches
        the platform. Raise Unavailable if no address is free.
        """

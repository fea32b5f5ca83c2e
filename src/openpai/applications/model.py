"""What the parts of the entrance share: its limits, and what it needs from the server around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from starlette.types import Scope

from openpai.applications.cookies import Cookies
from openpai.ports.clock import Clock
from openpai.ports.identity import Sealer
from openpai.ports.platform import Platform
from openpai.ports.queries import JobQueries
from openpai.ports.usage import UsageStore


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the entrance."""

    requests: int = 128
    """Requests that one application answers at the same time."""
    sockets: int = 64
    """WebSockets that are open to one application."""
    answer_s: float = 300.0
    """How long an application may take to begin an answer."""
    stalled_s: float = 300.0
    """How long a browser may take none of an answer."""
    look_every_s: float = 15.0
    """How often the right to an open WebSocket or download is checked again."""
    known_s: float = 5.0
    """How long a right is remembered."""
    idle_s: float = 0.0
    """After how long without use a job that exists for an application is stopped; 0 for never."""


class Visitor(NamedTuple):
    """A user who may enter an application."""

    user: str
    via: str
    """How they are logged in, for the audit log."""


class Origins(Protocol):
    """Where the applications are, each on an origin of its own."""

    @property
    def scheme(self) -> str:
        """Return http or https, as browsers see it."""

    @property
    def is_shared_host(self) -> bool:
        """Return whether applications differ in their ports only."""

    def of(self, label: str, host: str, owner: str = "") -> str:
        """Return the origin of an application of a job of `owner`, for a user who reaches the platform at `host`.

        Raise Unavailable if there is no free one, or that owner has too many.
        """

    def label(self, scope: Scope) -> str:
        """Return the label of the application that a request is for; empty if it is for none."""

    def own(self, scope: Scope) -> str:
        """Return the origin to which a request was sent, as its browser names it."""

    def cookies(self, label: str) -> Cookies:
        """Return how the cookies of an application are called."""


@dataclass(frozen=True, slots=True)
class Services:
    """What the entrance uses."""

    platform: Platform
    jobs: JobQueries
    usage: UsageStore
    clock: Clock
    sealer: Sealer
    origins: Origins
    visitor: Callable[[str, str], Awaitable[Visitor]]
    """Returns who holds a login, by its digest; raises Refused if they may not enter the applications of a job."""
    limits: Limits = Limits()

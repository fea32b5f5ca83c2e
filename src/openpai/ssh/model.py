"""What the parts of the gateway share: its limits, and what it needs from the server around it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from openpai.ports.clock import Clock
from openpai.ports.usage import UsageStore
from openpai.protocol.errors import Refused
from openpai.ssh.rights import Rights

REFUSED: Final = 255
"""The exit code of a session that the gateway refused or ended, as of ssh."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the gateway."""

    login_s: float = 30.0
    """How long a client may take to log in."""
    keys_per_login: int = 10
    """How many keys a client may offer."""
    idle_s: float = 4 * 3600.0
    """How long a session may be without a byte in either direction."""
    look_every_s: float = 15.0
    """How often the rights of a connection are checked again."""
    keepalive_s: float = 30.0
    """After how long a silent client is asked for a sign of life; three missing ones end its connection."""


class Logins(Protocol):
    """Limits failed logins."""

    def begin(self, user: str, address: str) -> None:
        """Count an attempt as failed until `succeeded` says otherwise; raise Refused after too many failures."""

    def succeeded(self, user: str, address: str) -> None:
        """Remove the latest attempt: it did not fail."""

    def undecided(self, user: str, address: str) -> None:
        """Remove the latest attempt: it is unknown whether it failed."""


class Callers(Protocol):
    """Counts connections that have not logged in yet."""

    def enter(self, address: str) -> Refused | None:
        """Count a connection; return why it is refused, None if it is not. In both cases it must `leave`."""

    def leave(self, address: str) -> None:
        """Stop counting a connection."""


@dataclass(frozen=True, slots=True)
class Services:
    """What the gateway uses."""

    rights: Rights
    usage: UsageStore
    clock: Clock
    logins: Logins
    callers: Callers
    one_session_of: Callable[[str], AbstractContextManager[None]]
    """Counts a session; raises Refused if its user, or this server, has too many."""
    rate: Callable[[str], object]
    """Counts a connection of an address; raises Refused if there are too many in a short time."""
    limits: Limits

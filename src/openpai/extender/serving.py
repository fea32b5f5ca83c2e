"""Whether this process answers questions: always, or while it holds the lease that it shares with others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from openpai.extender.service import Service
from openpai.protocol.errors import Unavailable


class Held(Protocol):
    """A lease of which one process at a time is the holder."""

    @property
    def holder(self) -> str:
        """Return the last known holder."""
        ...

    @property
    def is_held(self) -> bool:
        """Return whether this process may act."""
        ...


@dataclass(slots=True)
class Answering:
    """The extender of a cluster, while this process is the one that answers."""

    service: Service | None = None
    election: Held | None = None

    def now(self) -> Service:
        """Return what answers; raise Unavailable while another process does."""
        if self.service is None or (self.election is not None and not self.election.is_held):
            raise Unavailable(f"this process does not answer questions now, {self.others}", "ask again in a moment")
        return self.service

    @property
    def others(self) -> str:
        """Return who answers instead, in words."""
        holder = self.election.holder if self.election is not None else ""
        return f"the holder of the lease is {holder}" if holder else "no process holds the lease"

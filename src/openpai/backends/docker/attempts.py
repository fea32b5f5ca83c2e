"""One task attempt as this backend remembers it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from openpai.backends.docker.containers import name_of
from openpai.backends.host.directory import TaskDirectory
from openpai.lifecycle.model import AttemptKey, ExitReport
from openpai.ports.backend import TaskSeen


@dataclass(slots=True, eq=False)
class Attempt:
    """A task attempt: over when `exit` is set, begun when `started_at_ms` is, else on its way."""

    directory: TaskDirectory
    grant: int = 0
    devices: tuple[int, ...] = ()
    started_at_ms: int | None = None
    message: str = ""
    """How far it is on its way."""
    step: str = ""
    """What kind of step that is, for the events of its job."""
    exit: ExitReport | None = None
    told_to_end: asyncio.Event = field(default_factory=asyncio.Event)
    grace_s: float = 0.0
    """How long it has, once it is told to end."""
    is_to_be_forgotten: bool = False
    deadline: asyncio.TimerHandle | None = None
    cut_off: ExitReport | None = None
    """Why the platform itself ends it."""

    @property
    def key(self) -> AttemptKey:
        """Return which attempt this is."""
        return self.directory.key

    @property
    def container(self) -> str:
        """Return the name of its container, which may not be there yet."""
        return name_of(self.key)

    def seen(self) -> TaskSeen:
        """Return what the platform is told about the attempt."""
        is_on_its_way = self.started_at_ms is None and self.exit is None
        message, step = (self.message, self.step) if is_on_its_way else ("", "")
        return TaskSeen(self.key, self.grant, self.started_at_ms, self.exit, message, step)

    def end(self, report: ExitReport) -> None:
        """Settle how the attempt ended."""
        self.call_off()
        self.exit = replace(report, started_at_ms=self.started_at_ms)

    def call_off(self) -> None:
        """Forget that the attempt was to be killed."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

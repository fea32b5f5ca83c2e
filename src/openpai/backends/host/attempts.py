"""Task attempts with a directory on this host, shared by the process and the docker backend."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from openpai.backends.host.directory import TaskDirectory
from openpai.backends.host.register import Attempt, AttemptRegister
from openpai.lifecycle.model import ExitReport
from openpai.ports.backend import TaskSeen


@dataclass(slots=True, eq=False)
class HostAttempt(Attempt):
    """A task attempt whose files record how it ended for a later server."""

    directory: TaskDirectory = field(kw_only=True)


H = TypeVar("H", bound=HostAttempt)


class HostBackend(Generic[H]):
    """What every backend does in the same way whose attempts have directories on this host."""

    _register: AttemptRegister[H]

    async def observe(self) -> tuple[TaskSeen, ...]:
        """Return every attempt that starts, runs, or is not forgotten."""
        return self._register.observe()

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait for attempts that began or ended and return them as they are now."""
        return await self._register.news()

    def fence(self, attempt: H, report: ExitReport) -> None:
        """Prevent the attempt from beginning, and store the report for later servers as far as the disk allows."""
        with contextlib.suppress(OSError):
            attempt.directory.fence()
            attempt.directory.write_report(report)

"""Task attempts with a directory on this host, shared by the process and the docker backend."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from openpai.backends.host.checkpoints import CheckpointDirectories
from openpai.backends.host.directory import TaskDirectory
from openpai.backends.host.node_checks import NodeChecks
from openpai.backends.host.register import Attempt, AttemptRegister
from openpai.lifecycle.actions import EndNotice
from openpai.lifecycle.model import AttemptKey, ExitReport
from openpai.ports.backend import TaskSeen
from openpai.ports.clock import Clock
from openpai.runtime.notice import notice_text

_UNKNOWN: Final = EndNotice("terminated", "the platform ends the task")


@dataclass(slots=True, eq=False)
class HostAttempt(Attempt):
    """A task attempt whose files record how it ended for a later server."""

    directory: TaskDirectory = field(kw_only=True)


H = TypeVar("H", bound=HostAttempt)


class HostBackend(Generic[H]):
    """What every backend does in the same way whose attempts have directories on this host."""

    _register: AttemptRegister[H]
    _checkpoints: CheckpointDirectories
    _checks: NodeChecks
    _clock: Clock

    async def observe(self, among: Collection[AttemptKey] | None = None) -> tuple[TaskSeen, ...]:
        """Return every attempt that starts, runs, or is not forgotten."""
        return await self._register.observe(among)

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait for attempts that began or ended and return them as they are now."""
        return await self._register.news()

    def expect_storages(self, directories: Mapping[str, str]) -> None:
        """Check the directories of these storages."""
        self._checks.expect_storages(directories)

    async def checkpoints(self) -> Mapping[AttemptKey, int]:
        """Return when each running attempt wrote its newest checkpoint, in ms."""
        running = [attempt.key for attempt in self._register if attempt.is_running]
        return await asyncio.to_thread(self._newest_of, running, self._clock.now_ms())

    def fence(self, attempt: H, report: ExitReport) -> None:
        """Prevent the attempt from beginning, and store the report for later servers as far as the disk allows."""
        with contextlib.suppress(OSError):
            attempt.directory.fence()
            attempt.directory.write_report(report)

    def _warn(self, attempt: H) -> None:
        """Write for the wrapper and the task how long it may take to end, and why it has to, as the disk allows."""
        notice = attempt.notice or _UNKNOWN
        text = notice_text(notice.reason, notice.message, attempt.grace_s, self._clock.now_ms())
        with contextlib.suppress(OSError):
            attempt.directory.write_grace(attempt.grace_s)
        with contextlib.suppress(OSError):
            attempt.directory.write_notice(text)

    def _newest_of(self, keys: list[AttemptKey], now_ms: int) -> Mapping[AttemptKey, int]:
        found = ((key, self._checkpoints.newest_ms(key, now_ms)) for key in keys)
        return {key: at_ms for key, at_ms in found if at_ms is not None}

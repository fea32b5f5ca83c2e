"""One task attempt as this backend remembers it, and what its files say about how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import Final

from openpai.backends.host.directory import TaskDirectory
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import TaskSeen
from openpai.runtime.script import Ticket

KILLED: Final = ExitReport(137, ExitReason.EXITED, "killed: it had not ended within its grace period")
"""How an attempt ends that did not listen to SIGTERM."""
OUT_OF_MEMORY: Final = "it used more memory than it asked for and was killed"


@dataclass(slots=True)
class Attempt:
    """A task attempt: running while `exit` is None. Its wrapper is `pid`, held by the pidfd `held`."""

    directory: TaskDirectory
    grant: int = 0
    devices: tuple[int, ...] = ()
    cgroup: str = ""
    """Path of the cgroup that limits its memory, empty where there is none."""
    started_at_ms: int | None = None
    pid: int | None = None
    held: int | None = None
    exit: ExitReport | None = None
    cut_off: ExitReport | None = None
    """Why we ended it, when nobody had asked for that."""
    is_told_to_end: bool = False
    is_to_be_forgotten: bool = False
    deadline: asyncio.TimerHandle | None = field(default=None, repr=False)

    @property
    def key(self) -> AttemptKey:
        """Return which attempt this is."""
        return self.directory.key

    def seen(self) -> TaskSeen:
        """Return what the platform is told about the attempt."""
        return TaskSeen(self.key, self.grant, self.started_at_ms, self.exit)

    def end(self, report: ExitReport) -> None:
        """Settle how the attempt ended."""
        self.exit = replace(report, started_at_ms=self.started_at_ms)


def blamed(report: ExitReport, has_run_out: bool) -> ExitReport:
    """Return the report with memory as the reason, if the system killed something of the attempt and it then failed."""
    if not has_run_out or report.code == 0:
        return report
    return replace(report, reason=ExitReason.OOM_KILLED, message=OUT_OF_MEMORY)


def reap(pid: int) -> int | None:
    """Return the exit code of a process that has ended, 128+n when signal n ended it; None if it is not our child."""
    with contextlib.suppress(ChildProcessError):
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code
    return None


def verdict(attempt: Attempt, ticket: Ticket | None, status: int | None, now_ms: int) -> ExitReport:
    """Return how an attempt ended whose wrapper is no more and left no report.

    `status` is the wrapper's exit code when it was our child; nobody else can ask for it.
    """
    has_begun = ticket is not None and ticket.pid is not None
    # No wrapper starts before there is a record, and nobody but a task removes one before it ended.
    if ticket is None and status is not None and attempt.directory.record() is None:
        message = "its task directory was removed while it ran, and its exit report with it"
        return ExitReport(status, ExitReason.EXITED, message, ended_at_ms=now_ms)
    code, reason, message = _verdict(attempt.is_told_to_end, has_begun, status)
    return ExitReport(code, reason, message, ended_at_ms=now_ms)


def _verdict(is_told_to_end: bool, has_begun: bool, status: int | None) -> tuple[int, ExitReason, str]:
    if not has_begun and is_told_to_end:
        return 143, ExitReason.EXITED, "told to end before it began"
    if not has_begun:
        why = "the server died before it began" if status is None else "its files cannot be written; is the disk full?"
        return 1, ExitReason.LAUNCH_FAILED, f"the task never began: {why}"
    if status is None:
        message = "its processes vanished without a report: killed from outside, or the machine was restarted"
        return 137, ExitReason.LOST, message
    if status > 128:
        return status, ExitReason.EXITED, f"ended together with its wrapper by signal {status - 128}"
    return status, ExitReason.EXITED, "its exit report could not be written; is the disk full?"

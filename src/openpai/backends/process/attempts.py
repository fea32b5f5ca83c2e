"""The record of a task attempt of this backend, and how it ended according to its files."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from typing import Final

from openpai.backends.host.attempts import HostAttempt
from openpai.backends.host.directory import TaskDirectory
from openpai.backends.host.register import KILLED_BEFORE_START
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.runtime.script import Ticket

OUT_OF_MEMORY: Final = "it used more memory than it asked for and was killed"


@dataclass(slots=True, eq=False)
class ProcessAttempt(HostAttempt):
    """A task attempt whose wrapper is the process `pid`; while that lives, the pidfd `held` refers to it."""

    cgroup: str = ""
    """Path of the cgroup that limits its memory, empty if there is none."""
    pid: int | None = None
    held: int | None = None


def blamed(report: ExitReport, has_run_out: bool) -> ExitReport:
    """Return the report, with memory as the reason if the system killed a process of an attempt that failed."""
    if not has_run_out or report.code == 0:
        return report
    return replace(report, reason=ExitReason.OOM_KILLED, message=OUT_OF_MEMORY)


def reap(pid: int) -> int | None:
    """Return the exit code of an ended process, 128+n if signal n ended it; None if it is no child of this server."""
    with contextlib.suppress(ChildProcessError):
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code
    return None


def verdict(attempt: ProcessAttempt, ticket: Ticket | None, status: int | None, now_ms: int) -> ExitReport:
    """Return the report of an attempt whose wrapper is gone and left none.

    `status` is the wrapper's exit code if it was a child of this server; the system reports it only to the parent.
    """
    has_begun = ticket is not None and ticket.pid is not None
    # The record is written before the wrapper starts, and only a task can remove it before the end.
    if ticket is None and status is not None and attempt.directory.record() is None:
        message = "its task directory was removed while it ran, and its exit report with it"
        report = ExitReport(status, ExitReason.EXITED, message)
    elif not has_begun and attempt.kill_requested.is_set():
        report = KILLED_BEFORE_START
    else:
        report = ExitReport(*_verdict(has_begun, status))
    return replace(report, ended_at_ms=now_ms)


def _verdict(has_begun: bool, status: int | None) -> tuple[int, ExitReason, str]:
    if not has_begun:
        why = "the server died before it began" if status is None else "its files cannot be written; is the disk full?"
        return 1, ExitReason.LAUNCH_FAILED, f"the task never began: {why}"
    if status is None:
        message = "its processes vanished without a report: killed from outside, or the machine was restarted"
        return 137, ExitReason.LOST, message
    if status > 128:
        return status, ExitReason.EXITED, f"ended together with its wrapper by signal {status - 128}"
    return status, ExitReason.EXITED, "its exit report could not be written; is the disk full?"


def attempt_in(directory: TaskDirectory, grant: int = 0, devices: tuple[int, ...] = ()) -> ProcessAttempt:
    """Return the record of an attempt with this directory."""
    return ProcessAttempt(directory.key, directory.path, grant, devices, directory=directory)

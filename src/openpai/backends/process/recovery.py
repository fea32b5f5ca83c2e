"""Adopts the task attempts that an earlier server left: running, over, or never begun.

An attempt runs while the process that its ticket names is alive, which is recognised by its start time within the same
system start. An attempt without a ticket is fenced, so that a wrapper that starts late ends at once.
"""

from __future__ import annotations

import contextlib
from typing import Final

from openpai.backends.host.directory import LaunchRecord, TaskDirectory, task_directories
from openpai.backends.process.attempts import ProcessAttempt, attempt_in, blamed, verdict
from openpai.backends.process.memory import has_run_out
from openpai.backends.process.processes import hold, kill_group
from openpai.lifecycle.model import ExitReport
from openpai.runtime.script import Ticket

_UNKNOWN: Final = LaunchRecord(0, "", (), 0, "")
Left = tuple[ProcessAttempt, ExitReport | None]


def take_up(root: str, boot: str, now_ms: int) -> list[Left]:
    """Return every attempt below `root`: those that run have a pidfd, the others an exit report."""
    return [_take_up(directory, boot, now_ms) for directory in task_directories(root)]


def _take_up(directory: TaskDirectory, boot: str, now_ms: int) -> Left:
    record = directory.record() or _UNKNOWN
    attempt = attempt_in(directory, record.grant, record.devices)
    attempt.cgroup, attempt.started_at_ms = record.cgroup, record.started_at_ms or None
    ticket = directory.ticket()
    if ticket is None:
        with contextlib.suppress(OSError):
            directory.fence()
        # A wrapper may have claimed the ticket first; then this is its process.
        ticket = directory.ticket()
    if record.boot == boot and _is_taken_up(attempt, ticket):
        return attempt, None
    report = directory.report()
    if report is None:
        report = blamed(verdict(attempt, ticket, None, now_ms), has_run_out(attempt.cgroup))
        with contextlib.suppress(OSError):
            directory.write_report(report)
    return attempt, blamed(report, has_run_out(attempt.cgroup))


def _is_taken_up(attempt: ProcessAttempt, ticket: Ticket | None) -> bool:
    if ticket is None or ticket.pid is None:
        return False
    held = hold(ticket.pid, ticket.claimed)
    if held is None:
        return False
    attempt.held, attempt.pid = held, ticket.pid
    if attempt.directory.report() is not None:
        # The report is written just before the group is killed, and its writer may have died in between.
        kill_group(ticket.pid)
    return True

"""Takes up the task attempts that have a directory but no container: refused, never begun, or removed by a stranger."""

from __future__ import annotations

from openpai.backends.docker.attempts import Attempt
from openpai.backends.docker.books import Books
from openpai.backends.host.directory import task_directories
from openpai.lifecycle.model import ExitReason, ExitReport


def left_without_container(root: str, known: Books) -> list[Attempt]:
    """Return every attempt below `root` that is over, except those that are known.

    A directory whose attempt nobody claimed is no attempt yet: its launch will be told again.
    """
    return [
        attempt
        for directory in task_directories(root)
        if directory.key not in known and (attempt := _over(Attempt(directory)))
    ]


def _over(attempt: Attempt) -> Attempt | None:
    record = attempt.directory.record()
    if record is not None:
        attempt.grant, attempt.devices = record.grant, record.devices
    ticket = attempt.directory.ticket()
    report = attempt.directory.report()
    if report is None and ticket is not None and ticket.pid is not None:
        report = ExitReport(137, ExitReason.LOST, "its container vanished while no server looked")
    if report is None:
        return None
    if ticket is not None and ticket.pid is not None and record is not None:
        attempt.started_at_ms = record.started_at_ms
    attempt.end(report)
    return attempt

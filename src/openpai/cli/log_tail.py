"""The log of one task, read in the background of the live view."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from openpai.protocol.errors import PaiError

if TYPE_CHECKING:
    from openpai.client import Client, JobDetail, TaskView


FINISH_S: Final = 5.0
T = TypeVar("T")


class Tail:
    """Follows the newest attempt of one task of a job and returns each whole line once."""

    def __init__(self, pai: Client, job: str) -> None:
        self._pai = pai
        self._job = job
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._at: tuple[int, int] | None = None
        self.task: str = ""
        self.unfinished = ""
        """What the last line shows so far, such as the newest state of a progress bar."""

    def look_at(self, job: JobDetail) -> None:
        """Follow the job's first started task, unless it is followed already."""
        if self._thread is not None and self._thread.is_alive():
            return
        task = next((task for task in job.tasks if task.attempt is not None and task.started_at_ms is not None), None)
        if task is None or job.attempt is None or task.attempt is None or (job.attempt, task.attempt) == self._at:
            return
        self._at = (job.attempt, task.attempt)
        self.task = task.name
        # A daemon thread, so that Ctrl-C does not wait for a task that may write for days.
        self._thread = threading.Thread(target=self._follow, args=(task, job.attempt, task.attempt), daemon=True)
        self._thread.start()

    def _follow(self, task: TaskView, job_attempt: int, attempt: int) -> None:
        unfinished: dict[str, str] = {}
        try:
            logs = self._pai.logs(self._job, task.role, task.index, attempt=attempt, job_attempt=job_attempt)
            for piece in logs.follow():
                *whole, rest = (unfinished.pop(piece.stream, "") + piece.text).split("\n")
                unfinished[piece.stream] = _newest(rest)
                self.unfinished = unfinished[piece.stream]
                for line in whole:
                    self._lines.put(line.rstrip("\r"))
        except (PaiError, RuntimeError):
            # The view continues without the log: the job's state shows what is wrong. The HTTP library raises
            # RuntimeError in a thread that still runs when its client is closed.
            return
        self.unfinished = ""
        for rest in filter(None, unfinished.values()):
            self._lines.put(rest)

    def lines(self) -> list[str]:
        """Return the lines that came since the last call."""
        return emptied(self._lines)

    def finish(self, job: JobDetail) -> list[str]:
        """Return the lines left when the job is over, those of an attempt not yet looked at included."""
        self._join()
        self.look_at(job)
        self._join()
        return self.lines()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join(FINISH_S)


def _newest(rest: str) -> str:
    """Return the part of an unfinished line that a terminal shows: a progress bar writes over itself for hours."""
    before, end, after = rest.rpartition("\r")
    # The bar stays until it is overwritten.
    return after or f"{before.rpartition(chr(13))[2]}{end}"


def emptied(lines: queue.SimpleQueue[T]) -> list[T]:
    """Return everything in a queue that has no other reader."""
    found = []
    while not lines.empty():
        found.append(lines.get())
    return found

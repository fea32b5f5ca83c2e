"""`pai job logs --all-tasks`: the logs of all tasks of a job, each line after the name of its task."""

from __future__ import annotations

import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from openpai.cli import formatting, output
from openpai.cli.plain_text import plain_line, plain_stamped
from openpai.protocol.errors import InvalidParameters, PaiError, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openpai.client import Client, JobDetail, TaskView

FOLLOWED_MAX: Final = 64
LOOK_AGAIN_S: Final = 0.4


def print_all(
    pai: Client,
    job: JobDetail,
    name: str,
    tasks: Iterable[TaskView],
    *,
    stream: str,
    tail: int | None,
    timestamps: bool,
    since_ms: int | None,
    raw: bool,
    json: bool,
) -> None:
    """Print the log of the newest attempt of each task, one task after the other."""
    begun = [task for task in tasks if task.attempt is not None and task.started_at_ms is not None]
    if not begun or job.attempt is None:
        raise Refused("NoTaskLogError", f"no task of {name} has started yet", f"see pai job why {name}")
    width = max(len(task.name) for task in begun)
    for task in begun:
        try:
            where = pai.logs(name, task.role, task.index, attempt=task.attempt, job_attempt=job.attempt)
            text = where.text(stream, lines=tail, timestamps=timestamps, since_ms=since_ms)
        except Refused as error:
            # The logs of a task that ended long ago may be deleted; print the others.
            output.warn(f"{task.name}: {error.message}")
            continue
        if json:
            output.json_line({"task": task.name, "stream": stream, "text": text})
        else:
            lines: Iterable[str] = text.removesuffix("\n").split("\n") if text else ()
            if not raw:
                # With a carriage return, a line could replace the task name before it with another.
                lines = map(plain_stamped if timestamps else plain_line, lines)
            sys.stdout.writelines(f"{task.name:{width}} | {line}\n" for line in lines)


class _Followed:
    """The tasks that are followed, each by its own thread, and their lines."""

    def __init__(self, pai: Client, name: str, stream: str) -> None:
        self._pai, self._name, self._stream = pai, name, stream
        self._lines: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._seen: set[tuple[str, int, int]] = set()
        self._threads: list[threading.Thread] = []

    def look_at(self, job: JobDetail, tasks: Iterable[TaskView]) -> None:
        """Follow the attempts that started since the last call."""
        for task in tasks:
            if job.attempt is None or task.attempt is None or task.started_at_ms is None:
                continue
            if (key := (task.name, job.attempt, task.attempt)) not in self._seen:
                self._seen.add(key)
                # Daemon threads, so that Ctrl-C does not wait for tasks that may write for days.
                thread = threading.Thread(target=self._follow, args=(task, job.attempt), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _follow(self, task: TaskView, job_attempt: int) -> None:
        unfinished: dict[str, str] = {}
        try:
            logs = self._pai.logs(self._name, task.role, task.index, attempt=task.attempt, job_attempt=job_attempt)
            for piece in logs.follow(self._stream):
                *whole, rest = (unfinished.pop(piece.stream, "") + piece.text).split("\n")
                unfinished[piece.stream] = rest
                for line in whole:
                    self._lines.put((task.name, line))
        except PaiError as error:
            self._lines.put((task.name, f"({error.message})"))
        for rest in filter(None, unfinished.values()):
            self._lines.put((task.name, rest))

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines that came since the last call, with the names of their tasks."""
        found = []
        while not self._lines.empty():
            found.append(self._lines.get())
        return found

    @property
    def is_over(self) -> bool:
        """Return whether all followed logs have ended."""
        return not any(thread.is_alive() for thread in self._threads) and self._lines.empty()


def follow_all(pai: Client, name: str, role: str | None, stream: str, *, raw: bool, json: bool) -> None:
    """Print what all tasks write, until the job ends."""
    followed = _Followed(pai, name, stream)
    width = 0
    while True:
        job = pai.job(name)
        tasks = [task for task in job.tasks if role in (None, task.role)]
        if len(tasks) > FOLLOWED_MAX:
            message = (
                f"{formatting.plural(len(tasks), 'task')} are too many to follow at once; the limit is {FOLLOWED_MAX}"
            )
            raise InvalidParameters(message, "name a role, or follow one task: --role ROLE --index I")
        width = max([width, *(len(task.name) for task in tasks)])
        followed.look_at(job, tasks)
        is_last = job.is_final and followed.is_over
        for task, line in followed.lines():
            if json:
                output.json_line({"task": task, "text": line})
            else:
                sys.stdout.write(f"{task:{width}} | {line if raw else plain_line(line)}\n")
        sys.stdout.flush()
        if is_last:
            return
        time.sleep(LOOK_AGAIN_S)

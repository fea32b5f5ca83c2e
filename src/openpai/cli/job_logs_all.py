"""`pai job logs --all-tasks`: the logs of all tasks of a job, each line after the name of its task."""

from __future__ import annotations

import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, TypeAlias

from openpai.cli import formatting, output
from openpai.cli.job_logs_text import save, saved
from openpai.cli.log_tail import emptied
from openpai.cli.plain_text import plain_line
from openpai.protocol.errors import InvalidParameters, PaiError, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from openpai.cli.job_logs_text import Part
    from openpai.client import Client, JobDetail, TaskView
    from openpai.client.logs import AttemptLogs

    Attempt: TypeAlias = tuple[TaskView, int, int]
    """A task, the number of its attempt, and of that of its job."""

FOLLOWED_MAX: Final = 64
LOOK_AGAIN_S: Final = 0.4


def begun(job: JobDetail, name: str, tasks: Iterable[TaskView]) -> list[Attempt]:
    """Return the newest attempts of the tasks that started; raise NoTaskLogError if there is none."""
    found = [
        (task, task.attempt, job.attempt)
        for task in tasks
        if job.attempt is not None and task.attempt is not None and task.started_at_ms is not None
    ]
    if not found:
        raise Refused("NoTaskLogError", f"no task of {name} has started yet", f"see pai job why {name}")
    return found


def print_all(pai: Client, name: str, tasks: Sequence[Attempt], part: Part) -> None:
    """Print the log of the newest attempt of each task, one task after the other."""
    width = max(len(task.name) for task, _, _ in tasks)
    for task, logs in _logs(pai, name, tasks):
        if part.json:
            output.json_line({"task": task.name, "stream": part.stream, "text": part.text(logs)})
            continue
        before = f"{task.name:{width}} | "
        is_begin = True
        for text in filter(None, part.shown(logs)):
            lines = text.removesuffix("\n").replace("\n", f"\n{before}")
            is_ended = text.endswith("\n")
            sys.stdout.write(f"{before if is_begin else ''}{lines}{chr(10) if is_ended else ''}")
            is_begin = is_ended


def save_all(pai: Client, name: str, tasks: Sequence[Attempt], goal: Path, part: Part) -> None:
    """Save the log of the newest attempt of each task in a file of a directory."""
    try:
        goal.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the directory {goal}: {error.strerror}"
        raise InvalidParameters(message, "name another with --output") from error
    sizes = [
        save(part.content(logs), goal / f"{task.name}.{part.stream}.log") for task, logs in _logs(pai, name, tasks)
    ]
    saved(part.json, goal, sum(sizes), len(sizes))


def _logs(pai: Client, name: str, tasks: Sequence[Attempt]) -> Iterator[tuple[TaskView, AttemptLogs]]:
    """Yield the logs of the attempts that still have some."""
    for task, attempt, job_attempt in tasks:
        try:
            yield task, pai.logs(name, task.role, task.index, attempt=attempt, job_attempt=job_attempt)
        except Refused as error:
            # The logs of a task that ended long ago may be deleted; the others may not.
            if error.code != "NoTaskLogError":
                raise
            output.warn(f"{task.name}: {error.message}")


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
        return emptied(self._lines)

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

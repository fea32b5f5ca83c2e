"""`pai job logs --search` and `--grep`: the lines of logs in which a text is found."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from openpai.cli import formatting, output
from openpai.cli.plain_text import plain_line
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openpai.cli.job_logs_text import Part
    from openpai.client import Client, TaskView


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to search for, and how to print it."""

    text: str
    regex: bool
    ignore_case: bool
    part: Part


def search(pai: Client, name: str, tasks: Sequence[tuple[TaskView, int, int]], wanted: Wanted) -> None:
    """Print the lines of the attempts of tasks in which a text is found, as they are found."""
    width = max(len(task.name) for task, _, _ in tasks)
    part, count = wanted.part, 0
    for task, attempt, job_attempt in tasks:
        try:
            where = pai.logs(name, task.role, task.index, attempt=attempt, job_attempt=job_attempt)
            for hit in where.search(
                wanted.text, part.stream, regex=wanted.regex, ignore_case=wanted.ignore_case, since_ms=part.since_ms
            ):
                count += 1
                if part.json:
                    document = {"task": task.name, "stream": hit.stream, "offset": hit.offset, "time": hit.at_ms}
                    output.json_line({**document, "text": hit.text})
                    continue
                before = f"{task.name:{width}} | " if len(tasks) > 1 else ""
                stamp = f"{_stamp(hit.at_ms)} " if part.timestamps else ""
                sys.stdout.write(f"{before}{stamp}{plain_line(hit.text)}\n")
        except Refused as error:
            if error.code != "NoTaskLogError" or len(tasks) == 1:
                raise
            # The logs of a task that ended long ago may be deleted; search the others.
            output.warn(f"{task.name}: {error.message}")
    if not count and not part.json:
        logs = f"the log of {tasks[0][0].name}" if len(tasks) == 1 else f"{formatting.plural(len(tasks), 'log')}"
        output.aside(f"no line of {logs} has {wanted.text!r}")


def _stamp(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""`pai job logs`: the log of a task, of any attempt, or followed while it is written."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import formatting, output, session
from openpai.cli.filters import moment_ms
from openpai.cli.job import Name, job_in, task_attempt
from openpai.cli.job_logs_search import Wanted
from openpai.cli.job_logs_search import search as print_found
from openpai.cli.job_logs_text import Part, Raw, save, saved
from openpai.cli.options import option
from openpai.cli.plain_text import Plain
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.protocol.shown_text import ShownText

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openpai.client import Client, JobDetail, TaskView
    from openpai.client.model import LogPiece

LOOK_AGAIN_S: Final = 0.4


def which_task(job: JobDetail, role: str | None, index: int | None) -> TaskView:
    """Return the named task, else the one that made the job fail, else the first."""
    tasks = [task for task in job.tasks if role in (None, task.role) and index in (None, task.index)]
    if not tasks:
        meant = " ".join(
            ([f"of role {role!r}"] if role is not None else []) + ([f"number {index}"] if index is not None else [])
        )
        roles = Counter(task.role for task in job.tasks)
        known = ", ".join(f"{name} ({formatting.plural(count, 'task')})" for name, count in roles.items())
        raise Refused(
            "NoTaskLogError",
            f"job {job.full_name} has no task {meant}".rstrip(),
            f"its roles: {known}" if known else f"no task has started yet; see pai job why {job.full_name}",
        )
    blamed = [task for task in tasks if (task.role, task.index) == (job.trigger_role, job.trigger_index)]
    return (blamed or tasks)[0] if job.state == "FAILED" else tasks[0]


def logs(
    name: Name,
    follow: Annotated[bool, option("--follow -f", "Follow the log until the job ends.")] = False,
    role: Annotated[str | None, option("--role -r ROLE", "Task role.")] = None,
    index: Annotated[int | None, option("--index -i I", "Task of the role.", min=0)] = None,
    attempt: Annotated[
        int | None, option("--attempt N", "Attempt of the task, from 1; the newest by default.", min=1)
    ] = None,
    job_attempt: Annotated[int | None, option("--job-attempt N", "Attempt of the job, from 1.", min=1)] = None,
    stream: Annotated[str, option("--stream -s S", "all, stdout, stderr or runtime.")] = "all",
    tail: Annotated[int | None, option("--tail N", "Only the last N lines.", min=0)] = None,
    all_tasks: Annotated[
        bool, option("--all-tasks -a", "Logs of all tasks, each line after the name of its task.")
    ] = False,
    since: Annotated[
        str | None, option("--since TIME", "Only lines written since 30s, 10m, 1d12h ago or 2026-01-31.")
    ] = None,
    timestamps: Annotated[
        bool, option("--timestamps -t", "Each line after the time at which the platform saw it.")
    ] = False,
    raw: Annotated[
        bool, option("--raw", "With colours and all other control sequences, as the task wrote them.")
    ] = False,
    search: Annotated[str | None, option("--search TEXT", "Only lines with this text.")] = None,
    grep: Annotated[str | None, option("--grep REGEX", "Only lines with this expression (RE2).")] = None,
    ignore_case: Annotated[bool, option("--ignore-case", "Search without regard to upper and lower case.")] = False,
    to: Annotated[
        Path | None, option("--output -o FILE", "Save the log in a new file; with --all-tasks, in a directory.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Print the log of a task, or follow it with -f; search it, or save it.

    Without --role and --index this is the task that made the job fail, or the first. Times are those at which the
    platform saw a line in the log; it looks about once a second. With --timestamps, stdout and stderr are merged by
    these times, otherwise stdout comes first. Control sequences could change your terminal: colours and moves of the
    cursor are left out, of a progress bar its last state is shown, and others are escaped, unless --raw is given. A
    saved log is as the task wrote it.
    """
    since_ms = None if since is None else moment_ms(since, time.time())
    if follow and (timestamps or since is not None):
        message = "--timestamps and --since cannot be used with --follow"
        raise InvalidParameters(message, "leave out --follow, or the others")
    if since is not None and tail is not None:
        raise InvalidParameters("--since cannot be used with --tail", "give one of the two")
    if all_tasks and (index is not None or attempt is not None):
        raise InvalidParameters("--all-tasks prints the newest attempts", "leave out --index and --attempt")
    searched = [text for text in (search, grep) if text is not None]
    _check_purpose(len(searched) + (to is not None), is_part=follow or tail is not None)
    part = Part(stream, tail, timestamps, since_ms, raw, json)
    wanted = Wanted(searched[0], grep is not None, ignore_case, part) if searched else None
    with session.connect() as pai:
        if all_tasks and follow:
            from openpai.cli.job_logs_all import follow_all

            follow_all(pai, name, role, stream, raw=raw, json=json)
        elif all_tasks:
            _of_all(pai, name, job_in(pai, name, job_attempt), role, part, wanted, to)
        elif follow:
            _follow(pai, name, role, index, stream, raw, json)
        else:
            job = job_in(pai, name, job_attempt)
            task = which_task(job, role, index)
            _name_other_tasks(job, task, role, json)
            number = task_attempt(task, attempt)
            if number is None or job.attempt is None:
                raise Refused("NoTaskLogError", f"task {task.name} has not started yet", f"see pai job why {name}")
            _of_one(pai, name, (task, number, job.attempt), part, wanted, to)


def _check_purpose(purposes: int, *, is_part: bool) -> None:
    if purposes > 1:
        raise InvalidParameters("--search, --grep and --output cannot be used together", "give one of them")
    if purposes and is_part:
        message = "--search, --grep and --output cannot be used with --follow or --tail"
        raise InvalidParameters(message, "leave out --follow and --tail")


def _of_all(
    pai: Client, name: str, job: JobDetail, role: str | None, part: Part, wanted: Wanted | None, to: Path | None
) -> None:  # fmt: skip
    from openpai.cli.job_logs_all import begun, print_all, save_all

    tasks = begun(job, name, [task for task in job.tasks if role in (None, task.role)])
    if wanted is not None:
        print_found(pai, name, tasks, wanted)
    elif to is not None:
        save_all(pai, name, tasks, to, part)
    else:
        print_all(pai, name, tasks, part)


def _of_one(
    pai: Client, name: str, attempt: tuple[TaskView, int, int], part: Part, wanted: Wanted | None, to: Path | None
) -> None:  # fmt: skip
    if wanted is not None:
        print_found(pai, name, [attempt], wanted)
        return
    task, number, job_attempt = attempt
    logs = pai.logs(name, task.role, task.index, attempt=number, job_attempt=job_attempt)
    if to is not None:
        saved(part.json, to, save(part.content(logs), to))
    elif part.json:
        output.json_line({"stream": part.stream, "offset": 0, "text": part.text(logs)})
    else:
        sys.stdout.writelines(part.shown(logs))


def _name_other_tasks(job: JobDetail, task: TaskView, role: str | None, json: bool) -> None:
    if role is None and len(job.tasks) > 1 and not json and sys.stdout.isatty():
        output.aside(
            f"log of {task.name}, 1 of {len(job.tasks)} tasks; others with --role and --index, all with --all-tasks"
        )


def _print(pieces: Iterable[LogPiece], raw: bool, json: bool) -> None:
    # A terminal draws progress bars itself; a file gets whole lines.
    kind = Raw if raw else Plain if sys.stdout.isatty() else ShownText
    streams: dict[str, Raw | Plain | ShownText] = {}
    for piece in pieces:
        if json:
            output.json_line({"stream": piece.stream, "offset": piece.offset, "text": piece.text})
            continue
        if piece.stream not in streams:
            streams[piece.stream] = kind()
        sys.stdout.write(streams[piece.stream].take(piece.text))
        sys.stdout.flush()
    sys.stdout.writelines(stream.finish() for stream in streams.values())


def _follow(pai: Client, name: str, role: str | None, index: int | None, stream: str, raw: bool, json: bool) -> None:
    shown: tuple[int, int] | None = None
    is_reason_printed = False
    while True:
        job = pai.job(name)
        task = which_task(job, role, index) if job.tasks else None
        at = None
        if task is not None and task.attempt is not None and job.attempt is not None:
            at = (job.attempt, task.attempt)
        if task is not None and at is not None and at != shown and task.started_at_ms is not None:
            if shown is not None and not json:
                output.aside(f"-- attempt {at[1] + 1} of {task.name}, attempt {at[0] + 1} of the job --")
            shown = at
            where = pai.logs(name, task.role, task.index, attempt=at[1], job_attempt=at[0])
            _print(where.follow(stream), raw, json)
            continue
        if job.is_final or (task is not None and task.is_final and at == shown and role is not None):
            return
        if shown is None and not is_reason_printed and job.state == "WAITING" and not json:
            is_reason_printed = True
            waits = pai.why(name)
            output.aside(f"{name} waits: {waits[0].message}" if waits else f"{name} is about to start")
        time.sleep(LOOK_AGAIN_S)

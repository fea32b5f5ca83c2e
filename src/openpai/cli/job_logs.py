"""`pai job logs`: the log of a task, of any attempt, or followed while it is written."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import formatting, output, session
from openpai.cli.filters import moment_ms
from openpai.cli.job import Name, job_in, task_attempt
from openpai.cli.options import option
from openpai.cli.plain_text import Plain, plain, plain_stamped
from openpai.protocol.errors import InvalidParameters, Refused

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
    json: output.Json = False,
) -> None:
    """Print the log of a task, or follow it with -f.

    Without --role and --index this is the task that made the job fail, or the first. Times are those at which the
    platform saw a line in the log; it looks about once a second. Control sequences could change your terminal: colours
    and moves of the cursor are left out, and others are escaped, unless --raw is given.
    """
    since_ms = None if since is None else moment_ms(since, time.time())
    if follow and (timestamps or since is not None):
        message = "--timestamps and --since cannot be used with --follow"
        raise InvalidParameters(message, "leave out --follow, or the others")
    if since is not None and tail is not None:
        raise InvalidParameters("--since cannot be used with --tail", "give one of the two")
    if all_tasks and (index is not None or attempt is not None):
        raise InvalidParameters("--all-tasks prints the newest attempts", "leave out --index and --attempt")
    with session.connect() as pai:
        if all_tasks and follow:
            from openpai.cli.job_logs_all import follow_all

            follow_all(pai, name, role, stream, raw=raw, json=json)
            return
        if all_tasks:
            from openpai.cli.job_logs_all import print_all

            job = job_in(pai, name, job_attempt)
            meant = [task for task in job.tasks if role in (None, task.role)]
            print_all(
                pai, job, name, meant,
                stream=stream, tail=tail, timestamps=timestamps, since_ms=since_ms, raw=raw, json=json,
            )  # fmt: skip
            return
        if follow:
            _follow(pai, name, role, index, stream, raw, json)
            return
        job = job_in(pai, name, job_attempt)
        task = which_task(job, role, index)
        _name_other_tasks(job, task, role, json)
        number = task_attempt(task, attempt)
        if number is None or job.attempt is None:
            raise Refused("NoTaskLogError", f"task {task.name} has not started yet", f"see pai job why {name}")
        where = pai.logs(name, task.role, task.index, attempt=number, job_attempt=job.attempt)
        text = where.text(stream, lines=tail, timestamps=timestamps, since_ms=since_ms)
    if json:
        output.json_line({"stream": stream, "offset": 0, "text": text})
        return
    if not raw:
        text = "\n".join(map(plain_stamped, text.split("\n"))) if timestamps else plain(text)
    sys.stdout.write(text if not text or text.endswith("\n") else text + "\n")


def _name_other_tasks(job: JobDetail, task: TaskView, role: str | None, json: bool) -> None:
    if role is None and len(job.tasks) > 1 and not json and sys.stdout.isatty():
        output.aside(
            f"log of {task.name}, 1 of {len(job.tasks)} tasks; others with --role and --index, all with --all-tasks"
        )


def _print(pieces: Iterable[LogPiece], raw: bool, json: bool) -> None:
    streams: defaultdict[str, Plain] = defaultdict(Plain)
    for piece in pieces:
        if json:
            output.json_line({"stream": piece.stream, "offset": piece.offset, "text": piece.text})
            continue
        sys.stdout.write(piece.text if raw else streams[piece.stream].take(piece.text))
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

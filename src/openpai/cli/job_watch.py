"""A job watched while it runs: a live view on a terminal, plain lines anywhere else.

Both show the state of the job about twice a second: why it waits, its tasks, and the log of its first task.
Watching changes nothing: when it ends, the job keeps running.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from openpai.cli import formatting, job_tables
from openpai.cli.listing import shown
from openpai.cli.log_tail import Tail
from openpai.cli.plain_text import coloured_line, plain, plain_line
from openpai.protocol.errors import Unavailable

if TYPE_CHECKING:
    from openpai.client import Client, JobDetail
    from openpai.client.model import Wait

LOOK_EVERY_S: Final = 0.4
LINES_SHOWN: Final = 8
BAR_EVERY_S: Final = 5.0
TASKS_LIVE: Final = 12
# Long enough for a restart of the server, short enough that a user notices an outage.
AWAY_MAX_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class WatchState:
    """The state of a job at one moment."""

    job: JobDetail
    waits: tuple[Wait, ...]
    lines: list[str]
    log_of: str
    is_away: bool = False
    has_waited: bool = False
    """Whether the job waited at the previous look as well."""
    unfinished: str = ""
    """What the last line of the log shows so far."""


def _states(pai: Client, name: str) -> Iterator[WatchState]:
    tail = Tail(pai, name)
    last: WatchState | None = None
    seen_at = time.monotonic()
    while True:
        try:
            job = pai.job(name)
            waits = pai.why(name) if job.state == "WAITING" else ()
        except Unavailable:
            if last is None or time.monotonic() - seen_at > AWAY_MAX_S:
                raise
            yield replace(last, lines=[], is_away=True)
            continue
        seen_at = time.monotonic()
        tail.look_at(job)
        has_waited = last is not None and last.job.state == job.state
        lines = tail.finish(job) if job.is_final else tail.lines()
        last = WatchState(job, waits, lines, tail.task, has_waited=has_waited, unfinished=tail.unfinished)
        yield last
        if job.is_final:
            return
        # Thousands of tasks make a large answer, so look less often.
        time.sleep(LOOK_EVERY_S * (1 + len(job.tasks) // 500))


def _done(job: JobDetail) -> tuple[int, int]:
    return sum(task.is_final for task in job.tasks), len(job.tasks)


def _view(state: WatchState, log: deque[str], now_ms: int) -> RenderableType:
    job = state.job
    done, total = _done(job)
    head = Table.grid(padding=(0, 2))
    head.add_row(
        f"[bold]{shown(job.full_name)}[/]",
        formatting.styled(job.state),
        formatting.ran_for(job.attempt_started_at_ms or job.submitted_at_ms, job.attempt_ended_at_ms, now_ms),
        ProgressBar(total=max(1, total), completed=done, width=20),
        f"{done}/{total} tasks done",
    )
    parts: list[RenderableType] = [head]
    if job.attempt:
        parts.append(f"[yellow]attempt {job.attempt + 1}{job_tables.attempt_cause(job, now_ms)}[/]")
    if state.is_away:
        parts.append(Text("the platform does not answer; trying again ...", style="red"))
    parts.extend(job_tables.wait_text(wait, now_ms) for wait in state.waits[:3])
    if 0 < total <= TASKS_LIVE:
        parts.append(job_tables.task_list(job.tasks, now_ms))
    elif total:
        parts.append(job_tables.role_list(job))
    if log or state.unfinished:
        parts.append(Text(f"log of {state.log_of}:", style="dim"))
        parts.extend(map(_log_line, [*log, *filter(None, [state.unfinished])]))
    return Group(*parts)


def _log_line(line: str) -> Text:
    # Show a line as a terminal would, with its colours and after progress bars have rewritten it.
    # A colour that Rich has read ends with its line.
    text = Text.from_ansi(coloured_line(line))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _watch_live(pai: Client, name: str, console: Console) -> JobDetail:
    log: deque[str] = deque(maxlen=LINES_SHOWN)
    with Live(console=console, auto_refresh=False) as live:
        for state in _states(pai, name):
            log.extend(state.lines)
            live.update(_view(state, log, int(time.time() * 1000)), refresh=True)
    return state.job


def _changes(before: WatchState | None, state: WatchState) -> Iterator[str]:
    job = state.job
    of_job = f"[bold]{shown(job.name)}[/] {formatting.styled(job.state)}"
    has_moved = before is None or before.job.state != job.state
    if before is not None and (job.attempt or 0) > (before.job.attempt or 0):
        why = f"{shown(job.name)}[/] [yellow]is retried[/]"
        if job.restart:
            why = f"{shown(job.name)}[/]: [yellow]{shown(job.restart.message)}[/]"
        yield f"[bold]{why}: attempt {(job.attempt or 0) + 1} begins"
    if has_moved and not job.is_final:
        yield of_job
    if state.is_away and not (before and before.is_away):
        yield "[red]the platform does not answer; trying again ...[/]"
    # Nearly every job waits a moment; report only what still waits at the second look.
    if not has_moved and before is not None and state.waits and state.waits[0].message not in _reasons(before):
        yield f"waits: {shown(state.waits[0].message)}"
    yield from _task_changes(before, job)
    if has_moved and job.is_final:
        yield of_job


def _reasons(state: WatchState) -> set[str]:
    return {wait.message for wait in state.waits} if state.has_waited else set()


def _task_changes(before: WatchState | None, job: JobDetail) -> Iterator[str]:
    if len(job.tasks) > TASKS_LIVE:
        if before is None or _done(before.job) != _done(job):
            yield f"{_done(job)[0]}/{len(job.tasks)} tasks done: {formatting.counts(task.state for task in job.tasks)}"
        return
    for task in job.tasks:
        was = before.job.task(task.role, task.index) if before and before.job.attempt == job.attempt else None
        if was is not None and (task.attempt or 0) > (was.attempt or 0):
            yield f"{shown(task.name)} [yellow]is retried[/]: attempt {(task.attempt or 0) + 1} of the task"
        if (was.state if was else "WAITING") != task.state:
            where = f" on {shown(task.node)}" if task.state == "RUNNING" and task.node else ""
            code = f" (exit code {task.exit_code})" if task.exit_code else ""
            yield f"{shown(task.name)} {formatting.styled(task.state)}{where}{code}"


class _Bars:
    """Progress bars as plain lines: the newest state every few seconds."""

    def __init__(self) -> None:
        self._shown = ""
        self._next_at = 0.0

    def due(self, state: WatchState) -> list[str]:
        """Return the state of the bar that the last line of the log is, if it changed and some time has passed."""
        text = state.unfinished.rstrip("\r")
        if not text or text == self._shown or time.monotonic() < self._next_at:
            return []
        self._shown, self._next_at = text, time.monotonic() + BAR_EVERY_S
        return [text]


def _written(state: WatchState, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of a log after the task's name, which a carriage return in them must not overwrite."""
    return (f"{plain(state.log_of)} | {plain_line(line)}\n" for line in lines)


def _watch_plain(pai: Client, name: str, console: Console) -> JobDetail:
    before: WatchState | None = None
    bars = _Bars()
    for state in _states(pai, name):
        changes = list(_changes(before, state))
        now = formatting.clock_time(int(time.time() * 1000))
        # Print the end of a job after the last line of its log.
        for line in () if state.job.is_final else changes:
            console.print(f"{now} {line}", soft_wrap=True)
        # Without Rich, which takes a hundred times as long for a line without styles.
        console.file.writelines(_written(state, (*state.lines, *bars.due(state))))
        console.file.flush()
        for line in changes if state.job.is_final else ():
            console.print(f"{now} {line}", soft_wrap=True)
        before = state
    return state.job


def watch(pai: Client, name: str, console: Console) -> JobDetail:
    """Show a job until it is over and return how it ended; KeyboardInterrupt passes through."""
    if console.is_terminal:
        return _watch_live(pai, name, console)
    return _watch_plain(pai, name, console)

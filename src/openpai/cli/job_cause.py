"""The cause of a failed job as text: what happened, who is responsible, which task failed first, its log, advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from openpai.cli.formatting import clock_time
from openpai.cli.listing import shown

if TYPE_CHECKING:
    from openpai.client.model import Cause, JobDetail

_DOMAINS: Final = {
    "user": "caused by the program or the job file",
    "platform": "caused by the platform",
    "infrastructure": "caused by a node, a network or a storage",
}
_RETRIES: Final = {"no": "another attempt would fail again", "helps": "another attempt may succeed"}


def cause_text(job: JobDetail) -> str:
    """Return the cause of a job's failed attempt as Rich markup, a fact per line."""
    cause = job.cause
    lines = [f"[bold red]Why:[/] [bold]{shown(cause.summary or job.exit_phrase)}[/]{_judged(cause)}"]
    lines.append(f"  first: {_first(job)}")
    lines += log_lines(cause)
    lines += [f"  advice: {shown(text)}" for text in cause.advice]
    return "\n".join(lines)


def _judged(cause: Cause) -> str:
    known = [_DOMAINS.get(cause.domain, ""), _RETRIES.get(cause.retry, "")]
    judged = "; ".join(filter(None, known)) or "nothing says who is responsible"
    name = "" if cause.name == "unknown" else f"{shown(cause.name)}: "
    return f" [dim]({name}{judged})[/]"


def _first(job: JobDetail) -> str:
    """Return which task failed first, where and when, and what that did to the job."""
    cause = job.cause
    task = job.task(cause.role, cause.index) if cause.role and cause.index is not None else None
    name = f"task {cause.role}-{cause.index}" if cause.role else "the job"
    node = f" on {task.node}" if task and task.node else ""
    code = "" if job.exit_code is None else f", exit code {job.exit_code}"
    at = "" if cause.at_ms is None else f", at {clock_time(cause.at_ms)}"
    why = f"; {job.trigger_message}" if job.trigger_message else ""
    return shown(f"{name}{node}, attempt {(job.attempt or 0) + 1}{at}{code}{why}")


def log_lines(cause: Cause) -> list[str]:
    """Return the lines of the log as Rich markup, the one that shows the cause in bold."""
    # If an exception was raised from another one, its line in the log does not have the other one.
    own = [line for line in cause.lines if line and cause.line.startswith(line)]
    if not own:
        return [f"  log: [bold]{shown(cause.line)}[/]"] if cause.line else []
    marked = (f"[bold]{shown(cause.line)}[/]" if line == own[-1] else f"[dim]{shown(line)}[/]" for line in cause.lines)
    return ["  log:", *(f"    {line}" for line in marked)]

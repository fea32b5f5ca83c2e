"""Tables of jobs, tasks, events and reasons to wait. Every table fits a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table

from openpai.cli.formatting import ago, clock_time, counts, percent, plural, ran_for, size, span, styled
from openpai.cli.job_cause import cause_text
from openpai.cli.listing import listing, shown
from openpai.protocol.wording import exact

if TYPE_CHECKING:
    from openpai.client.model import (
        Application,
        Estimate,
        Event,
        JobDetail,
        JobSummary,
        Resources,
        Sweep,
        TaskProgress,
        TaskView,
        Wait,
        WorkKept,
    )

TASKS_SHOWN: Final = 30
CAUSES_SHOWN: Final = 10
NAMES_SHOWN: Final = 5


def job_list(
    jobs: Sequence[JobSummary], own: str | None, now_ms: int, sweeps: Mapping[str, Sweep] | None = None
) -> Table:
    """Return a table of jobs; those of `own` are shown without their user, and a sweep in place of its first job."""
    of = sweeps or {}
    rows = [
        (
            _name_text(job, own, of.get(job.full_name)),
            _state_text(job, of.get(job.full_name)),
            ago(job.submitted_at_ms, now_ms),
            _ran_for(job, now_ms),
            str(job.tasks),
            str(job.gpus),
            job.virtual_cluster,
        )
        for job in jobs
    ]
    numbers, whole = ("RAN", "TASKS", "GPUS"), ("STATE", "SUBMITTED")
    return listing(("JOB", *whole, *numbers, "VC"), rows, right=numbers, whole=whole, markup=("STATE",))


def _name_text(job: JobSummary, own: str | None, sweep: Sweep | None) -> str:
    if sweep is None:
        return job.name if job.user == own else job.full_name
    name = sweep.name if job.user == own else f"{job.user}~{sweep.name}"
    return f"{name} ({plural(len(sweep.jobs), 'job')})"


def _state_text(job: JobSummary, sweep: Sweep | None) -> str:
    if sweep is None:
        return styled(job.state) + _share_text(job)
    return counts(state for state, count in sweep.states.items() for _ in range(count))


def _share_text(job: JobSummary) -> str:
    progress = job.progress
    if progress is None or job.state != "RUNNING":
        return ""
    if progress.total is None:
        return f" step {exact(progress.step)}"
    return f" {min(100.0, 100 * progress.step / progress.total):.0f} %"


def progress_text(progress: TaskProgress, now_ms: int) -> str:
    """Return how far a task is, how fast, how long it will take, and its metrics."""
    parts = [progress.text()]
    if progress.steps_per_s:
        rate = progress.steps_per_s
        parts.append(f"{rate:.3g} steps/s" if rate >= 1 else f"{span(1 / rate)} each")
    if progress.left_s is not None:
        parts.append(f"about {span(progress.left_s)} left")
    parts += [f"{shown(name)} {value:g}" for name, value in progress.metrics.items()]
    return f"{', '.join(parts)}, reported {ago(progress.at_ms, now_ms)}"


def archived_list(jobs: Sequence[JobSummary], own: str | None, now_ms: int) -> Table:
    """Return a table of archived jobs with the ids that name them."""
    rows = [
        (job.id, job.name if job.user == own else job.full_name, styled(job.state), ago(job.submitted_at_ms, now_ms))
        for job in jobs
    ]
    whole = ("ID", "STATE", "SUBMITTED")
    return listing(("ID", "JOB", "STATE", "SUBMITTED"), rows, whole=whole, markup=("STATE",))


def borrowing(job: JobDetail, borrowed: Resources) -> str:
    """Return what a job uses without a guarantee and until when; empty if it borrows nothing."""
    if not borrowed.gpus and not borrowed.cpus:
        return ""
    count = borrowed.gpus or borrowed.cpus
    amount, them = plural(count, "GPU" if borrowed.gpus else "CPU"), "it" if count == 1 else "them"
    own = "" if job.priority == "oppo" else f", and gets a guarantee once {job.virtual_cluster} has room for it"
    return f"{amount}, until a job with a guarantee needs {them}{own}"


def _ran_for(job: JobSummary | JobDetail, now_ms: int) -> str:
    """Return how long a job's attempt has run; that of a job that waits again has not begun."""
    return "-" if job.state == "WAITING" else ran_for(job.attempt_started_at_ms, job.attempt_ended_at_ms, now_ms)


def job_facts(job: JobDetail, now_ms: int, borrowed: Resources | None = None) -> Table:
    """Return the facts about a job as a whole, one per line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("job", f"[bold]{shown(job.full_name)}[/]")
    table.add_row("state", styled(job.state) + _exit_text(job))
    table.add_row("submitted", f"{clock_time(job.submitted_at_ms)} ({ago(job.submitted_at_ms, now_ms)})")
    if job.started_at_ms is not None and job.submitted_at_ms is not None:
        table.add_row("waited", span((job.started_at_ms - job.submitted_at_ms) / 1000))
    ran = _ran_for(job, now_ms)
    table.add_row("ran", ran + (" in this attempt" if job.retries and ran != "-" else ""))
    if job.progress is not None and not job.is_final:
        table.add_row("progress", progress_text(job.progress, now_ms))
    if job.time_limit_s is not None:
        each = "each attempt" if job.retries else "it"
        table.add_row("time limit", f"{span(job.time_limit_s)}, then {each} is stopped")
    if job.retries:
        table.add_row("attempt", f"{(job.attempt or 0) + 1}{attempt_cause(job, now_ms)}")
    if job.checkpoint_at_ms is not None:
        table.add_row("checkpoint", f"written {ago(job.checkpoint_at_ms, now_ms)}")
    if job.after:
        table.add_row("after", ", ".join(f"{shown(one.job)} {one.until}" for one in job.after))
    for one in job.applications:
        table.add_row("application", _application(one, now_ms))
    table.add_row("virtual cluster", shown(job.virtual_cluster))
    if job.is_interruptible:
        table.add_row("interruptible", "it may borrow idle resources of others, and be preempted there")
    if borrowed is not None and (lent := borrowing(job, borrowed)):
        table.add_row("borrows", shown(lent))
    if job.tasks:
        table.add_row("tasks", counts(task.state for task in job.tasks))
    return table


def _application(one: Application, now_ms: int) -> str:
    title = f" ({shown(one.title)})" if one.title != one.name else ""
    text = f"{shown(one.name)}{title}, {shown(one.state)}"
    if one.used_at_ms is None or one.stops_at_ms is None:
        return text
    left_s = max(0.0, (one.stops_at_ms - now_ms) / 1000)
    text += f", used {ago(one.used_at_ms, now_ms)}"
    return f"{text}; the job is stopped in {span(left_s)} unless it is used"


def attempt_cause(job: JobDetail, now_ms: int) -> str:
    """Return the cause of this attempt of a job, in brackets, as Rich markup; empty for the first."""
    retried = f"{job.retried} retried" if job.retried else ""
    restart = job.restart
    restarted = f"{shown(restart.message)}, {ago(restart.at_ms, now_ms)}" if restart else ""
    causes = "; ".join(filter(None, [restarted, retried]))
    return f" ({causes})" if causes else ""


def _exit_text(job: JobDetail) -> str:
    if not job.is_final or job.exit_code is None:
        return ""
    phrase = f", {shown(job.exit_phrase)}" if job.exit_phrase and job.exit_code != 0 else ""
    return f" (exit code {job.exit_code}{phrase})"


def diagnosis(job: JobDetail) -> str:
    """Return why a job failed, was stopped, or had an attempt that is tried again, as Rich markup; else empty."""
    if job.state == "STOPPED" and job.trigger_message:
        return f"[bold]Why:[/] {shown(job.trigger_message)}"
    if job.state != "FAILED" and not (job.state == "WAITING" and job.exit_diagnostics):
        return ""
    if job.cause:
        return cause_text(job)
    which = f"task {job.trigger_role}-{job.trigger_index}" if job.trigger_role else "the job"
    text = job.exit_diagnostics.strip() or "\n".join(
        filter(None, [job.trigger_message, *(f"advice: {line}" for line in _advice(job))])
    )
    return f"[bold red]Why:[/] {shown(which)}: {shown(text or job.exit_phrase or 'no diagnosis')}"


def ended_early(job: JobDetail) -> str:
    """Return the tasks that ended because others decided the outcome of the job, as Rich markup; empty for none."""
    ended = [task.name for task in job.tasks if task.state in ("STOPPED", "STOPPING")]
    if not ended or not job.trigger_role or job.state not in ("SUCCEEDED", "FAILED", "STOPPING"):
        return ""
    more = f" and {len(ended) - NAMES_SHOWN} more" if len(ended) > NAMES_SHOWN else ""
    was = "was" if len(ended) == 1 else "were"
    message = f"{shown(', '.join(ended[:NAMES_SHOWN]))}{more} {was} ended early"
    why = f"{shown(job.trigger_message)}, which decides for the whole job"
    return f"[yellow]{message}[/]: {why} (`completion` in the job file changes that)"


def other_failures(job: JobDetail) -> str:
    """Return which task failed first and why each of the others did, as Rich markup; empty when at most one failed."""
    failed = sorted((task for task in job.tasks if task.state == "FAILED"), key=lambda task: task.ended_at_ms or 0)
    if len(failed) < 2:
        return ""
    first = failed[0]
    lines = [f"[bold]{len(failed)} tasks failed[/], {shown(first.name)} first, at {clock_time(first.ended_at_ms)}:"]
    causes: dict[str, list[TaskView]] = {}
    for task in failed:
        causes.setdefault(_failure(task), []).append(task)
    printed = set(_advice(job))
    for text, tasks in list(causes.items())[:CAUSES_SHOWN]:
        names = [task.name for task in tasks]
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        # Do not repeat advice that is above, or under another task.
        advice = [line for line in (tasks[0].cause.advice if tasks[0].cause else ()) if line not in printed]
        printed.update(advice)
        text = "\n".join([text, *(f"advice: {line}" for line in advice)])
        listed = shown(", ".join(names[:NAMES_SHOWN]))
        lines.append(f"  {listed}{more}: {shown(text)}".replace("\n", "\n    "))
    if len(causes) > CAUSES_SHOWN:
        lines.append(f"  {len(causes) - CAUSES_SHOWN} more causes; see them all with --json")
    return "\n".join(lines)


def _failure(task: TaskView) -> str:
    """Return why a task failed, without advice."""
    if not task.cause:
        return task.exit_diagnostics.strip() or "no diagnosis"
    summary = f"{task.exit_phrase}: {task.cause.summary}" if task.cause.summary else task.exit_phrase
    return f"{summary}\nlog: {task.cause.line}" if task.cause.line else summary


def _advice(job: JobDetail) -> tuple[str, ...]:
    if job.cause:
        return job.cause.advice
    return job.exit_spec.solution if job.exit_spec else ()


def task_list(tasks: Sequence[TaskView], now_ms: int) -> Table:
    """Return a table of tasks in their newest attempts."""
    rows = [
        (
            task.name,
            styled(task.state),
            task.node,
            ran_for(task.started_at_ms, task.ended_at_ms, now_ms),
            str(task.retries),
            ("" if task.exit_code is None else str(task.exit_code))
            + (f" {task.exit_phrase}" if task.exit_phrase and task.exit_code else ""),
        )
        for task in tasks
    ]
    numbers = ("RAN", "RETRIES")
    headings = ("TASK", "STATE", "NODE", *numbers, "EXIT")
    return listing(headings, rows, right=numbers, whole=("STATE",), markup=("STATE",))


def role_list(job: JobDetail) -> Table:
    """Return a table of task roles with the number of their tasks in each state."""
    states = {role: [task.state for task in job.tasks if task.role == role] for role in job.roles}
    rows = [(role, str(len(found)), counts(found)) for role, found in states.items()]
    return listing(("ROLE", "TASKS", "STATES"), rows, right=("TASKS",), markup=("STATES",))


def kept_work(kept: Sequence[WorkKept], now_ms: int) -> Table:
    """Return a table of what tasks left in their working directories."""
    rows = [
        (
            one.name,
            # The attempts of the job and of the task: a retried task has a line for each.
            f"{one.job_attempt + 1}/{one.attempt + 1}",
            f"{one.files}{'' if one.is_counted else '+'}",
            f"{size(one.bytes)}{'' if one.is_counted else '+'}",
            span(max(0, one.kept_until_ms - now_ms) / 1000),
        )
        for one in kept
    ]
    numbers = ("FILES", "SIZE", "KEPT FOR")
    return listing(("TASK", "ATTEMPT", *numbers), rows, right=numbers, whole=("ATTEMPT",))


def worth_showing(tasks: Sequence[TaskView]) -> Sequence[TaskView]:
    """Return all tasks if they are few, else the failed ones, as many as fit."""
    if len(tasks) <= TASKS_SHOWN:
        return tasks
    return [task for task in tasks if task.state == "FAILED"][:TASKS_SHOWN]


def event_list(events: Sequence[Event]) -> Table:
    """Return a table of events in the order given."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("TIME", no_wrap=True)
    table.add_column("TASK", overflow="fold")
    table.add_column("EVENT", overflow="fold", ratio=2)
    table.add_column("MESSAGE", overflow="fold", ratio=4)
    for event in events:
        reason = shown(event.reason)
        table.add_row(
            clock_time(event.at_ms),
            shown(event.task) or "-",
            f"[yellow]{reason}[/]" if event.type == "Warning" else reason,
            shown(event.message),
        )
    return table


def wait_text(wait: Wait, now_ms: int) -> str:
    """Return one reason to wait as Rich markup: what would change it, the jobs ahead, and when the job may start."""
    lines = [f"[yellow]{shown(wait.message)}[/] [dim]({shown(wait.code)})[/]"]
    if wait.unblock:
        lines.append(f"  what would change it: {shown(wait.unblock)}")
    if wait.position:
        ahead = f"; ahead of it: {shown(', '.join(wait.ahead[:5]))}" if wait.ahead else ""
        lines.append(f"  position in the queue: {wait.position}{ahead}")
    if lent := lent_text([(each.virtual_cluster, each.gpus, each.cpus) for each in wait.lent]):
        back = span(wait.lent_back_s)
        lines.append(f"  lent by its virtual cluster: {lent}; returned within {back} to a job that can run on it")
    if wait.is_interruptible:
        lines.append("  interruptible: it may also start on idle resources of other virtual clusters")
    if wait.estimate is not None:
        lines.append(f"  may start: {_expected(wait.estimate, now_ms)}")
    return "\n".join(lines)


def lent_text(lent: Iterable[tuple[str, int, int]]) -> str:
    """Return what is lent to each virtual cluster, from its name, GPUs and CPUs; empty for nothing."""
    return ", ".join(
        f"{plural(gpus, 'GPU') if gpus else plural(cpus, 'CPU')} to {shown(name)}" for name, gpus, cpus in lent
    )


def _expected(estimate: Estimate, now_ms: int) -> str:
    earliest, latest = estimate.earliest_ms, estimate.latest_ms
    basis = shown(estimate.basis)
    if earliest is None:
        return f"unknown: {basis}"
    soonest_s, last_s = ((at_ms - now_ms) / 1000 if at_ms is not None else None for at_ms in (earliest, latest))
    if soonest_s is None or soonest_s <= 0:
        when = "at any moment" if last_s is None or last_s <= 0 else f"within {span(last_s)}"
    elif last_s is None:
        when = f"in {span(soonest_s)} at the earliest"
    else:
        when = f"in {span(soonest_s)} to {span(last_s)}" if span(soonest_s) != span(last_s) else f"in {span(last_s)}"
    judged = f"; {percent(estimate.within, estimate.judged)} of the last {estimate.judged} came true"
    return f"{when} ({basis}{judged if estimate.judged else ''})"

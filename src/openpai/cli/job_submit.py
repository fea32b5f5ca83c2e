"""`pai job submit`, `pai job clone` and `pai job check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from openpai.cli import completion, formatting, job_file, output, session
from openpai.cli.exits import Exit
from openpai.cli.job_changes import Changes, changed, describe, makes_sweep
from openpai.cli.options import argument, fields_as_options, option
from openpai.protocol.errors import InvalidParameters, InvalidProtocol, Refused

if TYPE_CHECKING:
    from openpai.cli.job_edit import Edited
    from openpai.client import Client, JobDetail
    from openpai.client.model import CheckedJob, MarketRun, Submitted, SubmittedSweep
    from openpai.client.sending import Listed

File = Annotated[str, argument("FILE", "Job file (YAML, or OpenPAI's v1 JSON); - reads standard input.")]


def ended(job: JobDetail, called: str, *steps: str) -> int:
    """Print how a job ended and what to do next, with its name as the user gave it; return the exit code.

    `steps` are further commands to suggest.
    """
    import time

    from openpai.cli import job_tables
    from openpai.cli.formatting import ran_for, styled

    ran = ran_for(job.attempt_started_at_ms, job.attempt_ended_at_ms, int(time.time() * 1000))
    output.say_marked_up(f"{job.full_name} {styled(job.state)} after {ran} (exit code {job.exit_code})")
    if why := job_tables.diagnosis(job):
        output.say_marked_up(why)
    if early := job_tables.ended_early(job):
        output.say_marked_up(early)
    output.next_step(f"pai job logs {called}", f"pai job show {called}", *steps)
    return Exit.OK if job.state == "SUCCEEDED" else Exit.JOB_FAILED


def _watch(pai: Client, name: str, steps: Sequence[str]) -> int:
    from openpai.cli.job_watch import watch

    try:
        return ended(watch(pai, name, output.console()), name, *steps)
    except KeyboardInterrupt:
        output.say(f"\n{name} keeps running; only the view has ended.")
        output.next_step(f"pai job show {name}", f"pai job logs {name} -f", f"pai job stop {name}")
        return Exit.INTERRUPTED


@fields_as_options(Changes, "changes")
def submit(
    file: File,
    watch: Annotated[bool, option("--watch -w", "Watch the job until it ends.")] = False,
    code: Annotated[
        Path | None, option("--code DIRECTORY", "Send this directory along: tasks start in a copy of it.")
    ] = None,
    *,
    changes: Changes,
    json: output.Json = False,
) -> int:
    """Submit a job file.

    When this returns, the platform has saved the job and will run it. Options change what is sent, not the file.
    With --code, files that .gitignore or .paiignore name stay here, as do files of secrets such as .env, and only what
    the server lacks is sent.
    """
    content = job_file.read(file)
    listed = _listed(code) if code is not None else None
    edited = changed(content, changes, listed.digest if listed else "")
    with session.connect() as pai:
        try:
            if listed is not None:
                _check_before_sending(edited)
                _send(pai, listed, json=json)
            if makes_sweep(edited):
                return _report_sweep(pai.submit_sweep(edited.content), edited, watch=watch, json=json)
            job = pai.submit(edited.content)
        except InvalidProtocol as refusal:
            refusal.message = describe(file, edited, refusal)
            refusal.faults = tuple(edited.faults(refusal.faults))
            refusal.advice = "nothing was submitted; correct the lines named above"
            raise
        except Refused as refusal:
            if refusal.code == "ConflictJobError":
                refusal.advice = f"submit it under another name: pai job submit {file} --name NAME"
            raise
        return report_submitted(pai, job, edited, watch=watch, json=json)


def _report_sweep(sweep: SubmittedSweep, edited: Edited, *, watch: bool, json: bool) -> int:
    for warning in sweep.warnings:
        output.warn(edited.remark(warning))
    if json:
        output.document(sweep.document)
        return Exit.OK
    count = formatting.plural(len(sweep.jobs), "job")
    output.say(f"Submitted sweep {sweep.user}~{sweep.name}: {count}, {sweep.jobs[0]} to {sweep.jobs[-1]}.")
    if watch:
        output.warn("a sweep is not watched; `pai sweep show` shows its jobs")
    output.next_step(f"pai sweep show {sweep.name}", f"pai sweep stop {sweep.name}", f"pai job logs {sweep.jobs[0]} -f")
    return Exit.OK


def _listed(directory: Path) -> Listed:
    from openpai.cli.run_code import warn_of_secrets
    from openpai.client.code import code_of
    from openpai.client.sending import list_code

    if not directory.is_dir():
        raise InvalidParameters(f"{directory} is not a directory", "--code takes the directory of the job's code")
    code = code_of(directory)
    warn_of_secrets(code)
    return list_code(code)


def _check_before_sending(edited: Edited) -> None:
    """Raise InvalidProtocol for a job file that no platform accepts: its code would be sent in vain."""
    from openpai.protocol.reading import read_job
    from openpai.runtime.plugins import offline_check

    read_job(edited.content, check=offline_check)


def _send(pai: Client, listed: Listed, *, json: bool) -> None:
    from openpai.client.sending import send_code

    sent = send_code(pai, listed)
    if not json:
        what = f"{formatting.plural(len(listed.entries), 'file')}, {formatting.size(listed.bytes)}"
        new = (
            f"{formatting.plural(sent.files, 'new content')}, {formatting.size(sent.bytes)}"
            if sent.files
            else "all known"
        )
        output.say(f"Sent the code: {what}; {new}.")


def report_submitted(
    pai: Client,
    job: Submitted | MarketRun,
    edited: Edited,
    *,
    watch: bool,
    json: bool,
    steps: Sequence[str] = (),
    origin: str = "",
) -> int:
    """Print the result of a submission, and of the job if it is watched; return the exit code.

    `steps` are further commands to suggest when a watched job has ended, `origin` says what the job was made from.
    """
    for warning in job.warnings:
        output.warn(edited.remark(warning))
    if json:
        output.json_line(job.document)
        if not watch:
            return Exit.OK
        over = pai.wait(job.full_name)
        output.json_line(over.document)
        return Exit.OK if over.state == "SUCCEEDED" else Exit.JOB_FAILED
    output.say_marked_up(f"Submitted [bold]{job.full_name}[/]{origin}.")
    if watch:
        return _watch(pai, job.name, steps)
    output.next_step(f"pai job logs {job.name} -f", f"pai job show {job.name}", f"pai job why {job.name}")
    return Exit.OK


@fields_as_options(Changes, "changes")
def check(
    file: File,
    changes: Changes,
    online: Annotated[
        bool, option("--online", "Also ask the platform: whether it would accept the job, and start it now or why not.")
    ] = False,
    json: output.Json = False,
) -> int:
    """Check a job file, offline unless --online is given: every fault, with its line.

    The options are those of submit, and the check is of what submit would send.
    """
    from openpai.protocol.placement import placement_of
    from openpai.protocol.reading import read_job
    from openpai.protocol.sweeps import is_sweep, jobs_of
    from openpai.runtime.plugins import offline_check

    edited = changed(job_file.read(file), changes)
    try:
        found = read_job(edited.content, check=offline_check)
        jobs = [job.name for job in jobs_of(found.spec)] if is_sweep(found.spec) else []
    except InvalidProtocol as refusal:
        if not json:
            refusal.message = describe(file, edited, refusal)
            refusal.advice = "correct the lines named above and check again"
        refusal.faults = tuple(edited.faults(refusal.faults))
        raise
    warnings = [edited.remark(warning) for warning in found.warnings]
    own = by_cluster = placement_of(found.spec).is_interruptible
    answer = None
    if online:
        with session.connect() as pai:
            answer = pai.check_job(edited.content)
            if own is None:
                by_cluster = pai.virtual_cluster(found.spec.virtual_cluster).is_interruptible
    if json:
        document = {"name": found.spec.name, "faults": [], "warnings": warnings, "interruptible": by_cluster}
        document |= {"waits": answer.document.get("waits")} if answer is not None else {}
        output.document({**document, "jobs": jobs} if jobs else document)
        return Exit.OK
    for warning in warnings:
        output.warn(warning)
    spec = found.spec
    gpus = f", {formatting.plural(spec.gpus_total, 'GPU')}" if spec.gpus_total else ""
    each = " each" if jobs else ""
    output.say(f"{file} is valid: {spec.name}, {formatting.plural(spec.tasks_total, 'task')}{gpus}{each}.")
    if jobs:
        output.say(f"It is a sweep of {formatting.plural(len(jobs), 'job')}: {jobs[0]} to {jobs[-1]}.")
    if by_cluster:
        why = "" if own else f", as all jobs of virtual cluster {spec.virtual_cluster} unless they say otherwise"
        output.say(f"It may borrow idle resources of others and be preempted there{why}.")
    if answer is not None:
        _say_when(answer)
    output.next_step(f"pai job submit {file} --watch")
    return Exit.OK


def _say_when(answer: CheckedJob) -> None:
    """Say whether a job would start now, or why it would wait."""
    import time

    from openpai.cli.job_tables import wait_text

    if answer.would_start is None:
        output.say("Whether it would start now is not known: no server leads at the moment.")
    elif answer.would_start:
        output.say("It would start now.")
    else:
        output.say("It would wait:")
        for wait in answer.waits:
            output.say_marked_up(wait_text(wait, int(time.time() * 1000)))


@fields_as_options(Changes, "changes", without={"name"})
def clone(
    origin: Annotated[str, argument("NAME", "A job of your own.", completion.jobs)],
    name: Annotated[str | None, option("--name NEW", "Name of the new job [default: made up].")] = None,
    *,
    changes: Changes,
    json: output.Json = False,
) -> int:
    """Submit a copy of a job under another name, with its secrets."""
    import secrets

    new = name or f"{origin.rpartition('~')[2][:250]}-{secrets.token_hex(2)}"
    with session.connect() as pai:
        edited = changed(pai.config(origin).encode(), replace(changes, name=new))
        try:
            job = pai.submit(edited.content, clone_of=origin)
        except InvalidProtocol as refusal:
            refusal.message = describe(f"the file of {origin}", edited, refusal)
            refusal.advice = f"nothing was submitted; `pai job config {origin}` prints the file"
            raise
        for warning in job.warnings:
            output.warn(edited.remark(warning))
    if json:
        output.document(job.document)
        return Exit.OK
    output.say(f"Submitted {job.full_name}, a clone of {origin}.")
    output.next_step(f"pai job logs {job.name} -f", f"pai job show {job.name}")
    return Exit.OK

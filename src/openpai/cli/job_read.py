"""`pai job list`, `show`, `events` and `config`: what there is to know about jobs."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from openpai.cli import output, session
from openpai.cli.job_submit import Name


def _now_ms() -> int:
    return int(time.time() * 1000)


def list_(
    user: Annotated[str | None, typer.Option("--user", metavar="NAMES", help="Jobs of these users.")] = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Jobs of all users.")] = False,
    vc: Annotated[str, typer.Option("--vc", metavar="NAMES", help="Jobs in these virtual clusters.")] = "",
    state: Annotated[str, typer.Option("--state", metavar="STATES", help="Like RUNNING,WAITING.")] = "",
    keyword: Annotated[str, typer.Option("--keyword", metavar="TEXT", help="Part of a name.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50000, help="How many at most.")] = 20,
    json: output.Json = False,
) -> None:
    """List jobs, newest first.

    Your own jobs, unless --user or --all says otherwise.
    """
    with session.connect() as pai:
        own = pai.user or pai.whoami()
        owner = "" if all_ else user or own
        page = pai.jobs(limit=limit, username=owner, vc=vc, state=state.upper(), keyword=keyword)
    if json:
        output.document(page.document)
        return
    if not page.jobs:
        has_filter = bool(user or vc or state or keyword)
        output.say("No job matches." if has_filter else "No jobs yet.")
        output.next_step("pai job list --all" if has_filter else "pai job submit FILE --watch")
        return
    from openpai.cli.tables import job_list

    output.say(job_list(page.jobs, own, _now_ms()))
    if page.total > len(page.jobs):
        output.say(f"[dim]{len(page.jobs)} of {page.total} jobs; more with --limit {page.total}[/]")
    output.next_step(f"pai job show {page.jobs[0].name if page.jobs[0].user == own else page.jobs[0].full_name}")


def show(
    name: Name,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", min=0, help="An earlier attempt of the job.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Show a job: its state, its tasks, and why it waits or failed."""
    with session.connect() as pai:
        job = pai.job(name, attempt)
        waits = pai.why(name) if job.state == "WAITING" and not json else ()
    if json:
        output.document(job.document)
        return
    from openpai.cli import tables

    output.say(tables.job_facts(job, _now_ms()))
    for wait in waits:
        output.say(tables.wait_told(wait, _now_ms()))
    if told := tables.diagnosis(job):
        output.say(told)
    if len(job.roles) > 1 or len(job.tasks) > tables.TASKS_SHOWN:
        output.say()
        output.say(tables.role_list(job))
    if shown := tables.worth_showing(job.tasks):
        output.say()
        output.say(tables.task_list(shown, _now_ms()))
    over = [f"pai job logs {name}", f"pai job start {name}"]
    output.next_step(*(over if job.is_final else [f"pai job logs {name} -f", f"pai job stop {name}"]))


def events(
    name: Name,
    type_: Annotated[str | None, typer.Option("--type", metavar="KIND", help="Normal or Warning only.")] = None,
    json: output.Json = False,
) -> None:
    """Show what happened to a job, oldest first."""
    with session.connect() as pai:
        found = pai.events(name, type_)
    if json:
        output.document({"totalCount": len(found), "data": [event.document for event in found]})
        return
    if not found:
        output.say("Nothing has happened yet." if type_ is None else f"No {type_} events.")
        return
    from openpai.cli.tables import event_list

    output.say(event_list(found[::-1]))
    output.next_step(f"pai job show {name}")


def config(name: Name, json: output.Json = False) -> None:
    """Print a job's file, its secrets masked."""
    with session.connect() as pai:
        text = pai.config(name)
    if json:
        import yaml

        output.document(yaml.safe_load(text))
        return
    sys.stdout.write(text if text.endswith("\n") else text + "\n")

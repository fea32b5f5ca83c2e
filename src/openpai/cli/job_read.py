"""`pai job list`, `show`, `events` and `config`: the state and the history of jobs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.cli import completion, output, session
from openpai.cli.filters import meaning, moment_ms
from openpai.cli.formatting import split
from openpai.cli.job import Name, job_in
from openpai.cli.job_efficiency import use_of
from openpai.cli.options import option
from openpai.cli.plain_text import plain
from openpai.cli.sweep import sweep_of
from openpai.protocol.errors import InvalidParameters, Refused, Unavailable
from openpai.protocol.sweeps import LATER_TAG

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import JobSummary, Sweep, WorkKept

SWEEPS_SHOWN: Final = 50
EVENT_TYPES: Final = ("Normal", "Warning")


def _now_ms() -> int:
    return int(time.time() * 1000)


def list_(
    user: Annotated[str | None, option("--user NAMES", "Jobs of these users.", completion.users)] = None,
    all_: Annotated[bool, option("--all -a", "Jobs of all users.")] = False,
    vc: Annotated[str, option("--vc NAMES", "Jobs in these virtual clusters.", completion.virtual_clusters)] = "",
    state: Annotated[str, option("--state STATES", "Such as RUNNING,WAITING.", completion.states)] = "",
    keyword: Annotated[str, option("--keyword TEXT", "Part of a name.")] = "",
    tag: Annotated[str, option("--tag TAGS", "Jobs with any of these tags.")] = "",
    priority: Annotated[str, option("--priority CLASSES", "Such as crit,prod,test,oppo,default.")] = "",
    since: Annotated[str | None, option("--since TIME", "Submitted since 10m, 2h, 1d12h ago or 2026-01-31.")] = None,
    node: Annotated[str, option("--node NODE", "Jobs of all users on this node.", completion.nodes)] = "",
    expand: Annotated[bool, option("--expand", "Each job of a sweep in a line of its own.")] = False,
    archived: Annotated[bool, option("--archived", "Jobs in the archive instead.")] = False,
    limit: Annotated[int, option("--limit -n N", "Greatest number of jobs.", min=1, max=50000)] = 20,
    json: output.Json = False,
) -> None:
    """List jobs, newest first.

    Your own jobs, unless --user, --all or --node is given. A sweep is one line, unless jobs are searched for by
    anything but their user or virtual cluster.
    """
    with session.connect() as pai:
        own = pai.user or pai.whoami()
        where: dict[str, Any] = {
            "vc": vc,
            "state": meaning("state", state),
            "keyword": keyword,
            "tagsContain": tag,
            "jobPriority": meaning("priority", priority),
            **({"node": node} if node else {}),
        }
        is_short = not (expand or archived or json or state or keyword or tag or priority or node)
        if is_short:
            where["tagsNotContain"] = LATER_TAG
        since_ms = None if since is None else moment_ms(since, time.time())
        page = pai.jobs(
            limit=limit,
            username=user or ("" if all_ or node else own),
            submittedFrom=since_ms,
            archived=archived,
            **where,
        )
        sweeps = _sweeps(pai, page.jobs) if is_short else {}
        unknown = _unknown(pai, split([user])) if user and not page.jobs else []
    if unknown:
        users = "users" if len(unknown) > 1 else "user"
        raise Refused("NoUserError", f"unknown {users}: {', '.join(unknown)}", "`pai user list` shows the users")
    if output.as_json(json, page.document):
        return
    if not page.jobs:
        searched = {
            "user": user,
            "virtual cluster": vc,
            "state": state,
            "keyword": keyword,
            "tag": tag,
            "priority": priority,
            "since": since,
            "node": node,
        }
        _print_none({key: value for key, value in searched.items() if value}, archived, all_)
        return
    from openpai.cli.job_tables import archived_list, job_list

    output.say(archived_list(page.jobs, own, _now_ms()) if archived else job_list(page.jobs, own, _now_ms(), sweeps))
    if page.total > len(page.jobs):
        output.say_marked_up(f"[dim]{len(page.jobs)} of {page.total} jobs; more with --limit {page.total}[/]")
    first = page.jobs[0]
    called = first.id if archived else first.name if first.user == own else first.full_name
    sweep = sweeps.get(first.full_name)
    output.next_step(f"pai sweep show {sweep.name}" if sweep is not None else f"pai job show {called}")


def _sweeps(pai: Client, jobs: Sequence[JobSummary]) -> dict[str, Sweep]:
    """Return the sweeps whose first jobs are among these, by the full names of the jobs."""
    found: dict[str, Sweep] = {}
    for job in jobs:
        name = sweep_of(job)
        if name and len(found) < SWEEPS_SHOWN:
            # A job may have been archived, or its sweep be another user's, meanwhile.
            with contextlib.suppress(Refused, Unavailable):
                found[job.full_name] = pai.sweep(name)
    return found


def _unknown(pai: Client, users: Sequence[str]) -> list[str]:
    """Return the names that are not users; none if the caller may not list users."""
    try:
        known = {found.name for found in pai.users()}
    except (Refused, Unavailable):
        return []
    return [name for name in users if name not in known]


def _print_none(searched: Mapping[str, str], archived: bool, is_all: bool) -> None:
    where = ", ".join(f"{key} {value}" for key, value in searched.items())
    if archived:
        empty = "The archive is empty." if is_all else "Your archive is empty."
        output.say(f"No job in the archive matches: {where}." if where else empty)
        output.next_step("pai job archive NAME")
        return
    own = "" if is_all or {"user", "node"} & searched.keys() else " of yours"
    output.say(f"No job{own} matches: {where}." if where else "No jobs yet.")
    output.next_step("pai job list --all" if where else "pai job submit FILE --watch")


def show(
    name: Name,
    attempt: Annotated[int | None, option("--attempt N", "An earlier attempt of the job, from 1.", min=1)] = None,
    json: output.Json = False,
) -> None:
    """Show a job: its state, its tasks, and why it waits or failed."""
    with session.connect() as pai:
        job = job_in(pai, name, attempt)
        waits = pai.why(name) if job.state == "WAITING" and not json else ()
        may_borrow = job.state == "RUNNING" and (job.is_interruptible or job.priority == "oppo")
        borrowed = pai.borrowed(name) if may_borrow and attempt is None and not json else None
        kept = () if json or not job.tasks else _kept(pai, name)
        used = () if json or attempt is not None else use_of(pai, job, name)
    if output.as_json(json, job.document):
        return
    from openpai.cli import job_tables

    output.say(job_tables.job_facts(job, _now_ms(), borrowed))
    for wait in waits:
        output.say_marked_up(job_tables.wait_text(wait, _now_ms()))
    if message := job_tables.diagnosis(job):
        output.say_marked_up(message)
    if message := job_tables.ended_early(job):
        output.say_marked_up(message)
    if message := job_tables.other_failures(job):
        output.say_marked_up(message)
    if len(job.roles) > 1 or len(job.tasks) > job_tables.TASKS_SHOWN:
        output.say()
        output.say(job_tables.role_list(job))
    if shown := job_tables.worth_showing(job.tasks):
        output.say()
        output.say(job_tables.task_list(shown, _now_ms()))
    if kept:
        output.say()
        output.say(job_tables.kept_work(kept, _now_ms()))
    if used:
        output.say()
        for line in used:
            output.say(line)
        output.say_marked_up(f"[dim]more of what it used: pai job efficiency {plain(name)}[/]")
    over = [f"pai job logs {name}", *([f"pai job fetch {name}"] if kept else []), f"pai job start {name}"]
    output.next_step(*(over if job.is_final else [f"pai job logs {name} -f", f"pai job stop {name}"]))


def _kept(pai: Client, name: str) -> Sequence[WorkKept]:
    """Return what tasks left; nothing if the caller may not read it, or the server is too old."""
    try:
        return pai.kept_work(name)
    except (Refused, Unavailable):
        return ()


def events(
    name: Name,
    type_: Annotated[str | None, option("--type KIND", "Normal or Warning only.")] = None,
    json: output.Json = False,
) -> None:
    """Show what happened to a job, oldest first."""
    if type_ is not None and type_ not in EVENT_TYPES:
        raise InvalidParameters(f"{type_!r} is not a type of events", f"choose from: {', '.join(EVENT_TYPES)}")
    with session.connect() as pai:
        found = pai.events(name, type_)
    empty = "Nothing has happened yet." if type_ is None else f"No {type_} events."
    document = {"totalCount": len(found), "data": [event.document for event in found]}
    if output.is_shown(json, document, found, empty):
        return
    from openpai.cli.job_tables import event_list

    output.say(event_list(found[::-1]))
    output.next_step(f"pai job show {name}")


def config(name: Name, json: output.Json = False) -> None:
    """Print a job's file, with its secrets masked."""
    with session.connect() as pai:
        text = pai.config(name)
    if json:
        import yaml

        output.document(yaml.safe_load(text))
        return
    if sys.stdout.isatty():
        # A pipe gets the file unchanged, so that it can be submitted again.
        text = plain(text)
    sys.stdout.write(text if text.endswith("\n") else text + "\n")

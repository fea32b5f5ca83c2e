"""`pai sweep`: many jobs of one file, shown and stopped as one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.cli import completion, output, prompts, session
from openpai.cli.exits import Exit, exit_for
from openpai.cli.formatting import plural
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.protocol.sweeps import LATER_TAG, SWEEP_JOBS_MAX, sweep_in

if TYPE_CHECKING:
    from openpai.client.model import JobSummary, Sweep, SweepJob

COMMANDS: Final = {
    "list": ("openpai.cli.sweep:list_", "List sweeps, newest first."),
    "show": ("openpai.cli.sweep:show", "Show the jobs of a sweep, with their parameters and progress."),
    "stop": ("openpai.cli.sweep:stop", "Stop all jobs of a sweep."),
}
app = group("Sweeps: many jobs of one file, as one.", COMMANDS)

Name = Annotated[str, argument("NAME", "Sweep, as `sweep` or `user~sweep`.")]
SEARCHED_MAX: Final = 5000
"""Among how many of the newest jobs sweeps are searched; of a sweep only the first job counts."""
_RANGE: Final = re.compile(r"(-?[0-9]{1,15})\.\.(-?[0-9]{1,15})")


def list_(
    user: Annotated[str | None, option("--user NAMES", "Sweeps of these users.", completion.users)] = None,
    all_: Annotated[bool, option("--all -a", "Sweeps of all users.")] = False,
    limit: Annotated[int, option("--limit -n N", "Greatest number of sweeps.", min=1, max=100)] = 20,
    json: output.Json = False,
) -> None:
    """List sweeps, newest first: your own, unless --user or --all is given."""
    with session.connect() as pai:
        own = pai.user or pai.whoami()
        where = user or ("" if all_ else own)
        page = pai.jobs(limit=SEARCHED_MAX, username=where, tagsNotContain=LATER_TAG)
        names = [name for job in page.jobs if (name := sweep_of(job))][:limit]
        found = [pai.sweep(name) for name in names]
    if output.as_json(json, {"sweeps": [each.document for each in found]}):
        return
    if not found:
        output.say("There are no sweeps." if all_ or user else "You have no sweeps.")
        output.next_step("pai job submit FILE --matrix lr=0.1,0.01")
        return
    from openpai.cli.listing import listing

    rows = [(_called(each, own), str(len(each.jobs)), states_text(each)) for each in found]
    output.say(listing(("SWEEP", "JOBS", "STATES"), rows, whole=("SWEEP",)))
    output.next_step(f"pai sweep show {rows[0][0]}")


def sweep_of(job: JobSummary) -> str:
    """Return the full name of the sweep that a job belongs to; empty if it belongs to none."""
    name = sweep_in(job.tags)
    return name and f"{job.user}~{name}"


def _called(sweep: Sweep, own: str) -> str:
    return sweep.name if sweep.user == own else f"{sweep.user}~{sweep.name}"


def show(name: Name, json: output.Json = False) -> None:
    """Show the jobs of a sweep, with their parameters and progress."""
    with session.connect() as pai:
        found = pai.sweep(name)
    if output.as_json(json, found.document):
        return
    from openpai.cli.listing import listing

    limit = f"; at most {found.max_running} at a time" if found.max_running else ""
    output.say(f"{found.user}~{found.name}: {states_text(found)}{limit}.")
    names = list(dict.fromkeys(name for job in found.jobs for name in job.parameters or ()))
    metrics = list(
        dict.fromkeys(name for job in found.jobs if job.progress is not None for name in job.progress.metrics)
    )
    rows = [_row(job, names, metrics) for job in found.jobs]
    output.say(listing(("JOB", "STATE", *map(str.upper, [*names, *metrics]), "PROGRESS"), rows, whole=("STATE",)))
    output.next_step(f"pai job show {found.jobs[0].name}", f"pai sweep stop {name}")


def _row(job: SweepJob, names: Sequence[str], metrics: Sequence[str]) -> tuple[str, ...]:
    values = [str((job.parameters or {}).get(name, "")) for name in names]
    reported: Mapping[str, float] = job.progress.metrics if job.progress is not None else {}
    shown = [f"{reported[name]:g}" if name in reported else "" for name in metrics]
    return (job.name, job.state, *values, *shown, job.progress.text() if job.progress is not None else "")


def stop(
    name: Name,
    force: Annotated[bool, option("--force", "Kill the tasks at once, without time to save their work.")] = False,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> int:
    """Stop all jobs of a sweep; those that have ended stay as they are."""
    owner, tilde, own = name.rpartition("~")
    with session.connect() as pai:
        sweep = pai.sweep(name)
        left = sum(count for state, count in sweep.states.items() if state in ("WAITING", "RUNNING"))
        if left:
            prompts.check_sure(f"Stop {plural(left, 'job')} of sweep {name}?", yes)
        where = {"sweep": own, "username": owner if tilde else sweep.user}
        found = pai.many("kill" if force else "stop", where=where)
    if json:
        output.document(found.document)
    else:
        stopped = sum(one.is_done for one in found.results)
        output.say(f"{plural(stopped, 'job')} of sweep {name} {'is' if stopped == 1 else 'are'} stopping.")
        output.next_step(f"pai sweep show {name}")
    return next((exit_for(Refused(one.code, one.message)) for one in found.results if not one.is_done), Exit.OK)


def states_text(sweep: Sweep) -> str:
    """Return how many jobs of a sweep are in each state."""
    return ", ".join(f"{count} {state.lower()}" for state, count in sorted(sweep.states.items()))


def matrix_of(given: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of parameters written as NAME=A,B or NAME=1..5; raise Refused for anything else."""
    matrix: dict[str, list[Any]] = {}
    for one in given:
        name, equals, values = one.partition("=")
        if not equals or not name or name in matrix:
            what = "names a parameter twice" if name in matrix else "has no values"
            raise InvalidParameters(f"--matrix {one} {what}", "write NAME=A,B,C or NAME=1..5, each name once")
        matrix[name] = _values(one, values)
    return matrix


def _values(given: str, values: str) -> list[Any]:
    if found := _RANGE.fullmatch(values):
        first, last = int(found[1]), int(found[2])
        if not 0 <= last - first < SWEEP_JOBS_MAX:
            raise InvalidParameters(f"--matrix {given} has no range of 1 to {SWEEP_JOBS_MAX:,} values", "as in 1..5")
        return list(range(first, last + 1))
    from openpai.protocol.dialect import resolve

    return [resolve(value) for value in values.split(",")]

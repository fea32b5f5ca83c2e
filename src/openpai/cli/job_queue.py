"""`pai job why`, `move`, `priority`, `scale` and `checkpoint`: a job's place in the queue, and its size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from openpai.cli import output, session
from openpai.cli.job import Name
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters

if TYPE_CHECKING:
    from openpai.client.model import Held, JobDetail, Resources, Wait

REASONS_SHOWN: Final = 5
HOLDERS_SHOWN: Final = 8


def why(name: Name, json: output.Json = False) -> None:
    """Show why a job waits, which jobs are in its way, and when it may start; or why it failed, or what it borrows."""
    with session.connect() as pai:
        waits = pai.why(name)
        job = None if waits else pai.job(name)
        borrowed = pai.borrowed(name) if job is not None and not job.is_final else None
        held = pai.in_the_way(name) if waits else None
    document: dict[str, Any] = {"waits": [wait.document for wait in waits], **({"held": held.document} if held else {})}
    if job is not None and job.cause:
        document["cause"] = job.document["jobStatus"]["appExitCause"]
    if borrowed is not None:
        document["borrowed"] = {"gpu": borrowed.gpus, "cpu": borrowed.cpus}
    if output.as_json(json, document):
        return
    if job is not None:
        _print_over(name, job, borrowed)
        return
    from openpai.cli.job_tables import wait_text

    now_ms = int(time.time() * 1000)
    alike = _alike(waits)
    for wait, count in alike[:REASONS_SHOWN]:
        more = f" [dim](the same for {count - 1} more)[/]" if count > 1 else ""
        output.say_marked_up(wait_text(wait, now_ms) + more)
    if len(alike) > REASONS_SHOWN:
        output.say_marked_up(f"[dim]{len(alike) - REASONS_SHOWN} more reasons; all with --json[/]")
    if held is not None:
        _print_holders(held, now_ms)
    output.next_step("pai vc list", "pai node list", f"pai job stop {name}")


def _print_over(name: str, job: JobDetail, borrowed: Resources | None) -> None:
    """Print why a job that does not wait failed, or else its state and what it borrows."""
    from openpai.cli.job_tables import borrowing, diagnosis

    if why := diagnosis(job) if job.cause else "":
        output.say_marked_up(why)
        output.next_step(f"pai job show {name}", f"pai job logs {name}", f"pai job start {name}")
        return
    output.say(f"{name} is not waiting: it is {job.state}.")
    if borrowed is not None and (amount := borrowing(job, borrowed)):
        output.say(f"It borrows {amount}.")
    output.next_step(f"pai job show {name}")


def _print_holders(held: Held, now_ms: int) -> None:
    from openpai.cli.node_show import held_table, others

    if not held.jobs and not held.other_jobs:
        return
    output.say("\nJobs in the way:")
    if held.jobs:
        output.say(held_table(held.jobs[:HOLDERS_SHOWN], now_ms))
    if len(held.jobs) > HOLDERS_SHOWN:
        output.say(f"and {len(held.jobs) - HOLDERS_SHOWN} more; all with --json")
    if rest := others(held):
        output.say(rest)


def _alike(waits: tuple[Wait, ...]) -> list[tuple[Wait, int]]:
    """Return each reason once, with the number of tasks that have it."""
    found: dict[tuple[str, str], list[Wait]] = {}
    for wait in waits:
        found.setdefault((wait.code, wait.message), []).append(wait)
    return [(same[0], sum(1 + wait.more for wait in same)) for same in found.values()]


def move(
    name: Name,
    front: Annotated[bool, option("--front", "Before all jobs of equal priority.")] = False,
    back: Annotated[bool, option("--back", "After all jobs of equal priority.")] = False,
    rank: Annotated[int | None, option("--rank N", "Rank; jobs with a higher one go first [default: 0].")] = None,
    before: Annotated[str | None, option("--before JOB", "Directly before this job, which waits, too.")] = None,
    after: Annotated[str | None, option("--after JOB", "Directly after this job, which waits, too.")] = None,
    json: output.Json = False,
) -> None:
    """Move a waiting job among those of equal priority in its virtual cluster.

    No running job is stopped for it. For administrators and managers of the virtual cluster; `pai vc queue` shows the
    jobs that wait there.
    """
    places: list[int | str] = [*(["front"] if front else []), *(["back"] if back else [])]
    if rank is not None:
        places.append(rank)
    if len(places) + (before is not None) + (after is not None) != 1:
        raise InvalidParameters("give one of --front, --back, --rank, --before and --after", "see pai job move --help")
    if before is not None or after is not None:
        with session.connect() as pai:
            pai.move(name, before=before, after=after)
        place = {"before": before} if before is not None else {"after": after}
        ((word, other),) = place.items()
        output.done(json, {"job": name, **place}, f"{name} goes {word} {other}.", f"pai job why {name}")
        return
    with session.connect() as pai:
        pai.move(name, places[0])
    where = {"front": "to the front of", "back": "to the back of"}.get(str(places[0]), f"to rank {places[0]} in")
    message = f"{name} was moved {where} the queue."
    output.done(json, {"job": name, "rank": places[0]}, message, f"pai job why {name}")


def priority(
    name: Name,
    priority_class: Annotated[
        Literal["crit", "prod", "test", "oppo"],
        argument("CLASS", "crit, prod, test (the default) or oppo (opportunistic: on idle resources only)."),
    ],
    json: output.Json = False,
) -> None:
    """Change the priority of a job; a running job keeps running."""
    with session.connect() as pai:
        pai.set_priority(name, priority_class)
    message, steps = f"{name} has priority {priority_class}.", (f"pai job why {name}", f"pai job show {name}")
    output.done(json, {"job": name, "jobPriority": priority_class}, message, *steps)


def scale(
    name: Name,
    numbers: Annotated[list[str], argument("ROLE=NUMBER...", "Task roles with their new numbers of tasks.")],
    json: output.Json = False,
) -> None:
    """Change the number of tasks of a job's task roles; the other tasks run on.

    A smaller role loses the tasks of its highest indices. A larger role gets new tasks as soon as there is room.
    """
    wanted = dict(map(_role_and_number, numbers))
    with session.connect() as pai:
        pai.scale(name, wanted)
    wanted_roles = ", ".join(f"{number} of role {role}" for role, number in wanted.items())
    message = f"The tasks that {name} is to have: {wanted_roles}."
    output.done(json, {"job": name, "taskRoles": wanted}, message, f"pai job show {name}", f"pai job why {name}")


def _role_and_number(text: str) -> tuple[str, int]:
    role, _, number = text.rpartition("=")
    if not role or not (number.isascii() and number.isdigit()):
        raise InvalidParameters(f"{text!r} is not ROLE=NUMBER", "as in: pai job scale my-job worker=4")
    return role, int(number)


def checkpoint(name: Name, json: output.Json = False) -> None:
    """Record that a job has just saved a checkpoint.

    The scheduler preempts jobs that lose little work first.
    """
    with session.connect() as pai:
        pai.checkpointed(name)
    message = f"Checkpoint of {name} recorded: its work so far counts as saved if it is preempted."
    output.done(json, {"job": name, "checkpointed": True}, message, f"pai job show {name}")

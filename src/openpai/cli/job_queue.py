"""`pai job why`, `move`, `priority` and `checkpoint`: a job's place in the queue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from openpai.cli import output, session
from openpai.cli.job import Name
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client.model import Held
    from openpai.client.model.histories import Wait

REASONS_SHOWN: Final = 5
HOLDERS_SHOWN: Final = 8


def why(name: Name, json: output.Json = False) -> None:
    """Say why a job waits, what would change it, who holds the room, and when it may start."""
    with session.connect() as pai:
        waits = pai.why(name)
        state = "" if waits else pai.job(name).state
        held = pai.in_the_way(name) if waits else None
    if json:
        output.document({"waits": [wait.document for wait in waits], **({"held": held.document} if held else {})})
        return
    if not waits:
        output.say(f"{name} does not wait: it is {state}.")
        output.next_step(f"pai job show {name}")
        return
    from openpai.cli.tables import wait_text

    now_ms = int(time.time() * 1000)
    alike = _alike(waits)
    for wait, count in alike[:REASONS_SHOWN]:
        more = f" [dim](and {count - 1} more like it)[/]" if count > 1 else ""
        output.say_marked_up(wait_text(wait, now_ms) + more)
    if len(alike) > REASONS_SHOWN:
        output.say_marked_up(f"[dim]{len(alike) - REASONS_SHOWN} more reasons; all with --json[/]")
    if held is not None:
        _tell_held(held, now_ms)
    output.next_step("pai vc list", "pai node list", f"pai job stop {name}")


def _tell_held(held: Held, now_ms: int) -> None:
    from openpai.cli.node_show import held_table, others

    if not held.jobs and not held.other_jobs:
        return
    output.say("\nHolding the room:")
    if held.jobs:
        output.say(held_table(held.jobs[:HOLDERS_SHOWN], now_ms))
    if len(held.jobs) > HOLDERS_SHOWN:
        output.say(f"and {len(held.jobs) - HOLDERS_SHOWN} more; all with --json")
    if rest := others(held):
        output.say(rest)


def _alike(waits: tuple[Wait, ...]) -> list[tuple[Wait, int]]:
    """Return each reason once, with how many tasks have it."""
    found: dict[tuple[str, str], list[Wait]] = {}
    for wait in waits:
        found.setdefault((wait.code, wait.message), []).append(wait)
    return [(same[0], sum(1 + wait.more for wait in same)) for same in found.values()]


def move(
    name: Name,
    front: Annotated[bool, typer.Option("--front", help="Before all equally urgent jobs.")] = False,
    back: Annotated[bool, typer.Option("--back", help="Behind all equally urgent jobs.")] = False,
    rank: Annotated[
        int | None, typer.Option("--rank", metavar="N", help="A number; the higher one goes first, 0 is usual.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Move a waiting job among the equally urgent ones of its virtual cluster.

    Nothing that runs is stopped for it. For administrators and managers of the virtual cluster.
    """
    wishes: list[int | str] = [*(["front"] if front else []), *(["back"] if back else [])]
    if rank is not None:
        wishes.append(rank)
    if len(wishes) != 1:
        raise Refused("InvalidParametersError", "say one of --front, --back and --rank", "see pai job move --help")
    with session.connect() as pai:
        pai.move(name, wishes[0])
    if json:
        output.document({"job": name, "rank": wishes[0]})
        return
    where = {"front": "to the front of", "back": "to the back of"}.get(str(wishes[0]), f"to rank {wishes[0]} in")
    output.say(f"{name} was moved {where} the queue.")
    output.next_step(f"pai job why {name}")


def priority(
    name: Name,
    priority_class: Annotated[
        Literal["crit", "prod", "test", "oppo"],
        typer.Argument(metavar="CLASS", help="crit, prod, test (the usual one) or oppo (only what others leave free)."),
    ],
    json: output.Json = False,
) -> None:
    """Change how urgent a job is; where it runs, it runs on."""
    with session.connect() as pai:
        pai.set_priority(name, priority_class)
    if json:
        output.document({"job": name, "jobPriority": priority_class})
        return
    output.say(f"{name} has priority {priority_class}.")
    output.next_step(f"pai job why {name}", f"pai job show {name}")


def checkpoint(name: Name, json: output.Json = False) -> None:
    """Say that a job has just saved its work.

    A job that must leave for a more urgent one is chosen by how little it loses.
    """
    with session.connect() as pai:
        pai.checkpointed(name)
    if json:
        output.document({"job": name, "checkpointed": True})
        return
    output.say(f"{name} has saved its work: what it did so far is not lost if it must leave.")
    output.next_step(f"pai job show {name}")

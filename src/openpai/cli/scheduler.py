"""`pai scheduler`: snapshots of its state, and fair share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from openpai.cli import output, session
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters

COMMANDS: Final = {
    "snapshot": ("openpai.cli.scheduler:snapshot", "Save a snapshot of the scheduler, to inspect its decisions later."),
    "fairness": ("openpai.cli.scheduler:fairness", "Show or set how long past use counts in the fair share of users."),
}
app = group("The scheduler: its decisions and its fairness.", COMMANDS)


def snapshot(
    file: Annotated[Path | None, option("-o --output FILE", "Write it there [default: print it].")] = None,
    json: output.Json = False,
) -> None:
    """Save a snapshot of the scheduler, to inspect its decisions later.

    It names users and jobs, and holds neither job files nor secrets.
    """
    import json as writer

    from openpai.cli.vc import write

    with session.connect() as pai:
        found = pai.scheduler_snapshot()
    if file is None:
        output.document(found)
        return
    write(file, writer.dumps(found) + "\n")
    waiting = len(found.get("waiting", ()))
    message = f"Written to {file}: {waiting} waiting, {len(found.get('held', ()))} running."
    output.done(json, {"file": str(file), "waiting": waiting}, message, f"pai scheduler replay {file}")


def fairness(
    hours: Annotated[str | None, argument("HOURS", "Half-life of past use; `off` ignores past use.")] = None,
    json: output.Json = False,
) -> None:
    """Show or set how long past use counts in the fair share of users.

    Among jobs of equal priority in a virtual cluster, those of the user with the least recent use go first.
    """
    half_life_hours = None if hours is None else _hours(hours)
    with session.connect() as pai:
        found = pai.fairness() if hours is None else pai.set_fairness(half_life_hours)
    half_life = found.get("halfLifeHours")
    message = f"Users with less recent use go first; past use has a half-life of {half_life or 0:g} hours."
    if half_life is None:
        message = "Off: priority, rank and age order the queue."
    output.done(json, found, message, f"pai scheduler fairness {24 if half_life is None else 'off'}")


def _hours(text: str) -> float | None:
    if text.lower() == "off":
        return None
    try:
        hours = float(text)
    except ValueError:
        hours = -1.0
    if not 0.01 <= hours <= 24 * 365:
        raise InvalidParameters(f"{text!r} is not a number of hours", "give 0.01 to 8760, or off")
    return hours

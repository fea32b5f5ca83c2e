"""`pai budget`: GPU hours that users, groups and virtual clusters may use in a month, a quarter or in total."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import completion, output, prompts, session
from openpai.cli.durations import FORMS, seconds
from openpai.cli.formatting import split
from openpai.cli.lazy import group as group_of
from openpai.cli.options import option
from openpai.protocol.errors import InvalidParameters
from openpai.protocol.wording import amount, exact

if TYPE_CHECKING:
    from openpai.client.model import Budget

COMMANDS: Final = {
    "list": ("openpai.cli.budget:list_", "List the budgets that concern you, and how much of them is used."),
    "set": ("openpai.cli.budget:set_", "Set a budget."),
    "remove": ("openpai.cli.budget:remove", "Remove a budget."),
}
app = group_of("Budgets: GPU hours in a month, a quarter or in total.", COMMANDS)

PERIODS: Final = ("month", "quarter", "total")
STOPS: Final = ("none", "opportunistic", "all")
User = Annotated[str, option("--user -u NAME", "The budget of a user.", completion.users)]
Group = Annotated[str, option("--group NAME", "The budget of the members of a group together.")]
Vc = Annotated[str, option("--vc NAME", "The budget of a virtual cluster.", completion.virtual_clusters)]
Period = Annotated[str, option("--period WORD", "month, quarter or total.")]


def list_(json: output.Json = False) -> None:
    """List the budgets that concern you, and how much of them is used.

    Your own, and those of your groups and virtual clusters; administrators see all.
    """
    with session.connect() as pai:
        found = pai.budgets()
    empty = "No budgets: GPU hours are not limited."
    if output.is_shown(json, [one.document for one in found], found, empty, "pai report"):
        return
    headings = ["OF", "NAME", "PERIOD", "USED", "GPU-HOURS", "SHARE", "RENEWED", "THEN STOPS"]
    output.table(headings, [_row(one) for one in found], right=["USED", "GPU-HOURS", "SHARE"])
    output.next_step("pai report --by user,vc")


def _row(one: Budget) -> tuple[str, ...]:
    share = one.gpu_hours_used / one.gpu_hours if one.gpu_hours else 1.0
    renews_ms = one.renews_at_ms
    renewed = "never" if renews_ms is None else datetime.fromtimestamp(renews_ms / 1000, UTC).date().isoformat()
    return (
        one.kind, one.name, one.period, amount(one.gpu_hours_used), exact(one.gpu_hours), f"{share:.0%}", renewed,
        one.stops,
    )  # fmt: skip


def set_(
    gpu_hours: Annotated[str, option("--gpu-hours HOURS", "GPU hours in each period.")],
    user: User = "",
    group: Group = "",
    vc: Vc = "",
    period: Period = "month",
    warn: Annotated[list[str] | None, option("--warn PERCENTS", "Warn at these shares, such as 50,80,95.")] = None,
    stop: Annotated[
        str, option("--stop WHICH", "Once it is used up, stop accepted jobs: none, opportunistic or all.")
    ] = "none",
    notice: Annotated[
        str, option("--notice TIME", f"How long before a stop its user is notified: {FORMS}; a bare number is minutes.")
    ] = "60m",
    contact: Annotated[str, option("--contact TEXT", "Whom to ask for more; refusals name it.")] = "",
    json: output.Json = False,
) -> None:
    """Set a budget.

    Replaces the one of the same user, group or virtual cluster for the same period. Beyond it, new jobs that ask for
    GPUs are refused.
    """
    kind, name = _whose(user, group, vc)
    _check("--period", period, PERIODS)
    _check("--stop", stop, STOPS)
    warn_at = [_share(text) for text in split(warn)] if warn else None
    hours, notice_s = _hours(gpu_hours), seconds(notice, "--notice", bare="m")
    with session.connect() as pai:
        pai.set_budget(
            kind, name, hours, period=period, warn_at=warn_at, stops=stop, notice_minutes=notice_s / 60,
            contact=contact,
        )  # fmt: skip
        key = (kind, name, period)
        found = [one for one in pai.budgets() if (one.kind, one.name, one.period) == key] if json else []
    message = f"The budget of {kind} {name} is set: {exact(hours)} GPU hours, {period}."
    output.done(json, found[0].document if found else None, message, "pai budget list")


def remove(
    user: User = "",
    group: Group = "",
    vc: Vc = "",
    period: Period = "month",
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> None:
    """Remove a budget.

    Name it as it was set: with --user, --group or --vc, and its --period.
    """
    kind, name = _whose(user, group, vc)
    _check("--period", period, PERIODS)
    prompts.check_sure(f"Remove the budget of {kind} {name}?", yes)
    with session.connect() as pai:
        pai.remove_budget(kind, name, period)
    result = {"kind": kind, "name": name, "period": period, "removed": True}
    output.done(json, result, f"The budget of {kind} {name} is removed.", "pai budget list")


def _whose(user: str, group: str, vc: str) -> tuple[str, str]:
    given = [(kind, name) for kind, name in (("user", user), ("group", group), ("vc", vc)) if name]
    if len(given) != 1:
        raise InvalidParameters("a budget is of one user, group or virtual cluster", "give --user, --group or --vc")
    return given[0]


def _check(name: str, given: str, words: tuple[str, ...]) -> None:
    if given not in words:
        raise InvalidParameters(f"{name}: {given[:80]!r} is not known", f"choose from {', '.join(words)}")


def _hours(given: str) -> float:
    hours = _real(given)
    if not 0 <= hours < math.inf:
        raise InvalidParameters(f"--gpu-hours: {given[:80]!r} is not a number of hours", "give a number, such as 500")
    return hours


def _share(given: str) -> float:
    percent = _real(given.removesuffix("%"))
    if not 0 < percent < 100:
        raise InvalidParameters(f"--warn: {given[:80]!r} is not a share", "give percents, such as 50,80,95")
    return percent / 100


def _real(given: str) -> float:
    try:
        return float(given)
    except ValueError:
        return math.nan

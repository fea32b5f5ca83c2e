"""`pai quota`: limits for users, at a time, for one job and per month."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import completion, output, prompts, session
from openpai.cli.lazy import group
from openpai.cli.options import option
from openpai.protocol.errors import InvalidParameters
from openpai.protocol.wording import amount, exact

if TYPE_CHECKING:
    from openpai.client.calls.quotas import QuotaLimits
    from openpai.client.model import Quota

COMMANDS: Final = {
    "list": ("openpai.cli.quota:list_", "List quotas."),
    "show": ("openpai.cli.quota:show", "Show the quotas that apply to you, and how much of them is used."),
    "set": ("openpai.cli.quota:set_", "Set a quota."),
    "remove": ("openpai.cli.quota:remove", "Remove a quota."),
}
app = group("Quotas: limits for users.", COMMANDS)

NO_LIMIT: Final = "none"
Vc = Annotated[str, option("--vc NAME", "Virtual cluster; all together unless given.", completion.virtual_clusters)]
User = Annotated[
    str, option("--user -u NAME", "User; each user without a quota of their own unless given.", completion.users)
]


def list_(json: output.Json = False) -> None:
    """List quotas.

    Administrators see all, managers those of their virtual clusters; `pai quota show` shows yours.
    """
    with session.connect() as pai:
        found = pai.quotas()
    empty = "No quotas: users may use all that their virtual clusters have."
    steps = ("pai quota set --vc VC --gpus 8", "pai quota set --user NAME --jobs 100")
    if not output.is_shown(json, [one.document for one in found], found, empty, *steps):
        _print(found)


def show(json: output.Json = False) -> None:
    """Show the quotas that apply to you, and how much of them is used."""
    with session.connect() as pai:
        found = pai.my_quotas()
    if output.is_shown(json, [one.document for one in found], found, "No quota applies to you.", "pai vc list"):
        return
    _print(found, is_own=True)
    output.say_marked_up("[dim]columns: used/limit[/]")


def _print(found: tuple[Quota, ...], *, is_own: bool = False) -> None:
    def cell(limit: float | None, used: float | None) -> str:
        return f"{amount(used or 0)}/{_limit(limit)}" if is_own else _limit(limit)

    headings = ["VC", "USER", "GPUS", "GPUS/JOB", "JOBS", "GPU-H/MONTH"]
    rows: list[tuple[str, ...]] = [
        (
            one.virtual_cluster or "all",
            one.user or "each",
            *(cell(one.gpus_running, one.gpus_used), _limit(one.gpus_per_job)),
            *(cell(one.jobs_unfinished, one.jobs_used), cell(one.gpu_hours_per_month, one.gpu_hours_used)),
        )
        for one in found
    ]
    output.table(headings, rows, right=headings[2:])


def set_(
    vc: Vc = "",
    user: User = "",
    gpus: Annotated[str | None, option("--gpus N", "GPUs at a time; jobs that need more wait.")] = None,
    gpus_per_job: Annotated[str | None, option("--gpus-per-job N", "GPUs of one job; larger jobs are refused.")] = None,
    jobs: Annotated[str | None, option("--jobs N", "Jobs that wait or run; further jobs are refused.")] = None,
    gpu_hours: Annotated[str | None, option("--gpu-hours N", "GPU hours in a month; then jobs are refused.")] = None,
    json: output.Json = False,
) -> None:
    """Set a quota.

    Limits that are not given stay, and `none` removes one. A quota applies from the next job on.
    """
    if all(value is None for value in (gpus, gpus_per_job, jobs, gpu_hours)):
        raise InvalidParameters("no limit given", "give --gpus, --gpus-per-job, --jobs or --gpu-hours")
    limits: QuotaLimits = {}
    if gpus is not None:
        limits["gpus_running"] = _whole("--gpus", gpus)
    if gpus_per_job is not None:
        limits["gpus_per_job"] = _whole("--gpus-per-job", gpus_per_job)
    if jobs is not None:
        limits["jobs_unfinished"] = _whole("--jobs", jobs)
    if gpu_hours is not None:
        limits["gpu_hours_per_month"] = _real("--gpu-hours", gpu_hours)
    with session.connect() as pai:
        pai.change_quota(vc, user, **limits)
        found = [one for one in pai.quotas() if (one.virtual_cluster, one.user) == (vc, user)] if json else []
    message = f"The {_named(vc, user)} is set."
    output.done(json, found[0].describe() if found else None, message, "pai quota list")


def remove(vc: Vc = "", user: User = "", yes: prompts.Yes = False, json: output.Json = False) -> None:
    """Remove a quota.

    Name it as it was set: by --vc, --user, both or neither.
    """
    prompts.check_sure(f"Remove the {_named(vc, user)}?", yes)
    with session.connect() as pai:
        pai.remove_quota(vc, user)
    result = {"virtualCluster": vc, "user": user, "removed": True}
    output.done(json, result, f"The {_named(vc, user)} is removed.", "pai quota list")


def _named(vc: str, user: str) -> str:
    return f"quota of {user or 'each user'} in {vc or 'all virtual clusters together'}"


def _limit(value: float | None) -> str:
    return "-" if value is None else exact(value)


def _whole(option: str, given: str) -> int | None:
    if given == NO_LIMIT:
        return None
    if not given.isascii() or not given.isdigit():
        raise InvalidParameters(f"{option}: {given!r} is not a number", "give a whole number, or `none`")
    return int(given)


def _real(option: str, given: str) -> float | None:
    if given == NO_LIMIT:
        return None
    try:
        hours = float(given)
    except ValueError:
        hours = math.nan
    if not 0 <= hours < math.inf:
        raise InvalidParameters(
            f"{option}: {given!r} is not a number of hours", "give a number, such as 100, or `none`"
        )
    return hours

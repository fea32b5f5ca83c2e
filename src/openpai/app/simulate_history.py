"""`pai simulate --history`: the server replays its own past with other promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from openpai.cli import output, session
from openpai.cli.durations import seconds
from openpai.cli.formatting import plural, span
from openpai.protocol.errors import InvalidParameters

if TYPE_CHECKING:
    from openpai.client.model import ReplayedVc

_DAY_S: Final = 86_400
DAYS_MAX: Final = 366
HEADS: Final = ("VC", "", "GPUS", "JOBS", "MEAN", "P95", "IN USE", "WAITING", "STRANDED", "LOST GPUh")


def replay_history(history: str, what_if: Sequence[str], json: bool) -> None:
    """Print what would have been with other promises, beside what the same replay says of the present ones."""
    if len(what_if) != 1:
        message = "--history compares the promises of now with one change of them"
        raise InvalidParameters(message, "give --what-if once, as in vision=+8 or vision=+8,speech=-8")
    days = -(-int(seconds(history, "--history")) // _DAY_S)
    if not 1 <= days <= DAYS_MAX:
        raise InvalidParameters(f"--history: {history!r} is not 1 to {DAYS_MAX} days", "write it like 30d")
    with session.connect() as pai:
        found = pai.what_if(what_if[0], days)
    if output.as_json(json, found.document):
        return
    then = {vc.name: vc for vc in found.then.virtual_clusters}
    rows = []
    for now in (*found.now.virtual_clusters, found.now.total):
        after = found.then.total if now is found.now.total else then.get(now.name, now)
        rows += [(now.name, "now", *_cells(now)), ("", what_if[0], *_cells(after))]
    output.table(HEADS, rows, right=HEADS[2:])
    for note in found.notes:
        output.say(f"{note}.")
    left_out = "".join(f"; {count} left out: {reason}" for reason, count in found.left_out.items())
    output.say_marked_up(f"[dim]{plural(found.jobs, 'job')} of the last {plural(days, 'day')} replayed{left_out}[/]")
    output.next_step("pai vc list")


def _cells(vc: ReplayedVc) -> tuple[str, ...]:
    return (
        str(vc.gpus), str(vc.jobs), span(vc.wait_mean_s), span(vc.wait_p95_s), f"{vc.gpus_used:.1f}",
        f"{vc.jobs_waiting:.1f}", f"{vc.gpus_stranded:.1f}", f"{vc.gpu_hours_lost:.1f}",
    )  # fmt: skip

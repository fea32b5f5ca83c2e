"""Which promised cells serve the gangs that run, so that a restart gives every one of them the guarantee it had.

A gang's seats are written down when it is placed. The few whose promised cells change later, because a more urgent gang
took their guarantee or they got it back, are kept in one document beside the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openpai.orchestrator import gangs
from openpai.orchestrator.leader import Leader
from openpai.ports.settings import PLACEMENT_HINTS
from openpai.scheduler.model import Spot

BY: Final = "platform"


async def learn_hints(leader: Leader) -> None:
    """Read which seats changed since their gangs were placed."""
    known = await leader.settings.setting(PLACEMENT_HINTS)
    kept = known.body.get("gangs", {}) if known is not None else {}
    leader.active.placement_hints = {gang: tuple(map(str, placement_hints)) for gang, placement_hints in kept.items()}
    leader.active.hints_saved = dict(leader.active.placement_hints)


def with_hints(leader: Leader, gang: str, spots: Sequence[Spot | None]) -> list[Spot | None]:
    """Return the spots of a gang with the seats it had last."""
    placement_hints = leader.active.placement_hints.get(gang, ())
    if len(placement_hints) != len(spots):
        return list(spots)
    return [
        spot and spot._replace(placement_hint=placement_hint or spot.placement_hint)
        for spot, placement_hint in zip(spots, placement_hints, strict=True)
    ]


async def save_hints(leader: Leader) -> None:
    """Write down the seats that changed."""
    changed = leader.scheduler.changed_hints()
    active = leader.active
    if changed:
        kept = {
            gang: placement_hints
            for gang, placement_hints in active.placement_hints.items()
            if gangs.job_of(gang) in active.records
        }
        for gang, placement_hints in changed.items():
            if _as_placed(leader, gang) == placement_hints:
                kept.pop(gang, None)
            else:
                kept[gang] = placement_hints
        active.placement_hints = kept
    if active.placement_hints != active.hints_saved:
        hints_now = dict(active.placement_hints)
        await leader.settings.set_setting(PLACEMENT_HINTS, {"gangs": hints_now}, by=BY, at_ms=leader.clock.now_ms())
        active.hints_saved = hints_now


def _as_placed(leader: Leader, gang: str) -> tuple[str, ...] | None:
    """Return the seats that a gang was given, None if nothing of it is written down."""
    record = leader.active.records.get(gangs.job_of(gang))
    for members, spots in gangs.holding(record).items() if record is not None else ():
        if members.gang == gang:
            return tuple([spot.placement_hint if spot is not None else "" for spot in spots])
    return None

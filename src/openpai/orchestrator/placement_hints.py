"""Placement hints: which promised cells each running gang uses, so that a restart gives it the guarantee it had.

A gang's hints are saved with its placement. Those that change later, because a more urgent gang took the guarantee or
gave it back, are saved in one document of the cluster's settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openpai.orchestrator import gangs
from openpai.orchestrator.leader import Leader
from openpai.ports.cluster_settings import PLACEMENT_HINTS
from openpai.scheduler.model import Spot

BY: Final = "platform"


async def learn_hints(leader: Leader) -> None:
    """Read the hints that changed since their gangs were placed."""
    known = await leader.settings.setting(PLACEMENT_HINTS)
    kept = known.body.get("gangs", {}) if known is not None else {}
    leader.active.placement_hints = {gang: tuple(map(str, hints)) for gang, hints in kept.items()}
    leader.active.hints_saved = dict(leader.active.placement_hints)


def with_hints(leader: Leader, gang: str, spots: Sequence[Spot | None]) -> list[Spot | None]:
    """Return the spots of a gang with the hints it had last."""
    hints = leader.active.placement_hints.get(gang, ())
    if len(hints) != len(spots):
        return list(spots)
    return [
        spot and spot._replace(placement_hint=hint or spot.placement_hint)
        for spot, hint in zip(spots, hints, strict=True)
    ]


async def save_hints(leader: Leader) -> None:
    """Save the hints that changed."""
    changed = leader.scheduler.changed_hints()
    active = leader.active
    if changed:
        kept = {gang: hints for gang, hints in active.placement_hints.items() if gangs.job_of(gang) in active.records}
        for gang, hints in changed.items():
            if _as_placed(leader, gang) == hints:
                kept.pop(gang, None)
            else:
                kept[gang] = hints
        active.placement_hints = kept
    if active.placement_hints != active.hints_saved:
        hints_now = dict(active.placement_hints)
        body, now_ms = {"gangs": hints_now}, leader.clock.now_ms()
        await leader.settings.set_setting(PLACEMENT_HINTS, body, by=BY, at_ms=now_ms, epoch=leader.epoch)
        active.hints_saved = hints_now


def _as_placed(leader: Leader, gang: str) -> tuple[str, ...] | None:
    """Return the hints that were saved with a gang's placement, None if it has none."""
    record = leader.active.records.get(gangs.job_of(gang))
    tasks = gangs.holding(record).get(gang) if record is not None else None
    if record is None or tasks is None:
        return None
    return tuple([spot.placement_hint if spot else "" for spot in gangs.spots_of(record, gang, tasks)])

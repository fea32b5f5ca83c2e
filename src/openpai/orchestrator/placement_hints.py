"""Which promised cells serve the gangs that run, so that a restart gives every one of them the guarantee it had.

A gang's seats are written down when it is placed. The few whose promised cells change later, because a more urgent gang
took their guarantee or they got it back, are kept in one document beside the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openpai.orchestrator import gangs
from openpai.orchestrator.office import Office
from openpai.ports.settings import PLACEMENT_HINTS
from openpai.scheduler.model import Spot

BY: Final = "platform"


async def learn_hints(office: Office) -> None:
    """Read which seats changed since their gangs were placed."""
    known = await office.settings.setting(PLACEMENT_HINTS)
    kept = known.body.get("gangs", {}) if known is not None else {}
    office.desk.placement_hints = {gang: tuple(map(str, placement_hints)) for gang, placement_hints in kept.items()}
    office.desk.hints_saved = dict(office.desk.placement_hints)


def with_hints(office: Office, gang: str, spots: Sequence[Spot | None]) -> list[Spot | None]:
    """Return the spots of a gang with the seats it had last."""
    placement_hints = office.desk.placement_hints.get(gang, ())
    if len(placement_hints) != len(spots):
        return list(spots)
    return [
        spot and spot._replace(placement_hint=placement_hint or spot.placement_hint)
        for spot, placement_hint in zip(spots, placement_hints, strict=True)
    ]


async def save_hints(office: Office) -> None:
    """Write down the seats that changed."""
    changed = office.scheduler.changed_hints()
    desk = office.desk
    if changed:
        kept = {
            gang: placement_hints
            for gang, placement_hints in desk.placement_hints.items()
            if gangs.job_of(gang) in desk.records
        }
        for gang, placement_hints in changed.items():
            if _as_placed(office, gang) == placement_hints:
                kept.pop(gang, None)
            else:
                kept[gang] = placement_hints
        desk.placement_hints = kept
    if desk.placement_hints != desk.hints_saved:
        hints_now = dict(desk.placement_hints)
        await office.settings.set_setting(PLACEMENT_HINTS, {"gangs": hints_now}, by=BY, at_ms=office.clock.now_ms())
        desk.hints_saved = hints_now


def _as_placed(office: Office, gang: str) -> tuple[str, ...] | None:
    """Return the seats that a gang was given, None if nothing of it is written down."""
    record = office.desk.records.get(gangs.job_of(gang))
    for members, spots in gangs.holding(record).items() if record is not None else ():
        if members.gang == gang:
            return tuple([spot.placement_hint if spot is not None else "" for spot in spots])
    return None

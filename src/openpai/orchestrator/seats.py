"""Which promised cells serve the gangs that run, so that a restart gives every one of them the guarantee it had.

A gang's seats are written down when it is placed. The few whose promised cells change later, because a more urgent gang
took their guarantee or they got it back, are kept in one document beside the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openpai.orchestrator import gangs
from openpai.orchestrator.office import Office
from openpai.ports.settings import SEATS
from openpai.scheduler.model import Spot

BY: Final = "platform"


async def learn_seats(office: Office) -> None:
    """Read which seats changed since their gangs were placed."""
    known = await office.settings.setting(SEATS)
    kept = known.body.get("gangs", {}) if known is not None else {}
    office.desk.seats = {gang: tuple(map(str, seats)) for gang, seats in kept.items()}
    office.desk.seats_saved = dict(office.desk.seats)


def seated(office: Office, gang: str, spots: Sequence[Spot | None]) -> list[Spot | None]:
    """Return the spots of a gang with the seats it had last."""
    seats = office.desk.seats.get(gang, ())
    if len(seats) != len(spots):
        return list(spots)
    return [spot and spot._replace(seat=seat or spot.seat) for spot, seat in zip(spots, seats, strict=True)]


async def keep_seats(office: Office) -> None:
    """Write down the seats that changed."""
    changed = office.scheduler.reseated()
    desk = office.desk
    if changed:
        kept = {gang: seats for gang, seats in desk.seats.items() if gangs.job_of(gang) in desk.records}
        for gang, seats in changed.items():
            if _as_placed(office, gang) == seats:
                kept.pop(gang, None)
            else:
                kept[gang] = seats
        desk.seats = kept
    if desk.seats != desk.seats_saved:
        seats_now = dict(desk.seats)
        await office.settings.set_setting(SEATS, {"gangs": seats_now}, by=BY, at_ms=office.clock.now_ms())
        desk.seats_saved = seats_now


def _as_placed(office: Office, gang: str) -> tuple[str, ...] | None:
    """Return the seats that a gang was given, None if nothing of it is written down."""
    record = office.desk.records.get(gangs.job_of(gang))
    for members, spots in gangs.holding(record).items() if record is not None else ():
        if members.gang == gang:
            return tuple([spot.seat if spot is not None else "" for spot in spots])
    return None

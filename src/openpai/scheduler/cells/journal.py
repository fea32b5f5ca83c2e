"""A book of changes that can be taken back, so that a decision can be tried before anyone commits to it.

Each change is written down with its exact opposite; taking them back in reverse order leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from openpai.scheduler.cells.node_cell import Box, Holding
from openpai.scheduler.cells.unit_index import Unit
from openpai.scheduler.cells.vc_share import View


class Right(NamedTuple):
    """Out of which promised cell a part is claimed."""

    view: View
    level: int
    cell: int
    number: int


@dataclass(slots=True)
class Part:
    """The devices that one member of a gang has on one node."""

    box: Box
    mask: int
    right: Right | None = None
    """None for a squatter."""


class Journal:
    """Claims and squats for gangs, and can take back what it did."""

    __slots__ = ("_done", "_suspended")

    def __init__(self) -> None:
        self._done: list[tuple[str, str, int, Part, Right | None]] = []
        self._suspended: list[tuple[str, str, int, Part, Right | None]] = []

    @property
    def mark(self) -> int:
        """Return how much was done so far, for `undo`."""
        return len(self._done)

    def claim(self, gang: str, priority: int, unit: Unit, mask: int) -> Part:
        """Give a gang the right to devices of a unit."""
        holding = unit.holding
        part = Part(unit.box, mask, Right(holding.view, holding.level, holding.index, holding.number))
        unit.box.chain.claim(gang, priority, unit, mask)
        self._done.append(("claim", gang, priority, part, part.right))
        return part

    def squat(self, gang: str, box: Box, mask: int) -> Part:
        """Let a gang run on devices without a right."""
        part = Part(box, mask)
        box.chain.squat(gang, box, mask)
        self._done.append(("squat", gang, 0, part, None))
        return part

    def strip(self, gang: str, priority: int, part: Part) -> None:
        """Take the right to a part away: the gang runs on as a squatter."""
        right = part.right
        unclaim(gang, priority, part)
        part.right = None
        part.box.chain.squat(gang, part.box, part.mask)
        self._done.append(("strip", gang, priority, part, right))

    def endow(self, gang: str, priority: int, part: Part, right: Right) -> None:
        """The opposite of `strip`; the cell named in `right` must be held by its view, or free."""
        part.box.chain.unsquat(gang, part.box, part.mask)
        reclaim(gang, priority, part, right)
        self._done.append(("endow", gang, priority, part, right))

    def drop(self, gang: str, priority: int, part: Part) -> None:
        """Take a part away altogether."""
        right = part.right
        remove(gang, priority, part)
        part.right = None
        self._done.append(("drop", gang, priority, part, right))

    def claim_again(self, gang: str, priority: int, part: Part, right: Right) -> None:
        """Claim a part that was dropped; the cell named in `right` must be held by its view, or free."""
        reclaim(gang, priority, part, right)
        self._done.append(("claim", gang, priority, part, part.right))

    def touched(self) -> set[str]:
        """Return the gangs whose rights changed."""
        return {gang for kind, gang, _, _, _ in self._done if kind in ("strip", "endow")}

    def undo(self, mark: int = 0) -> None:
        """Take back everything done since `mark`."""
        while len(self._done) > mark:
            kind, gang, priority, part, right = self._done.pop()
            if kind == "claim" or kind == "squat":
                remove(gang, priority, part)
                part.right = None
            elif kind == "strip" and right is not None:
                part.box.chain.unsquat(gang, part.box, part.mask)
                reclaim(gang, priority, part, right)
            elif kind == "endow":
                unclaim(gang, priority, part)
                part.right = None
                part.box.chain.squat(gang, part.box, part.mask)
            elif right is None:
                part.box.chain.squat(gang, part.box, part.mask)
            else:
                reclaim(gang, priority, part, right)

    def suspend(self) -> None:
        """Take everything back for a moment: `resume` does it again."""
        self._suspended = list(self._done)
        self.undo()

    def resume(self) -> None:
        """Do again what `suspend` took back; nothing else may have changed meanwhile."""
        for kind, gang, priority, part, right in self._suspended:
            if kind == "squat":
                part.box.chain.squat(gang, part.box, part.mask)
            elif kind == "strip" or kind == "drop":
                remove(gang, priority, part)
                part.right = None
                if kind == "strip":
                    part.box.chain.squat(gang, part.box, part.mask)
            elif right is not None:
                if kind == "endow":
                    part.box.chain.unsquat(gang, part.box, part.mask)
                reclaim(gang, priority, part, right)
        self._done, self._suspended = self._suspended, []


def unit_at(box: Box, holding: Holding, mask: int) -> Unit:
    """Return the unit of a holding that lies on those devices of a box."""
    return next(unit for unit in box.units if unit.holding is holding and not mask & ~unit.mask)


def unclaim(gang: str, priority: int, part: Part) -> None:
    """Give back the right to a part."""
    right = part.right
    if right is not None:
        holding = right.view.holdings[right.level, right.cell]
        part.box.chain.unclaim(gang, priority, unit_at(part.box, holding, part.mask), part.mask)


def reclaim(gang: str, priority: int, part: Part, right: Right) -> None:
    """Claim a part out of a given cell, binding the cell if nothing holds it."""
    chain = part.box.chain
    holding = right.view.holdings.get((right.level, right.cell))
    if holding is None:
        holding = chain.bind(right.view, right.level, right.cell, right.number)
    chain.claim(gang, priority, unit_at(part.box, holding, part.mask), part.mask)
    part.right = Right(right.view, right.level, right.cell, holding.number)


def remove(gang: str, priority: int, part: Part) -> None:
    """Take a part away from a gang, whatever it was."""
    if part.right is None:
        part.box.chain.unsquat(gang, part.box, part.mask)
    else:
        unclaim(gang, priority, part)

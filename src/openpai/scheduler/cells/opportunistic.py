"""Places gangs without a guarantee on what is free anywhere, out of the way of those who have one.

They go where no virtual cluster holds anything, and the fullest such node first, so that whole cells stay empty for the
day their owners want them.
"""

from __future__ import annotations

from collections.abc import Sequence

from openpai.scheduler.cells.chain import Chain
from openpai.scheduler.cells.first_fit import FirstFit
from openpai.scheduler.cells.journal import Journal, Part
from openpai.scheduler.cells.node_cell import Box
from openpai.scheduler.cells.packing import boxes_needed, pack_exactly
from openpai.scheduler.cells.search import CLOSE_LOOKS, Within
from openpai.scheduler.cells.unit_index import leftover_keys


def free_of(box: Box) -> int:
    """Return the devices of a node that nobody uses."""
    return box.full & ~(box.claimed | box.squat | box.bad)


class LeftoverPlacement:
    """One opportunistic gang on its way onto a chain."""

    def __init__(self, gang: str, sizes: Sequence[int], journal: Journal) -> None:
        self.gang = gang
        self.sizes = sizes
        self.journal = journal
        self.order = sorted(range(len(sizes)), key=lambda member: -sizes[member])
        self.parts: dict[int, Part] = {}

    def onto(self, chain: Chain, within: Within | None = None) -> list[Part] | None:
        """Let every member run somewhere on the chain; None if there is no room."""
        if within is not None and within.mask != -1:
            return self._inside_box(chain, within)
        total = sum(self.sizes)
        placed = False
        if len(self.sizes) > 1:
            placed = total <= chain.shape.leaves and self._in_one_box(chain, within, total)
            if not placed and within is None and total > chain.shape.leaves:
                placed = self._in_one_group(chain)
        if placed or self._fill(chain, within) or self._exactly(chain, within):
            return [self.parts[member] for member in range(len(self.sizes))]
        return None

    def _inside_box(self, chain: Chain, within: Within) -> list[Part] | None:
        """Let every member run on some devices of one node."""
        box = chain.boxes[within.bits.bit_length() - 1]
        left = free_of(box) & within.mask
        if left.bit_count() < sum(self.sizes):
            return None
        for member in self.order:
            left &= ~self._squat(member, box, left)
        return [self.parts[member] for member in range(len(self.sizes))]

    def _in_one_box(self, chain: Chain, within: Within | None, total: int) -> bool:
        box = _seek(chain, total, within)
        if box is None:
            return False
        left = chain.shape.best(free_of(box), total)[0]
        for member in self.order:
            left &= ~self._squat(member, box, left)
        return True

    def _in_one_group(self, chain: Chain) -> bool:
        boxes = boxes_needed(self.sizes, chain.shape.leaves)
        for tally in chain.commons.tallies:
            cell = tally.tightest(boxes)
            if cell is not None:
                per = tally.units_per_cell
                return self._fill(chain, Within.cell(chain, per, cell))
        return False

    def _fill(self, chain: Chain, within: Within | None) -> bool:
        mark = self.journal.mark
        used: FirstFit[Box] = FirstFit(lambda box: free_of(box).bit_count())
        for member in self.order:
            number = self.sizes[member]
            box = used.first(number) or _seek(chain, number, within)
            if box is None:
                self.journal.undo(mark)
                return False
            self._squat(member, box, free_of(box))
            used.use(box)
        return True

    def _exactly(self, chain: Chain, within: Within | None) -> bool:
        if len(set(self.sizes)) == 1:
            return False  # with members of one size every order of filling is as good as any other
        boxes = [box for box in chain.boxes if within is None or within.bits >> box.index & 1]
        sizes = [self.sizes[member] for member in self.order]
        chosen = pack_exactly(sizes, [free_of(box).bit_count() for box in boxes])
        if chosen is None:
            return False
        for member, at in zip(self.order, chosen, strict=True):
            self._squat(member, boxes[at], free_of(boxes[at]))
        return True

    def _squat(self, member: int, box: Box, free: int) -> int:
        mask = box.chain.shape.best(free, self.sizes[member])[0]
        self.parts[member] = self.journal.squat(self.gang, box, mask)
        return mask


def _seek(chain: Chain, number: int, within: Within | None) -> Box | None:
    """Return the best node with `number` devices nobody uses, close together if one of the first few has them so."""
    shape = chain.shape
    if number > shape.leaves:
        return None
    keys = leftover_keys(shape.leaves).fits[number]
    best = None
    lowest = 0
    key = -1
    for unit in chain.commons.some(keys, CLOSE_LOOKS, -1 if within is None else within.bits):
        if best is not None and unit.key != key:
            break
        level = shape.best(free_of(unit.box), number)[1]
        if best is None or level < lowest:
            best, lowest, key = unit.box, level, unit.key
            if level == shape.ideal[number]:
                break
    return best

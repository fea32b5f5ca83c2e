"""The book of one chain: which cells serve whom, which devices are claimed, used or bad.

Every change here has an exact opposite, and what is derived (keys, burdens, tallies) depends only on the facts and
never on the order in which they came. So a decision can be tried and taken back without a trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openpai.scheduler.cells.free_cells import WORSE, Pool
from openpai.scheduler.cells.node_cell import Box, Holding
from openpai.scheduler.cells.subsets import NodeShape
from openpai.scheduler.cells.unit_index import Shelf, Unit, leftover_keys
from openpai.scheduler.cells.vc_share import View
from openpai.scheduler.config.model import ChainSpec

if TYPE_CHECKING:
    from openpai.scheduler.cells.journal import Right


class Chain:
    """Cells of one chain and all that is on them."""

    def __init__(self, spec: ChainSpec) -> None:
        self.spec = spec
        self.node_level = spec.node_level
        self.top = spec.top
        self.shape = NodeShape(spec.children[: spec.node_level])
        self.boxes_per = [0] * (spec.top + 1)
        """How many nodes a cell of a level has, from node level up."""
        for level in range(spec.node_level, spec.top + 1):
            self.boxes_per[level] = spec.leaves(level) // self.shape.leaves
        self.groups = tuple(self.boxes_per[spec.node_level + 1 :])
        self._bad = [[0] * spec.count(level) for level in range(spec.node_level, spec.top + 1)]
        self._squat = [[0] * spec.count(level) for level in range(spec.node_level, spec.top + 1)]
        self._common_keys = leftover_keys(self.shape.leaves)
        self.commons = Shelf(self.shape.leaves, self._common_keys.whole, self.groups)
        """All nodes, for gangs without a guarantee."""
        self.boxes: list[Box] = []
        nobody = Holding(View("", self), spec.top, 0, 0)
        for index, (name, devices) in enumerate(zip(spec.nodes, spec.devices, strict=True)):
            box = Box(self, index, name, devices, self.shape.full)
            box.common = Unit(self.commons, index, box, box.full, nobody)
            self.boxes.append(box)
        whole = self._common_keys.key(self.shape.leaves, 0, False)
        for box in self.boxes:
            self.commons.add(box.common, whole)
        self.pool = Pool(spec.children, [spec.count(level) for level in range(1, spec.top + 1)], self.burden)
        self.views: dict[str, View] = {}
        """The view of each virtual cluster that was promised cells of this chain, pinned ones apart."""
        self.squatting = 0
        """Devices in use by gangs without a right."""
        self.bad_boxes: set[int] = set()
        self.version = 0
        """Counts what changed: cells bound and given back, and hardware gone bad or mended."""
        self.doomed: tuple[Right, ...] = ()
        self.doomed_at = -1
        """At which version the doomed cells were worked out last."""

    def per_box(self, level: int) -> int:
        """Return how many cells of a level below the node one node has."""
        return self.shape.leaves // self.spec.leaves(level)

    def boxes_of(self, level: int, index: int) -> range:
        """Return the numbers of the nodes that a cell touches."""
        if level < self.node_level:
            box = index // self.per_box(level)
            return range(box, box + 1)
        per = self.boxes_per[level]
        return range(index * per, (index + 1) * per)

    def boxes_in(self, bits: int) -> list[Box]:
        """Return the nodes whose bits are set, in order."""
        found = []
        while bits:
            low = bits & -bits
            bits ^= low
            found.append(self.boxes[low.bit_length() - 1])
        return found

    def mask_in_box(self, level: int, index: int) -> int:
        """Return which devices of its node a cell of at most node level is."""
        if level == self.node_level:
            return self.shape.full
        return self.shape.cells[level - 1][index % self.per_box(level)]

    def bad_cells(self, level: int) -> int:
        """Return at most how many cells of a level have a bad device."""
        return len(self.bad_boxes) * (self.per_box(level) if level < self.node_level else 1)

    def burden(self, level: int, index: int) -> int:
        """Return how much a cell suffers from bad devices and squatters."""
        at = level - self.node_level
        if at >= 0:
            return self._bad[at][index] * WORSE + self._squat[at][index]
        box = self.boxes[index // self.per_box(level)]
        mask = self.mask_in_box(level, index)
        return (box.bad & mask).bit_count() * WORSE + (box.squat & mask).bit_count()

    def bind(self, view: View, level: int, index: int, number: int | None = None) -> Holding:
        """Let a free cell (or part of one) serve one of the view's promised cells, by number or the first unserved."""
        self.version += 1
        self.pool.take(level, index)
        self.pool.need[level - 1] -= 1
        unserved = view.unserved[level - 1]
        if number is None:
            number = (unserved & -unserved).bit_length() - 1
        view.unserved[level - 1] = unserved & ~(1 << number)
        return self.hold(Holding(view, level, index, number))

    def hold(self, holding: Holding) -> Holding:
        """Open the units of a cell to its view."""
        view, level, index = holding.view, holding.level, holding.index
        view.holdings[level, index] = holding
        if level < self.node_level:
            box = self.boxes[index // self.per_box(level)]
            box.is_split = True
            self._open(holding, view.shelf(level), index, box, self.mask_in_box(level, index))
        else:
            shelf = view.shelf(self.node_level)
            for at in self.boxes_of(level, index):
                self._open(holding, shelf, at, self.boxes[at], self.shape.full)
        return holding

    def _open(self, holding: Holding, shelf: Shelf, index: int, box: Box, mask: int) -> None:
        unit = Unit(shelf, index, box, mask, holding)
        holding.units.append(unit)
        box.units.append(unit)
        shelf.units[index] = unit
        holding.view.bad += (box.bad & mask).bit_count()
        self._refresh(box)

    def unbind(self, holding: Holding) -> None:
        """Give the cell back: the promise it served is unserved again."""
        self.version += 1
        view = holding.view
        del view.holdings[holding.level, holding.index]
        for unit in holding.units:
            unit.box.units.remove(unit)
            unit.shelf.remove(unit)
            view.bad -= (unit.box.bad & unit.mask).bit_count()
            self._refresh(unit.box)
        view.unserved[holding.level - 1] |= 1 << holding.number
        self.pool.need[holding.level - 1] += 1
        self.pool.put(holding.level, holding.index)

    def claim(self, gang: str, priority: int, unit: Unit, mask: int) -> None:
        """Give a gang the right to some devices of a unit."""
        box = unit.box
        number = mask.bit_count()
        box.claimed |= mask
        box.claims[gang] = box.claims.get(gang, 0) | mask
        holding = unit.holding
        holding.claims += number
        view = holding.view
        view.claimed += number
        view.claimed_at[priority] = view.claimed_at.get(priority, 0) + number
        self._refresh(box)

    def unclaim(self, gang: str, priority: int, unit: Unit, mask: int) -> None:
        """Take the right back; a cell without any claim is given back to the pool."""
        box = unit.box
        number = mask.bit_count()
        box.claimed &= ~mask
        _remove(box.claims, gang, mask)
        holding = unit.holding
        holding.claims -= number
        view = holding.view
        view.claimed -= number
        view.claimed_at[priority] -= number
        if not view.claimed_at[priority]:
            del view.claimed_at[priority]
        if holding.claims or holding.is_pinned:
            self._refresh(box)
        else:
            self.unbind(holding)

    def squat(self, gang: str, box: Box, mask: int) -> None:
        """Let a gang run on devices without a right to them."""
        box.squat |= mask
        box.squatters[gang] = box.squatters.get(gang, 0) | mask
        self._weigh(box, mask.bit_count())

    def unsquat(self, gang: str, box: Box, mask: int) -> None:
        """The opposite of `squat`."""
        box.squat &= ~mask
        _remove(box.squatters, gang, mask)
        self._weigh(box, -mask.bit_count())

    def _weigh(self, box: Box, difference: int) -> None:
        self.squatting += difference
        for at, counts in enumerate(self._squat):
            counts[box.index // self.boxes_per[self.node_level + at]] += difference
        self._refresh(box)
        self._refresh_pool(box)

    def _refresh_pool(self, box: Box) -> None:
        for level in range(self.node_level, self.top + 1):
            if self.pool.refresh(level, box.index // self.boxes_per[level]):
                return
        if box.is_split:
            for level in range(1, self.node_level):
                per = self.per_box(level)
                for index in range(box.index * per, (box.index + 1) * per):
                    self.pool.refresh(level, index)

    def set_bad(self, box: Box, mask: int) -> None:
        """Learn which devices of a node cannot be used."""
        self.version += 1
        change = mask.bit_count() - box.bad.bit_count()
        for unit in box.units:
            unit.holding.view.bad += (mask & unit.mask).bit_count() - (box.bad & unit.mask).bit_count()
        box.bad = mask
        for at, counts in enumerate(self._bad):
            counts[box.index // self.boxes_per[self.node_level + at]] += change
        if mask:
            self.bad_boxes.add(box.index)
        else:
            self.bad_boxes.discard(box.index)
        self._refresh(box)
        self._refresh_pool(box)

    def _refresh(self, box: Box) -> None:
        """Sort the units of a box anew."""
        gone = box.claimed | box.bad
        left = box.full & ~gone
        common = box.common
        keys = self._common_keys
        common.shelf.move(common, keys.key((left & ~box.squat).bit_count(), box.claimed.bit_count(), bool(box.units)))
        for unit in box.units:
            free = unit.mask & left
            shelf = unit.shelf
            key = guaranteed_key(unit, box, free)
            shelf.move(unit, key)


def guaranteed_key(unit: Unit, box: Box, free: int) -> int:
    """Return the key of a unit for its virtual cluster."""
    holding = unit.holding
    keys = holding.view.keys[min(holding.level, box.chain.node_level)]
    tenants = len(box.claims) if unit.mask == box.full else sum(1 for part in box.claims.values() if part & unit.mask)
    return keys.key(free.bit_count(), tenants, (free & box.squat).bit_count())


def _remove(held: dict[str, int], gang: str, mask: int) -> None:
    left = held[gang] & ~mask
    if left:
        held[gang] = left
    else:
        del held[gang]

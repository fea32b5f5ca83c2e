"""The book of one chain: which cells serve whom, which devices are claimed, used or bad.

Every change here has an exact opposite, and what is derived (keys, burdens, tallies) depends only on the facts and
never on the order in which they came. So a decision can be tried and taken back without a trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openpai.scheduler.cells.free_cells import WORSE, FreeCells
from openpai.scheduler.cells.node_cell import CellBinding, NodeCell
from openpai.scheduler.cells.subsets import NodeShape
from openpai.scheduler.cells.unit_index import Unit, UnitIndex, opportunistic_keys
from openpai.scheduler.cells.vc_share import VcShare
from openpai.scheduler.config.model import ChainSpec

if TYPE_CHECKING:
    from openpai.scheduler.cells.journal import Guarantee


class Chain:
    """Cells of one chain and all that is on them."""

    def __init__(self, spec: ChainSpec) -> None:
        self.spec = spec
        self.node_level = spec.node_level
        self.top = spec.top
        self.shape = NodeShape(spec.children[: spec.node_level])
        self.nodes_per = [0] * (spec.top + 1)
        """How many nodes a cell of a level has, from node level up."""
        for level in range(spec.node_level, spec.top + 1):
            self.nodes_per[level] = spec.leaves(level) // self.shape.leaves
        self.groups = tuple(self.nodes_per[spec.node_level + 1 :])
        self._bad = [[0] * spec.count(level) for level in range(spec.node_level, spec.top + 1)]
        self._opportunistic = [[0] * spec.count(level) for level in range(spec.node_level, spec.top + 1)]
        self._common_keys = opportunistic_keys(self.shape.leaves)
        self.commons = UnitIndex(self.shape.leaves, self._common_keys.whole, self.groups)
        """All nodes, for gangs without a guarantee."""
        self.node_cells: list[NodeCell] = []
        nobody = CellBinding(VcShare("", self), spec.top, 0, 0)
        for index, (name, devices) in enumerate(zip(spec.nodes, spec.devices, strict=True)):
            node_cell = NodeCell(self, index, name, devices, self.shape.full)
            node_cell.common = Unit(self.commons, index, node_cell, node_cell.full, nobody)
            self.node_cells.append(node_cell)
        whole = self._common_keys.key(self.shape.leaves, 0, False)
        for node_cell in self.node_cells:
            self.commons.add(node_cell.common, whole)
        self.free_cells = FreeCells(spec.children, [spec.count(level) for level in range(1, spec.top + 1)], self.burden)
        self.shares: dict[str, VcShare] = {}
        """The view of each virtual cluster that was promised cells of this chain, pinned ones apart."""
        self.opportunistic_devices = 0
        """Devices in use by gangs without a right."""
        self.bad_nodes: set[int] = set()
        self.version = 0
        """Counts what changed: cells bound and given back, and hardware gone bad or mended."""
        self.doomed: tuple[Guarantee, ...] = ()
        self.doomed_at = -1
        """At which version the doomed cells were worked out last."""

    def per_node(self, level: int) -> int:
        """Return how many cells of a level below the node one node has."""
        return self.shape.leaves // self.spec.leaves(level)

    def nodes_of(self, level: int, index: int) -> range:
        """Return the numbers of the nodes that a cell touches."""
        if level < self.node_level:
            node_cell = index // self.per_node(level)
            return range(node_cell, node_cell + 1)
        per = self.nodes_per[level]
        return range(index * per, (index + 1) * per)

    def nodes_in(self, bits: int) -> list[NodeCell]:
        """Return the nodes whose bits are set, in order."""
        found = []
        while bits:
            low = bits & -bits
            bits ^= low
            found.append(self.node_cells[low.bit_length() - 1])
        return found

    def mask_in_node(self, level: int, index: int) -> int:
        """Return which devices of its node a cell of at most node level is."""
        if level == self.node_level:
            return self.shape.full
        return self.shape.cells[level - 1][index % self.per_node(level)]

    def bad_cells(self, level: int) -> int:
        """Return at most how many cells of a level have a bad device."""
        return len(self.bad_nodes) * (self.per_node(level) if level < self.node_level else 1)

    def burden(self, level: int, index: int) -> int:
        """Return how much a cell suffers from bad devices and squatters."""
        at = level - self.node_level
        if at >= 0:
            return self._bad[at][index] * WORSE + self._opportunistic[at][index]
        node_cell = self.node_cells[index // self.per_node(level)]
        mask = self.mask_in_node(level, index)
        return (node_cell.bad & mask).bit_count() * WORSE + (node_cell.opportunistic & mask).bit_count()

    def bind(self, share: VcShare, level: int, index: int, number: int | None = None) -> CellBinding:
        """Let a free cell (or part of one) serve one of the view's promised cells, by number or the first unserved."""
        self.version += 1
        self.free_cells.take(level, index)
        self.free_cells.need[level - 1] -= 1
        unserved = share.unserved[level - 1]
        if number is None:
            number = (unserved & -unserved).bit_length() - 1
        share.unserved[level - 1] = unserved & ~(1 << number)
        return self.hold(CellBinding(share, level, index, number))

    def hold(self, binding: CellBinding) -> CellBinding:
        """Open the units of a cell to its view."""
        share, level, index = binding.share, binding.level, binding.index
        share.bindings[level, index] = binding
        if level < self.node_level:
            node_cell = self.node_cells[index // self.per_node(level)]
            node_cell.is_split = True
            self._open(binding, share.unit_index(level), index, node_cell, self.mask_in_node(level, index))
        else:
            unit_index = share.unit_index(self.node_level)
            for at in self.nodes_of(level, index):
                self._open(binding, unit_index, at, self.node_cells[at], self.shape.full)
        return binding

    def _open(self, binding: CellBinding, unit_index: UnitIndex, index: int, node_cell: NodeCell, mask: int) -> None:
        unit = Unit(unit_index, index, node_cell, mask, binding)
        binding.units.append(unit)
        node_cell.units.append(unit)
        unit_index.units[index] = unit
        binding.share.bad += (node_cell.bad & mask).bit_count()
        self._refresh(node_cell)

    def unbind(self, binding: CellBinding) -> None:
        """Give the cell back: the promise it served is unserved again."""
        self.version += 1
        share = binding.share
        del share.bindings[binding.level, binding.index]
        for unit in binding.units:
            unit.node_cell.units.remove(unit)
            unit.unit_index.remove(unit)
            share.bad -= (unit.node_cell.bad & unit.mask).bit_count()
            self._refresh(unit.node_cell)
        share.unserved[binding.level - 1] |= 1 << binding.number
        self.free_cells.need[binding.level - 1] += 1
        self.free_cells.put(binding.level, binding.index)

    def claim(self, gang: str, priority: int, unit: Unit, mask: int) -> None:
        """Give a gang the right to some devices of a unit."""
        node_cell = unit.node_cell
        number = mask.bit_count()
        node_cell.claimed |= mask
        node_cell.claims[gang] = node_cell.claims.get(gang, 0) | mask
        binding = unit.binding
        binding.claims += number
        share = binding.share
        share.claimed += number
        share.claimed_at[priority] = share.claimed_at.get(priority, 0) + number
        self._refresh(node_cell)

    def unclaim(self, gang: str, priority: int, unit: Unit, mask: int) -> None:
        """Take the right back; a cell without any claim is given back to the pool."""
        node_cell = unit.node_cell
        number = mask.bit_count()
        node_cell.claimed &= ~mask
        _remove(node_cell.claims, gang, mask)
        binding = unit.binding
        binding.claims -= number
        share = binding.share
        share.claimed -= number
        share.claimed_at[priority] -= number
        if not share.claimed_at[priority]:
            del share.claimed_at[priority]
        if binding.claims or binding.is_pinned:
            self._refresh(node_cell)
        else:
            self.unbind(binding)

    def run_opportunistic(self, gang: str, node_cell: NodeCell, mask: int) -> None:
        """Let a gang run on devices without a right to them."""
        node_cell.opportunistic |= mask
        node_cell.opportunistic_gangs[gang] = node_cell.opportunistic_gangs.get(gang, 0) | mask
        self._weigh(node_cell, mask.bit_count())

    def end_opportunistic(self, gang: str, node_cell: NodeCell, mask: int) -> None:
        """The opposite of `squat`."""
        node_cell.opportunistic &= ~mask
        _remove(node_cell.opportunistic_gangs, gang, mask)
        self._weigh(node_cell, -mask.bit_count())

    def _weigh(self, node_cell: NodeCell, difference: int) -> None:
        self.opportunistic_devices += difference
        for at, counts in enumerate(self._opportunistic):
            counts[node_cell.index // self.nodes_per[self.node_level + at]] += difference
        self._refresh(node_cell)
        self._refresh_pool(node_cell)

    def _refresh_pool(self, node_cell: NodeCell) -> None:
        for level in range(self.node_level, self.top + 1):
            if self.free_cells.refresh(level, node_cell.index // self.nodes_per[level]):
                return
        if node_cell.is_split:
            for level in range(1, self.node_level):
                per = self.per_node(level)
                for index in range(node_cell.index * per, (node_cell.index + 1) * per):
                    self.free_cells.refresh(level, index)

    def set_bad(self, node_cell: NodeCell, mask: int) -> None:
        """Learn which devices of a node cannot be used."""
        self.version += 1
        change = mask.bit_count() - node_cell.bad.bit_count()
        for unit in node_cell.units:
            unit.binding.share.bad += (mask & unit.mask).bit_count() - (node_cell.bad & unit.mask).bit_count()
        node_cell.bad = mask
        for at, counts in enumerate(self._bad):
            counts[node_cell.index // self.nodes_per[self.node_level + at]] += change
        if mask:
            self.bad_nodes.add(node_cell.index)
        else:
            self.bad_nodes.discard(node_cell.index)
        self._refresh(node_cell)
        self._refresh_pool(node_cell)

    def _refresh(self, node_cell: NodeCell) -> None:
        """Sort the units of a box anew."""
        gone = node_cell.claimed | node_cell.bad
        left = node_cell.full & ~gone
        common = node_cell.common
        keys = self._common_keys
        common.unit_index.move(
            common,
            keys.key(
                (left & ~node_cell.opportunistic).bit_count(), node_cell.claimed.bit_count(), bool(node_cell.units)
            ),
        )
        for unit in node_cell.units:
            free = unit.mask & left
            unit_index = unit.unit_index
            key = guaranteed_key(unit, node_cell, free)
            unit_index.move(unit, key)


def guaranteed_key(unit: Unit, node_cell: NodeCell, free: int) -> int:
    """Return the key of a unit for its virtual cluster."""
    binding = unit.binding
    keys = binding.share.keys[min(binding.level, node_cell.chain.node_level)]
    tenants = (
        len(node_cell.claims)
        if unit.mask == node_cell.full
        else sum(1 for part in node_cell.claims.values() if part & unit.mask)
    )
    return keys.key(free.bit_count(), tenants, (free & node_cell.opportunistic).bit_count())


def _remove(held: dict[str, int], gang: str, mask: int) -> None:
    left = held[gang] & ~mask
    if left:
        held[gang] = left
    else:
        del held[gang]

"""Places opportunistic gangs on idle devices anywhere, out of the way of gangs with a guarantee.

They go to nodes that no virtual cluster uses, the fullest first, so that whole cells stay empty for the virtual
clusters that were promised them.
"""

from __future__ import annotations

from collections.abc import Sequence

from openpai.scheduler.cells.chain import Chain, NodeCell
from openpai.scheduler.cells.journal import Journal, Part
from openpai.scheduler.cells.node_search import UNITS_COMPARED_MAX, Within
from openpai.scheduler.cells.packing import FirstFit, nodes_needed, pack_exactly
from openpai.scheduler.cells.unit_index import opportunistic_keys


def free_of(node_cell: NodeCell) -> int:
    """Return the idle devices of a node."""
    return node_cell.full & ~(node_cell.claimed | node_cell.opportunistic | node_cell.bad)


class OpportunisticPlacement:
    """The placement of one opportunistic gang."""

    def __init__(self, gang: str, sizes: Sequence[int], journal: Journal) -> None:
        self.gang = gang
        self.sizes = sizes
        self.journal = journal
        self.order = sorted(range(len(sizes)), key=lambda member: -sizes[member])
        self.parts: dict[int, Part] = {}

    def onto(self, chain: Chain, within: Within | None = None) -> list[Part] | None:
        """Place every member somewhere on the chain; None if there is no room."""
        if within is not None and within.mask != -1:
            return self._inside_node(chain, within)
        total = sum(self.sizes)
        placed = False
        if len(self.sizes) > 1:
            placed = total <= chain.shape.leaves and self._in_one_node(chain, within, total)
            if not placed and within is None and total > chain.shape.leaves:
                placed = self._in_one_group(chain)
        if placed or self._fill(chain, within) or self._exactly(chain, within):
            return [self.parts[member] for member in range(len(self.sizes))]
        return None

    def _inside_node(self, chain: Chain, within: Within) -> list[Part] | None:
        """Place every member on some devices of one node."""
        node_cell = chain.node_cells[within.bits.bit_length() - 1]
        left = free_of(node_cell) & within.mask
        if left.bit_count() < sum(self.sizes):
            return None
        for member in self.order:
            left &= ~self._run(member, node_cell, left)
        return [self.parts[member] for member in range(len(self.sizes))]

    def _in_one_node(self, chain: Chain, within: Within | None, total: int) -> bool:
        node_cell = _find_node(chain, total, within)
        if node_cell is None:
            return False
        left = chain.shape.best(free_of(node_cell), total)[0]
        for member in self.order:
            left &= ~self._run(member, node_cell, left)
        return True

    def _in_one_group(self, chain: Chain) -> bool:
        node_cells = nodes_needed(self.sizes, chain.shape.leaves)
        for tally in chain.opportunistic_index.tallies:
            cell = tally.tightest(node_cells)
            if cell is not None:
                per = tally.units_per_cell
                return self._fill(chain, Within.cell(chain, per, cell))
        return False

    def _fill(self, chain: Chain, within: Within | None) -> bool:
        mark = self.journal.mark
        used: FirstFit[NodeCell] = FirstFit(lambda node_cell: free_of(node_cell).bit_count())
        for member in self.order:
            number = self.sizes[member]
            node_cell = used.first(number) or _find_node(chain, number, within)
            if node_cell is None:
                self.journal.undo(mark)
                return False
            self._run(member, node_cell, free_of(node_cell))
            used.use(node_cell)
        return True

    def _exactly(self, chain: Chain, within: Within | None) -> bool:
        if len(set(self.sizes)) == 1:
            return False  # members of one size fit in any order or in none
        node_cells = [
            node_cell for node_cell in chain.node_cells if within is None or within.bits >> node_cell.index & 1
        ]
        sizes = [self.sizes[member] for member in self.order]
        chosen = pack_exactly(sizes, [free_of(node_cell).bit_count() for node_cell in node_cells])
        if chosen is None:
            return False
        for member, at in zip(self.order, chosen, strict=True):
            self._run(member, node_cells[at], free_of(node_cells[at]))
        return True

    def _run(self, member: int, node_cell: NodeCell, free: int) -> int:
        mask = node_cell.chain.shape.best(free, self.sizes[member])[0]
        self.parts[member] = self.journal.run_opportunistic(self.gang, node_cell, mask)
        return mask


def _find_node(chain: Chain, number: int, within: Within | None) -> NodeCell | None:
    """Return the best node with `number` idle devices, of the first few the one where they are closest together."""
    shape = chain.shape
    if number > shape.leaves:
        return None
    keys = opportunistic_keys(shape.leaves).fits[number]
    best = None
    lowest = 0
    key = -1
    for unit in chain.opportunistic_index.some(keys, UNITS_COMPARED_MAX, -1 if within is None else within.bits):
        if best is not None and unit.key != key:
            break
        level = shape.best(free_of(unit.node_cell), number)[1]
        if best is None or level < lowest:
            best, lowest, key = unit.node_cell, level, unit.key
            if level == shape.ideal[number]:
                break
    return best

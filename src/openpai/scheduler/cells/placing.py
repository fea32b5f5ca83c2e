"""Places whole gangs: all members or none, close together, on as few nodes and in as few racks as there is room.

Several ways are tried, the tightest first; a failed one is undone without a trace. The last one is exact: on small
clusters it finds a placement whenever there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import Unit, VcShare
from openpai.scheduler.cells.exact_search import Solver
from openpai.scheduler.cells.journal import Journal, Part
from openpai.scheduler.cells.node_search import (
    Price,
    Within,
    bind_clean_unit,
    cheapest_mask,
    clean_of,
    find_costly_unit,
    find_open_unit,
    room_of,
)
from openpai.scheduler.cells.packing import FirstFit, nodes_needed, pack_exactly


class Placement:
    """The placement of one gang into a share."""

    def __init__(self, gang: str, priority: int, sizes: Sequence[int], journal: Journal, price: Price) -> None:
        self.gang = gang
        self.priority = priority
        self.sizes = sizes
        self.journal = journal
        self.price = price
        self.order = sorted(range(len(sizes)), key=lambda member: -sizes[member]) if len(sizes) > 1 else [0]
        self.parts: dict[int, Part] = {}
        self._units: list[Unit] = []
        self._used: FirstFit[Unit] | None = None
        """The units in use, for a gang of several members."""
        if len(sizes) > 1:
            self._used = FirstFit(lambda unit: clean_of(unit).bit_count())

    def without_loss(self, share: VcShare, within: Within | None = None) -> list[Part] | None:
        """Claim devices for every member without preempting any gang; None if that is impossible."""
        if (self._is_quick(within) and self._without_loss(share, within)) or self._solved(
            share, within, may_cost=False
        ):
            return self._finished()
        return None

    def at_a_cost(self, share: VcShare, within: Within | None = None) -> list[Part] | None:
        """Claim devices for every member, some in use by opportunistic gangs; None if there is no room."""
        if self._is_quick(within) and self._fill(share, within, self.order, True):
            return self._finished()
        has_constraints = within is not None or share.chain.bad_nodes
        if self._solved(share, within, may_cost=True) if has_constraints else self._exactly(share):
            return self._finished()
        return None

    def undo(self) -> None:
        """Undo the placement."""
        self._undo((0, 0))

    def _finished(self) -> list[Part]:
        return [self.parts[member] for member in range(len(self.sizes))]

    def _is_quick(self, within: Within | None) -> bool:
        """Return whether the quick ways may be tried: they work with whole nodes only."""
        return within is None or within.mask == -1

    def _solved(self, share: VcShare, within: Within | None, *, may_cost: bool) -> bool:
        """Try combinations of cells, where it matters which ones serve the gang."""
        chain = share.chain
        if within is None and not chain.bad_nodes:
            return False  # every promise can be served, and all cells are equally good
        if may_cost and not chain.opportunistic_devices:
            return False  # there is no gang to preempt
        solver = Solver(share, within, [self.sizes[member] for member in self.order], may_cost=may_cost)
        units = solver.solve()
        if units is None:
            return False
        for member, unit in zip(self.order, units, strict=True):
            self._claim(member, unit, cheapest_mask(unit, self.sizes[member], self.price, solver.room(unit)))
        return True

    def _without_loss(self, share: VcShare, within: Within | None) -> bool:
        if len(self.sizes) == 1:
            return self._fill(share, within, self.order, False)
        total = sum(self.sizes)
        if total <= share.chain.shape.leaves and self._in_one_unit(share, within, total):
            return True
        if share.chain.groups and within is None and self._in_one_group(share):
            return True
        return self._fill(share, within, self.order, False)

    def _in_one_unit(self, share: VcShare, within: Within | None, total: int) -> bool:
        unit = find_open_unit(share, total, within) or bind_clean_unit(share, total, within)
        if unit is None:
            return False
        shape = share.chain.shape
        left = shape.best(clean_of(unit), total)[0]
        for member in self.order:
            mask = shape.best(left, self.sizes[member])[0]
            left &= ~mask
            self._claim(member, unit, mask)
        return True

    def _in_one_group(self, share: VcShare) -> bool:
        chain = share.chain
        node_cells = nodes_needed(self.sizes, chain.shape.leaves)
        unit_index = share.unit_indexes.get(chain.node_level)
        if node_cells < 2 or unit_index is None:
            return False
        for tally in unit_index.tallies:
            if tally.units_per_cell < node_cells:
                continue
            cell = tally.tightest(node_cells)
            if cell is not None and self._fill(
                share, Within.cell(chain, tally.units_per_cell, cell), self.order, False
            ):
                return True
            if self._in_fresh_group(share, node_cells, tally.units_per_cell):
                return True
        return self._in_few_groups(share, node_cells)

    def _in_fresh_group(self, share: VcShare, node_cells: int, per: int) -> bool:
        """Bind promised nodes of one larger cell, or a whole promised cell of that size."""
        chain = share.chain
        node = chain.node_level
        if per == chain.groups[0] and share.unserved[node - 1].bit_count() >= node_cells:
            cell = chain.free_cells.parts[node - 1].tightest(node_cells)
            if cell is not None and self._fill(share, Within.cell(chain, per, cell), self.order, False):
                return True
        for level in range(node + 1, chain.top + 1):
            if chain.nodes_per[level] >= per and share.unserved[level - 1]:
                for offer in chain.free_cells.offers(level):
                    if not offer.bad and not offer.opportunistic:
                        first = chain.nodes_of(level, offer.cell).start // per
                        if self._fill(share, Within.cell(chain, per, first), self.order, False):
                            return True
                        break
        if share.unserved[node - 1].bit_count() >= node_cells:
            for level in range(node + 1, chain.top + 1):
                whole = chain.free_cells.first_whole(level) if chain.nodes_per[level] >= per else None
                if whole is not None:
                    first = chain.nodes_of(level, whole).start // per
                    return self._fill(share, Within.cell(chain, per, first), self.order, False)
        return False

    def _in_few_groups(self, share: VcShare, node_cells: int) -> bool:
        """Fill one larger cell after the other, those with the most whole nodes first."""
        chain = share.chain
        tally = share.unit_indexes[chain.node_level].tallies[0]
        waiting = list(self.order)
        mark = self._mark()
        while waiting and node_cells > 0:
            cell = tally.tightest(node_cells)
            if cell is None:
                richest = tally.richest()
                if richest is None:
                    break
                cell = richest[0]
            before = len(waiting)
            waiting = self._fill_some(share, Within.cell(chain, tally.units_per_cell, cell), waiting)
            if len(waiting) == before:
                break
            node_cells = nodes_needed([self.sizes[member] for member in waiting], chain.shape.leaves)
        if self._fill(share, None, waiting, False):
            return True
        self._undo(mark)
        return False

    def _fill_some(self, share: VcShare, within: Within, members: list[int]) -> list[int]:
        left = []
        for member in members:
            unit = self._touched(self.sizes[member], within) or find_open_unit(share, self.sizes[member], within)
            if unit is None:
                left.append(member)
            else:
                self._claim(member, unit, unit.node_cell.chain.shape.best(clean_of(unit), self.sizes[member])[0])
        return left

    def _fill(self, share: VcShare, within: Within | None, members: Sequence[int], may_cost: bool) -> bool:
        """Claim devices for the members one by one, or leave no trace."""
        mark = self._mark()
        rest = sum(self.sizes[member] for member in members) if len(members) > 1 else 0
        for member in members:
            number = self.sizes[member]
            unit = (
                self._touched(number, within)
                or find_open_unit(share, number, within)
                or bind_clean_unit(share, number, within, rest)
            )
            rest -= number
            if unit is not None:
                self._claim(member, unit, share.chain.shape.best(clean_of(unit), number)[0])
                continue
            unit = find_costly_unit(share, number, within, self.price) if may_cost else None
            if unit is None:
                self._undo(mark)
                return False
            self._claim(member, unit, cheapest_mask(unit, number, self.price))
        return True

    def _touched(self, number: int, within: Within | None) -> Unit | None:
        """Return a unit that this gang already uses and that has room for another member."""
        if not self._units or self._used is None:
            return None
        return self._used.first(
            number, None if within is None else lambda unit: within.bits >> unit.node_cell.index & 1 > 0
        )

    def _exactly(self, share: VcShare) -> bool:
        if len(set(self.sizes)) == 1:
            return False  # members of one size fit in any order or in none
        bins: list[tuple[int, Unit | int]] = []
        for unit_index in share.unit_indexes.values():
            bins += [(room_of(unit).bit_count(), unit) for _, unit in sorted(unit_index.units.items())]
        node = share.chain.node_level
        for at, unserved in enumerate(share.unserved):
            for _ in range(unserved.bit_count()):
                inside = 1 if at + 1 <= node else share.chain.nodes_per[at + 1]
                bins += [(share.chain.spec.leaves(min(at + 1, node)), at + 1)] * inside
        chosen = pack_exactly([self.sizes[member] for member in self.order], [capacity for capacity, _ in bins])
        if chosen is None:
            return False
        mark = self._mark()
        if self._follow(share, [bins[at] for at in chosen], chosen):
            return True
        self._undo(mark)
        return False

    def _follow(self, share: VcShare, bins: Sequence[tuple[int, Unit | int]], chosen: Sequence[int]) -> bool:
        end_threat: dict[int, list[Unit]] = {}
        opened: dict[int, Unit] = {}
        for member, (_, bin_), at in zip(self.order, bins, chosen, strict=True):
            number = self.sizes[member]
            unit = opened.get(at) or (bin_ if isinstance(bin_, Unit) else self._open(share, bin_, end_threat))
            if unit is None:
                return False
            opened[at] = unit
            if room_of(unit).bit_count() < number:
                if not unit.binding.claims:
                    mutations.unbind(unit.binding)
                return False
            self._claim(member, unit, cheapest_mask(unit, number, self.price))
        return True

    def _open(self, share: VcShare, level: int, end_threat: dict[int, list[Unit]]) -> Unit | None:
        """Return a unit of an unserved promised cell of a level; bind another such cell when all units are used."""
        left = end_threat.setdefault(level, [])
        if not left:
            offer = next(share.chain.free_cells.offers(level), None)
            if offer is None or not share.unserved[level - 1]:
                return None
            left += mutations.bind(share, level, offer.cell).units
        return left.pop(0)

    def _claim(self, member: int, unit: Unit, mask: int) -> None:
        self.parts[member] = self.journal.claim(self.gang, self.priority, unit, mask)
        self._units.append(unit)
        if self._used is not None:
            self._used.use(unit)

    def _mark(self) -> tuple[int, int]:
        return self.journal.mark, len(self._units)

    def _undo(self, mark: tuple[int, int]) -> None:
        self.journal.undo(mark[0])
        del self._units[mark[1] :]
        if self._used is not None:
            self._used.restart(self._units)

"""Places gangs of which some members must run closer together than others: groups inside cells, and nested groups.

The largest group goes first. For each group the cells that could hold it are tried one after the other, and inside a
cell its nested groups and members; a failed attempt is undone without a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from openpai.scheduler.cells.chain import Chain, VcShare
from openpai.scheduler.cells.constraints import cells_within, idle_cells_within
from openpai.scheduler.cells.group_fitting import place_exactly, place_on_idle_exactly
from openpai.scheduler.cells.journal import Journal, Part
from openpai.scheduler.cells.model import CellGroup, GangRequest
from openpai.scheduler.cells.node_search import Price, Within
from openpai.scheduler.cells.opportunistic import OpportunisticPlacement
from openpai.scheduler.cells.placing import Placement

EXACT_UP_TO: Final = 40
"""With more groups than this at one level, each takes the first cell that has room for it."""
TRIES_MAX: Final = 2_000
"""How many placements of members are tried at most."""

Cells = Callable[[int, int, Within | None], Iterator[Within]]
"""Yields the cells of a level, inside a set of nodes, that may have room for a number of devices."""
Put = Callable[[Sequence[int], Within | None], Sequence[Part] | None]
"""Places members inside a set of nodes; None, without a trace, if there is no room."""
PlaceAll = Callable[[Within | None], list[Part] | None]
"""Places the whole gang inside a set of nodes by trying everything, or leaves no trace."""


class Grouped:
    """The placement of one gang with groups onto a chain."""

    def __init__(
        self, request: GangRequest, chain: Chain, journal: Journal, cells: Cells, put: Put, place_all: PlaceAll
    ) -> None:
        self._sizes = request.sizes()
        self._request = request
        self._chain = chain
        self._journal = journal
        self._cells = cells
        self._put = put
        self._place_all = place_all
        self._parts: dict[int, Part] = {}
        self._tries = TRIES_MAX

    def place(self, within: Within | None) -> list[Part] | None:
        """Place every member, each group inside one cell; None, without a trace, if there is no way."""
        groups = self._request.groups
        if not all(group.fits_types(self._chain.spec.types) for group in groups):
            return None
        named = {member for group in groups for member in group.all_members()}
        loose = [member for member in range(len(self._sizes)) if member not in named]
        mark = self._journal.mark
        if self._inside(groups, loose, within, lambda: True):
            return [self._parts[member] for member in range(len(self._sizes))]
        self._journal.undo(mark)
        return self._place_all(within)

    def _inside(
        self, groups: Sequence[CellGroup], members: Sequence[int], within: Within | None, rest: Callable[[], bool]
    ) -> bool:
        """Place groups and members inside some nodes, and then the rest of the gang."""
        order = sorted(groups, key=self._weight)
        if len(order) > EXACT_UP_TO:
            return self._one_by_one(order, within) and self._put_here(members, within, rest)

        def go(at: int) -> bool:
            if at == len(order):
                return self._put_here(members, within, rest)
            group = order[at]
            mark = self._journal.mark
            for inner in self._cells_for(group, within):
                if self._tries <= 0:
                    return False
                if self._inside(group.groups, group.members, inner, lambda: go(at + 1)):
                    return True
                self._journal.undo(mark)
            return False

        return go(0)

    def _one_by_one(self, order: Sequence[CellGroup], within: Within | None) -> bool:
        """Place each group in the first cell that has room for it, without backtracking."""
        cells: Iterator[Within] = iter(())
        inner: Within | None = None
        last: CellGroup | None = None
        for group in order:
            if last is None or self._kind(group) != self._kind(last):
                cells = self._cells_for(group, within)
                inner = next(cells, None)
            # Equivalent groups fill one cell before they use the next one.
            if not self._in(group, inner):
                inner = next((cell for cell in cells if self._in(group, cell)), None)
            if inner is None:
                # Cells that were bound meanwhile are tried, too.
                cells = self._cells_for(group, within)
                inner = next((cell for cell in cells if self._in(group, cell)), None)
            if inner is None:
                return False
            last = group
        return True

    def _in(self, group: CellGroup, inner: Within | None) -> bool:
        """Place a group inside a cell, or leave no trace."""
        mark = self._journal.mark
        if inner is not None and self._inside(group.groups, group.members, inner, lambda: True):
            return True
        self._journal.undo(mark)
        return False

    def _kind(self, group: CellGroup) -> tuple[object, ...]:
        """Return what two groups must have in common to be equivalent."""
        sizes = tuple([self._sizes[member] for member in group.members])
        return group.cell_type, sizes, tuple([self._kind(inner) for inner in group.groups])

    def _put_here(self, members: Sequence[int], within: Within | None, rest: Callable[[], bool]) -> bool:
        if not members:
            return rest()
        self._tries -= 1
        parts = self._put(members, within)
        if parts is None:
            return False
        self._parts.update(zip(members, parts, strict=True))
        return rest()

    def _cells_for(self, group: CellGroup, within: Within | None) -> Iterator[Within]:
        need = sum(self._sizes[member] for member in group.all_members())
        return self._cells(self._chain.spec.types.index(group.cell_type) + 1, need, within)

    def _weight(self, group: CellGroup) -> tuple[int, int]:
        """Return the sort key of a group: the largest first, and of those the one with the smallest cell."""
        devices = sum(self._sizes[member] for member in group.all_members())
        return -devices, self._chain.spec.types.index(group.cell_type)


def in_share(request: GangRequest, share: VcShare, journal: Journal, price: Price, *, may_cost: bool) -> Grouped:
    """Return the placement of a gang with a guarantee."""
    sizes = request.sizes()

    def put(members: Sequence[int], within: Within | None) -> Sequence[Part] | None:
        own = [sizes[member] for member in members]
        placement = Placement(request.id, request.priority, own, journal, price)
        parts = placement.without_loss(share, within)
        return placement.at_a_cost(share, within) if parts is None and may_cost else parts

    def cells(level: int, need: int, within: Within | None) -> Iterator[Within]:
        return cells_within(share, level, need, within)

    def place_all(within: Within | None) -> list[Part] | None:
        placed = place_exactly(request, share, within, journal, price, may_cost=False)
        return (
            place_exactly(request, share, within, journal, price, may_cost=True) if not placed and may_cost else placed
        )

    return Grouped(request, share.chain, journal, cells, put, place_all)


def on_idle_devices(request: GangRequest, chain: Chain, journal: Journal) -> Grouped:
    """Return the placement of an opportunistic gang."""
    sizes = request.sizes()

    def put(members: Sequence[int], within: Within | None) -> Sequence[Part] | None:
        return OpportunisticPlacement(request.id, [sizes[member] for member in members], journal).onto(chain, within)

    def cells(level: int, need: int, within: Within | None) -> Iterator[Within]:
        return idle_cells_within(chain, level, need, within)

    def place_all(within: Within | None) -> list[Part] | None:
        return place_on_idle_exactly(request, chain, within, journal)

    return Grouped(request, chain, journal, cells, put, place_all)

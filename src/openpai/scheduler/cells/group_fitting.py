"""Fits a gang with groups into given devices by trying everything, where filling one cell after the other did not work.

A member needs devices of one node, inside the cell of its group. Such places are cells of one tree, so whether members
can share a node is a matter of counting: no place may contain more members' devices than it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from openpai.scheduler.cells.chain import Chain, Unit, VcShare
from openpai.scheduler.cells.exact_search import Profile, Solver
from openpai.scheduler.cells.journal import Journal, Part
from openpai.scheduler.cells.model import CellGroup, GangRequest
from openpai.scheduler.cells.node_search import Price, Within, cheapest_mask
from openpai.scheduler.cells.opportunistic import free_of

EFFORT_MAX: Final = 20_000
"""The number of comparisons of a member with an area."""
MEMBERS_MAX: Final = 40
"""Gangs with more members are not tried."""
FEW_CELLS: Final = 64
"""Up to this number of cells of a level are all tried, not only one of each group of equivalent cells."""


class Area(NamedTuple):
    """Devices of one node that members may have."""

    node: int
    mask: int


class MemberDevices(NamedTuple):
    """Where a member goes: into an area, onto some of these devices."""

    area: int
    mask: int


class GroupFit:
    """The attempts to fit one gang."""

    def __init__(self, chain: Chain, request: GangRequest) -> None:
        self.effort = EFFORT_MAX
        self._chain = chain
        self._sizes = request.sizes()
        self._groups = request.groups
        named = {member for group in self._groups for member in group.all_members()}
        self._loose = [member for member in range(len(self._sizes)) if member not in named]
        self._needs: dict[int, int] = {}
        """How many devices each group needs."""
        self._areas: Sequence[Area] = ()
        self._taken: list[list[tuple[int, int]]] = []
        """By area, the places in it that are given away, and how many devices of each."""
        self._places: dict[int, MemberDevices] = {}

    def fit(self, areas: Sequence[Area]) -> dict[int, MemberDevices] | None:
        """Return a place for each member, None if there is no way to fit all."""
        self._areas = areas
        self._taken = [[] for _ in areas]
        everything = range(self._chain.spec.count(self._chain.top) * self._chain.spec.leaves(self._chain.top))
        return self._places if self._inside(self._groups, self._loose, everything, lambda: True) else None

    def _inside(
        self, groups: Sequence[CellGroup], members: Sequence[int], cell: range, rest: Callable[[], bool]
    ) -> bool:
        """Place groups and members inside a cell, and then what is left of the gang."""
        order = sorted(groups, key=self._need, reverse=True) if len(groups) > 1 else groups
        loose = sorted(members, key=lambda member: -self._sizes[member])
        masks = [self._cut(area, cell) for area in self._areas] if loose else []

        def go(at: int) -> bool:
            if at == len(order):
                return self._put(loose, masks, 0, rest)
            group = order[at]
            for inner in self._cells(group, cell):
                if self._inside(group.groups, group.members, inner, lambda: go(at + 1)):
                    return True
            return False

        return go(0)

    def _need(self, group: CellGroup) -> int:
        need = self._needs.get(id(group))
        if need is None:
            need = self._needs[id(group)] = sum(self._sizes[member] for member in group.all_members())
        return need

    def _cells(self, group: CellGroup, around: range) -> Iterator[range]:
        """Yield the cells that may have room for a group, the tightest first, as ranges of devices of the chain."""
        size = self._chain.spec.leaves(self._chain.spec.types.index(group.cell_type) + 1)
        need = self._need(group)
        if size >= len(around):
            yield around
            return
        rooms: dict[int, int] = {}
        leaves = self._chain.shape.leaves
        full = (1 << size) - 1
        self.effort -= len(self._areas)
        for node, mask in self._areas:
            base = node * leaves
            if size >= leaves and around.start <= base < around.stop:
                start = base - base % size
                rooms[start] = rooms.get(start, 0) + mask.bit_count()
                continue
            for start in range(max(base, around.start), min(base + leaves, around.stop), size):
                rooms[start] = rooms.get(start, 0) + (mask >> (start - base) & full).bit_count()
        for _, start in sorted([(room, start) for start, room in rooms.items() if room >= need]):
            if self.effort > 0:
                yield range(start, start + size)

    def _cut(self, area: Area, cell: range) -> int:
        """Return the devices of an area inside a cell."""
        leaves = self._chain.shape.leaves
        base = area.node * leaves
        low, high = max(cell.start - base, 0), min(cell.stop - base, leaves)
        return area.mask & ((1 << high) - 1) >> low << low if low < high else 0

    def _put(self, members: Sequence[int], masks: Sequence[int], first: int, rest: Callable[[], bool]) -> bool:
        """Place members inside a cell, areas from `first` on, and then what is left of the gang.

        `masks` are the devices of each area inside the cell.
        """
        if not members:
            return rest()
        member, *others = members
        size = self._sizes[member]
        is_alike = bool(others) and self._sizes[others[0]] == size
        for at in range(first, len(masks)):
            self.effort -= 1
            if self.effort <= 0:
                return False
            mask = masks[at]
            if mask.bit_count() < size or not self._has_room(at, mask, size):
                continue
            self._taken[at].append((mask, size))
            self._places[member] = MemberDevices(at, mask)
            if self._put(others, masks, at if is_alike else 0, rest):
                return True
            self._taken[at].pop()
        return False

    def _has_room(self, at: int, mask: int, size: int) -> bool:
        """Return whether one more member may have some of these devices beside those placed in an area already."""
        if not self._taken[at]:
            return True
        taken = [*self._taken[at], (mask, size)]
        for outer in {outer for outer, _ in taken if not mask & ~outer}:
            if sum([number for inner, number in taken if not inner & ~outer]) > outer.bit_count():
                return False
        return True


class GroupSolver(Solver):
    """One attempt to find devices for a gang with groups out of what a virtual cluster has or could get."""

    def __init__(self, share: VcShare, within: Within | None, request: GangRequest, *, may_cost: bool) -> None:
        super().__init__(share, within, sorted(request.sizes(), reverse=True), may_cost=may_cost)
        self._request = request
        self._fit = GroupFit(share.chain, request)
        self._places: dict[int, MemberDevices] = {}

    def place(self, journal: Journal, price: Price) -> list[Part] | None:
        """Claim devices for every member; None, without a trace, if no way was found."""
        units = self.solve()
        if units is None:
            return None
        sizes, parts = self._request.sizes(), {}
        # The smallest places first: what is left of a larger one is enough for those that may be anywhere in it.
        for member, place in sorted(self._places.items(), key=lambda item: item[1].mask.bit_count()):
            unit = units[member]
            mask = cheapest_mask(unit, sizes[member], price, place.mask & self.room(unit))
            parts[member] = journal.claim(self._request.id, self._request.priority, unit, mask)
        return [parts[member] for member in range(len(sizes))]

    def _pack(self, *, is_last: bool) -> list[Unit] | None:
        """Return a unit for each member out of those there are."""
        if self._capacity < sum(self._sizes) or self._fit.effort <= 0:
            return None
        units = sorted(self._units, key=lambda unit: self.room(unit).bit_count())
        self._fit.effort -= len(units)
        places = self._fit.fit([Area(unit.node_cell.index, self.room(unit)) for unit in units])
        if places is None:
            if self._fit.effort <= 0:
                self._steps = 0
            return None
        self._places = places
        return [units[places[member].area] for member in range(len(self._sizes))]

    def _profile(self, level: int, index: int) -> Profile:
        """Return what sets a cell apart from others of its level."""
        # Two cells that are alike inside may lie in larger ones that are not.
        return (level, index) if self._chain.spec.count(level) <= FEW_CELLS else super()._profile(level, index)


def place_exactly(
    request: GangRequest, share: VcShare, within: Within | None, journal: Journal, price: Price, *, may_cost: bool
) -> list[Part] | None:
    """Place a gang with a guarantee; None, without a trace, if no way was found."""
    is_useless = may_cost and not share.chain.opportunistic_devices  # there is no gang to preempt
    if is_useless or len(request.sizes()) > MEMBERS_MAX or not _is_possible(request, share, within):
        return None
    return GroupSolver(share, within, request, may_cost=may_cost).place(journal, price)


def _is_possible(request: GangRequest, share: VcShare, within: Within | None) -> bool:
    """Return whether there would be a way if each node could serve its virtual cluster with all that others leave."""
    chain = share.chain
    areas = []
    may_open = any(share.unserved)
    for node_cell in chain.node_cells if within is None else chain.nodes_in(within.bits):
        mask = node_cell.full if may_open else 0
        for unit in node_cell.units:
            mask = mask | unit.mask if unit.binding.share is share else mask & ~unit.mask
        mask &= ~(node_cell.claimed | node_cell.bad) & (-1 if within is None else within.mask)
        if mask:
            areas.append(Area(node_cell.index, mask))
    fit = GroupFit(chain, request)
    fit.effort = max(EFFORT_MAX, len(areas) * MEMBERS_MAX)
    return fit.fit(areas) is not None or fit.effort <= 0


def place_on_idle_exactly(
    request: GangRequest, chain: Chain, within: Within | None, journal: Journal
) -> list[Part] | None:
    """Place a gang without a guarantee; None, without a trace, if no way was found."""
    sizes = request.sizes()
    if len(sizes) > MEMBERS_MAX:
        return None
    usable = -1 if within is None else within.mask
    nodes = chain.node_cells if within is None else chain.nodes_in(within.bits)
    areas = [Area(node_cell.index, free_of(node_cell) & usable) for node_cell in nodes]
    areas = sorted([area for area in areas if area.mask], key=lambda area: area.mask.bit_count())
    places = GroupFit(chain, request).fit(areas)
    if places is None:
        return None
    parts = {}
    for member, place in sorted(places.items(), key=lambda item: item[1].mask.bit_count()):
        node_cell = chain.node_cells[areas[place.area].node]
        mask = chain.shape.best(place.mask & free_of(node_cell), sizes[member])[0]
        parts[member] = journal.run_opportunistic(request.id, node_cell, mask)
    return [parts[member] for member in range(len(sizes))]

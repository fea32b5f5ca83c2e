"""Finds room where it matters which cells serve a gang: inside one larger cell, on named nodes, beside bad hardware.

The quick ways of `placing` bind one promised cell after the other and may choose the wrong one. This tries combinations
of promised cells and of the free cells that could serve them, the roomiest first. Equivalent cells are tried once, so
the answer is exact on small clusters; on large ones the number of tries is limited.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import CellBinding, Unit, VcShare
from openpai.scheduler.cells.node_search import Within
from openpai.scheduler.cells.packing import pack_exactly

STEPS_MAX: Final = 2_000
"""How many cells are bound for trial at most."""
EXACT_UP_TO: Final = 200
"""With more free cells than this the roomiest are taken, without backtracking."""
ALIKE_MAX: Final = 16
"""How many different cells of a level are tried as alternatives."""

Profile = tuple[object, ...]
"""What two cells must have in common to be equivalent."""


class _Candidate(NamedTuple):
    """A free cell, or a part of one, that could serve a promise."""

    loss: tuple[int, int, int]
    """Less is better: room it lacks, level of the free cell it is split from, devices in opportunistic use."""
    cell: int


class Solver:
    """One search for units for members of given sizes, largest first."""

    def __init__(self, share: VcShare, within: Within | None, sizes: Sequence[int], *, may_cost: bool) -> None:
        self._share = share
        self._chain = share.chain
        self._within = within
        self._sizes = sizes
        self._may_cost = may_cost
        self._is_even = len(set(sizes)) == 1
        self._steps = STEPS_MAX
        self._opened: list[CellBinding] = []
        self._units: list[Unit] = []
        self._rooms: list[int] = []
        self._capacity = 0
        """How many devices of all units members of these sizes can use."""

    def solve(self) -> list[Unit] | None:
        """Return a unit for each member; the cells they need are bound. None, without a trace, if there is no way."""
        self._add(self._own_units())
        levels = [level for level in range(self._chain.top, 0, -1) if self._share.unserved[level - 1]]
        found = self._pack(is_last=not levels)
        if found is None and levels and self._is_large(levels[-1]):
            found = self._open_roomiest(levels)
        elif found is None and levels:
            found = self._open(levels, self._share.unserved[levels[0] - 1].bit_count())
        used = {id(unit.binding) for unit in found or ()}
        for binding in reversed(self._opened):
            if id(binding) not in used:
                mutations.unbind(binding)
        return found

    def room(self, unit: Unit) -> int:
        """Return the devices of a unit that members may use."""
        return self._usable(unit.node_cell.index, unit.mask)

    def _usable(self, at: int, mask: int) -> int:
        node_cell = self._chain.node_cells[at]
        left = mask & ~(node_cell.claimed | node_cell.bad)
        if not self._may_cost:
            left &= ~node_cell.opportunistic
        if self._within is not None:
            left &= self._within.mask if self._within.bits >> at & 1 else 0
        return left

    def _own_units(self) -> list[Unit]:
        within, share = self._within, self._share
        if within is None or within.bits.bit_count() > len(share.bindings):
            return [unit for unit_index in share.unit_indexes.values() for _, unit in sorted(unit_index.units.items())]
        node_cells = [node_cell for node_cell in self._chain.nodes_in(within.bits) if node_cell.units]
        found = [unit for node_cell in node_cells for unit in node_cell.units if unit.binding.share is share]
        return sorted(found, key=lambda unit: (unit.mask.bit_count(), unit.index))

    def _is_large(self, level: int) -> bool:
        """Return whether too many free cells could be used for all combinations to be tried."""
        chain, count = self._chain, 0
        for cover in range(level, chain.top + 1):
            usable = -1 if self._within is None else self._within.cells(cover)
            count += len(chain.free_cells.kinds(cover, usable))
        return count > EXACT_UP_TO

    def _open_roomiest(self, levels: list[int]) -> list[Unit] | None:
        """Bind the roomiest free cells, the largest first, until there is room for all members."""
        free_cells = self._chain.free_cells
        for level in levels:
            number = self._share.unserved[level - 1].bit_count()
            for candidate in self._candidates(level, number):
                if self._steps <= 0:
                    return None
                cover = free_cells.cover(level, candidate.cell)
                if not cover or not free_cells.is_safe(level, cover):
                    continue
                binding = mutations.bind(self._share, level, candidate.cell)
                self._opened.append(binding)
                self._add(binding.units)
                found = self._pack(is_last=False)
                if found is not None:
                    return found
                number -= 1
                if not number:
                    break
        return self._pack(is_last=True)

    def _add(self, units: Iterable[Unit]) -> None:
        for unit in units:
            room = self.room(unit).bit_count()
            if self._worth(room):
                self._units.append(unit)
                self._rooms.append(room)
                self._capacity += self._worth(room)

    def _remove(self, mark: int) -> None:
        self._capacity -= sum(self._worth(room) for room in self._rooms[mark:])
        del self._units[mark:], self._rooms[mark:]

    def _worth(self, room: int) -> int:
        """Return how many of a unit's `room` devices members can use."""
        least = self._sizes[-1]
        return room - room % least if self._is_even else room if room >= least else 0

    def _open(self, levels: list[int], number: int) -> list[Unit] | None:
        """Bind up to `number` cells of the first level, then cells of the other levels."""
        level = levels[0]
        if number:
            for candidate in self._candidates(level):
                if self._steps <= 0:
                    return None
                self._steps -= 1
                binding = mutations.bind(self._share, level, candidate.cell)
                self._opened.append(binding)
                mark = len(self._units)
                self._add(binding.units)
                found = self._pack(is_last=False) or self._open(levels, number - 1)
                if found is not None:
                    return found
                self._remove(mark)
                self._opened.pop()
                mutations.unbind(binding)
        if len(levels) > 1:
            below = levels[1:]
            return self._open(below, self._share.unserved[below[0] - 1].bit_count())
        return self._pack(is_last=True)

    def _candidates(self, level: int, number: int = 0) -> list[_Candidate]:
        """Return free cells of a level that could serve a promise, the best first.

        One of each kind; or, where `number` is given, that many cells without regard to kind.
        """
        free_cells = self._chain.free_cells
        wholes: set[Profile] = set()
        kinds: set[Profile] = set()
        found: list[_Candidate] = []
        perfect = 0
        for cover in range(level, self._chain.top + 1):
            if not free_cells.free[cover - 1] or not free_cells.is_safe(level, cover):
                continue
            for whole in free_cells.cells(cover, -1 if self._within is None else self._within.cells(cover)):
                if number and perfect >= number:
                    break
                around = () if number else self._profile(cover, whole)
                if around in wholes:
                    continue
                if not number:
                    wholes.add(around)
                for index in self._inside(level, cover, whole):
                    kind = () if number else (cover, around, self._profile(level, index))
                    if kind not in kinds:
                        candidate = self._weighed(level, cover, index)
                        found.append(candidate)
                        perfect += candidate.loss[0] == 0
                        if not number:
                            kinds.add(kind)
        found = [candidate for candidate in found if candidate.loss[0] < self._chain.spec.leaves(level)]
        return sorted(found)[: None if number else ALIKE_MAX]

    def _inside(self, level: int, cover: int, whole: int) -> range:
        each = self._chain.spec.leaves(cover) // self._chain.spec.leaves(level)
        return range(whole * each, (whole + 1) * each)

    def _weighed(self, level: int, cover: int, index: int) -> _Candidate:
        room = opportunistic = 0
        for at, mask in self._pieces(level, index):
            room += self._worth(self._usable(at, mask).bit_count())
            opportunistic += (self._chain.node_cells[at].opportunistic & mask).bit_count()
        return _Candidate((self._chain.spec.leaves(level) - room, cover, opportunistic), index)

    def _pieces(self, level: int, index: int) -> Iterator[tuple[int, int]]:
        chain = self._chain
        mask = chain.mask_in_node(level, index) if level < chain.node_level else chain.shape.full
        return ((at, mask) for at in chain.nodes_of(level, index))

    def _profile(self, level: int, index: int) -> Profile:
        """Return what distinguishes a cell from others of its level."""
        chain = self._chain
        if level <= chain.node_level:
            at = chain.nodes_of(level, index).start
            mask = chain.mask_in_node(level, index)
            shift = (mask & -mask).bit_length() - 1
            return level, self._usable(at, mask) >> shift, (chain.node_cells[at].opportunistic & mask) >> shift
        if not chain.burden(level, index) and self._covers(level, index):
            return (level,)
        each = chain.spec.children[level - 1]
        inside = (self._profile(level - 1, child) for child in range(index * each, (index + 1) * each))
        return level, *sorted(inside, key=str)

    def _covers(self, level: int, index: int) -> bool:
        """Return whether all nodes of a cell may be used."""
        if self._within is None:
            return True
        node_cells = self._chain.nodes_of(level, index)
        bits = ((1 << len(node_cells)) - 1) << node_cells.start
        return self._within.mask == -1 and not bits & ~self._within.bits

    def _pack(self, *, is_last: bool) -> list[Unit] | None:
        """Return a unit for each member from the units bound so far."""
        if self._capacity < sum(self._sizes):
            return None
        chosen = self._pack_tightly()
        if chosen is None and is_last and not self._is_even:
            chosen = pack_exactly(self._sizes, self._rooms)
        return None if chosen is None else [self._units[at] for at in chosen]

    def _pack_tightly(self) -> list[int] | None:
        """Return for each member the fullest unit with room for it; None if that leaves a member without one."""
        left = sorted((room, at) for at, room in enumerate(self._rooms))
        chosen: list[int] = []
        for size in self._sizes:
            place = bisect_left(left, (size, -1))
            if place == len(left):
                return None
            room, at = left.pop(place)
            chosen.append(at)
            insort(left, (room - size, at))
        return chosen

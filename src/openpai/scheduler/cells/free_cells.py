"""The cells of a chain that are bound to no virtual cluster, kept whole where possible (buddy allocation).

A free cell is taken as it is or split from a larger one; when all parts of a cell are free again, they are merged.
Every virtual cluster's unused promise must stay obtainable: a split that would break one is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from openpai.scheduler.cells.unit_index import Tally
from openpai.scheduler.config.levels import level_short

BAD_WEIGHT: Final = 1 << 20
"""One bad device outweighs any number of devices in use."""


class Offer(NamedTuple):
    """A cell that may be taken."""

    level: int
    cell: int
    bad: int
    opportunistic: int


class FreeCells:
    """Free cells by level. A cell's burden is BAD_WEIGHT for each bad device, plus its devices in opportunistic use."""

    def __init__(self, children: tuple[int, ...], counts: list[int], burden: Callable[[int, int], int]) -> None:
        self.children = children
        self.top = len(children)
        self.need = [0] * self.top
        """Promised cells that no cell serves yet, by level from 1."""
        self.free = [0] * self.top
        """Free cells, by level from 1."""
        self._counts = counts
        self._burden = burden
        self._where: list[dict[int, int]] = [{} for _ in children]
        self._by_burden: list[dict[int, int]] = [{} for _ in children]
        self.parts = [Tally(number) for number in (*children[1:], 1)]
        """How many free cells of a level each cell of the level above has, by level from 1."""
        for index in range(counts[-1]):
            self._insert(self.top, index)

    def _insert(self, level: int, index: int) -> None:
        burden = self._burden(level, index)
        at = level - 1
        self._where[at][index] = burden
        by_burden = self._by_burden[at]
        by_burden[burden] = by_burden.get(burden, 0) | 1 << index
        self.free[at] += 1
        if level < self.top:
            parent = index // self.children[level]
            self.parts[at].change(parent, 1)

    def _delete(self, level: int, index: int) -> None:
        at = level - 1
        burden = self._where[at].pop(index)
        self._drop(at, index, burden)
        self.free[at] -= 1
        if level < self.top:
            parent = index // self.children[level]
            self.parts[at].change(parent, -1)

    def _drop(self, at: int, index: int, burden: int) -> None:
        by_burden = self._by_burden[at]
        left = by_burden[burden] ^ 1 << index
        if left:
            by_burden[burden] = left
        else:
            del by_burden[burden]

    def refresh(self, level: int, index: int) -> bool:
        """Update the burden of a cell; return whether it is free as a whole."""
        at = level - 1
        old = self._where[at].get(index)
        if old is None:
            return False
        burden = self._burden(level, index)
        if burden != old:
            self._drop(at, index, old)
            self._where[at][index] = burden
            by_burden = self._by_burden[at]
            by_burden[burden] = by_burden.get(burden, 0) | 1 << index
        return True

    def cover(self, level: int, index: int) -> int:
        """Return the level of the free cell that is or contains this cell, 0 if there is none."""
        while level <= self.top:
            if index in self._where[level - 1]:
                return level
            if level < self.top:
                index //= self.children[level]
            level += 1
        return 0

    def take(self, level: int, index: int) -> None:
        """Take a cell that is free or part of a free one, splitting as needed."""
        cover = self.cover(level, index)
        path = [index]
        for at in range(level, cover):
            path.append(path[-1] // self.children[at])
        self._delete(cover, path[-1])
        for at in range(cover - 1, level - 1, -1):
            self._cut(at, path[at - level + 1], path[at - level])

    def _cut(self, level: int, parent: int, keep: int) -> None:
        """Free all cells of `level` inside `parent` but one."""
        number = self.children[level]
        inside = range(parent * number, (parent + 1) * number)
        if self._burden(level + 1, parent):
            for child in inside:
                if child != keep:
                    self._insert(level, child)
            return
        # No device in it is bad or in use, so all parts have burden 0 and are inserted in one step.
        at = level - 1
        self._where[at].update(dict.fromkeys(inside, 0))
        del self._where[at][keep]
        by_burden = self._by_burden[at]
        bits = (((1 << number) - 1) << inside.start) & ~(1 << keep)
        if bits:
            by_burden[0] = by_burden.get(0, 0) | bits
            self.free[at] += number - 1
            self.parts[at].change(parent, number - 1)

    def put(self, level: int, index: int) -> None:
        """Return a cell and merge it with its neighbours where possible."""
        self._insert(level, index)
        while level < self.top:
            number = self.children[level]
            parent = index // number
            if self.parts[level - 1].counts[parent] < number:
                return
            self._join(level, parent)
            level += 1
            index = parent
            self._insert(level, index)

    def _join(self, level: int, parent: int) -> None:
        """Remove all cells of `level` inside `parent`, which are free."""
        number = self.children[level]
        inside = range(parent * number, (parent + 1) * number)
        if self._burden(level + 1, parent):
            for child in inside:
                self._delete(level, child)
            return
        at = level - 1
        where = self._where[at]
        for child in inside:
            del where[child]
        left = self._by_burden[at][0] & ~(((1 << number) - 1) << inside.start)
        if left:
            self._by_burden[at][0] = left
        else:
            del self._by_burden[at][0]
        self.free[at] -= number
        self.parts[at].change(parent, -number)

    def is_safe(self, level: int, cover: int) -> bool:
        """Return whether serving a promise of `level` from a free cell of `cover` leaves all others servable."""
        free = list(self.free)
        need = list(self.need)
        need[level - 1] -= 1
        free[cover - 1] -= 1
        for at in range(cover - 1, level - 1, -1):
            free[at - 1] += self.children[at] - 1
        return not level_short(free, need, self.children)

    def offers(self, level: int, within: Callable[[int], int] | None = None) -> Iterator[Offer]:
        """Yield the best cell of `level` from each level of free cells, the smallest first.

        `within` returns, as bits, the cells of a level that may be used, wholly or in part.
        """
        is_first = True
        for cover in range(level, self.top + 1):
            if not self.free[cover - 1]:
                continue
            if is_first or self.is_safe(level, cover):
                offer = self._best(level, cover, within)
                if offer is not None:
                    yield offer
            is_first = False

    def several(self, level: int, limit: int, within: Callable[[int], int] | None = None) -> list[int]:
        """Return up to `limit` cells of `level` to choose from, out of each level of free cells that may be used."""
        cells: list[int] = []
        usable = -1 if within is None else within(level)
        is_first = True
        for cover in range(level, self.top + 1):
            if not self.free[cover - 1]:
                continue
            if is_first or self.is_safe(level, cover):
                for _, bits in sorted(self._by_burden[cover - 1].items()):
                    while bits and len(cells) < limit:
                        low = bits & -bits
                        bits ^= low
                        inside = self._inside(level, cover, low.bit_length() - 1)
                        cells += [cell for cell in inside if usable >> cell & 1][: limit - len(cells)]
            is_first = False
        return cells

    def _inside(self, level: int, cover: int, index: int) -> range:
        number = 1
        for at in range(level, cover):
            number *= self.children[at]
        return range(index * number, (index + 1) * number)

    def first_whole(self, level: int) -> int | None:
        """Return the first free cell of `level` where nothing is bad or in use; None if there is none."""
        bits = self._by_burden[level - 1].get(0, 0)
        return (bits & -bits).bit_length() - 1 if bits else None

    def _best(self, level: int, cover: int, within: Callable[[int], int] | None) -> Offer | None:
        by_burden = self._by_burden[cover - 1]
        if within is None:
            bits = by_burden[min(by_burden)]
        else:
            usable = within(cover)
            bits = next((some for _, cells in sorted(by_burden.items()) if (some := cells & usable)), 0)
            if not bits:
                return None
        index = (bits & -bits).bit_length() - 1
        for at in range(cover - 1, level - 1, -1):
            number = self.children[at]
            parts: Iterable[int] = range(index * number, (index + 1) * number)
            if within is not None:
                usable = within(at)
                parts = [part for part in parts if usable >> part & 1]
            index = min(parts, key=lambda part: self._burden(at, part))
        bad, opportunistic = divmod(self._burden(level, index), BAD_WEIGHT)
        return Offer(level, index, bad, opportunistic)

    def cells(self, level: int, usable: int) -> list[int]:
        """Return the free cells of a level among those whose bits are given, in order."""
        bits = 0
        for some in self._by_burden[level - 1].values():
            bits |= some
        return _places(bits & usable)

    def kinds(self, level: int, usable: int) -> list[int]:
        """Return like `cells`, but only the first cell in which nothing is bad or in use: the others are equivalent."""
        bits = 0
        for burden, some in self._by_burden[level - 1].items():
            found = some & usable
            bits |= found if burden else found & -found
        return _places(bits)

    def obtainable(self, level: int) -> int:
        """Return how many cells of a level could be taken if nothing else were."""
        total = 0
        for at in range(self.top, level - 1, -1):
            total = total * (self.children[at] if at < self.top else 1) + self.free[at - 1]
        return total


def _places(bits: int) -> list[int]:
    """Return the numbers of the bits that are set, in order."""
    places = []
    while bits:
        low = bits & -bits
        bits ^= low
        places.append(low.bit_length() - 1)
    return places

"""Keeps units sorted by how full they are, so that a decision costs the same in a cluster of any size.

An index holds units (nodes, or parts of nodes). The key of a unit encodes how full it is, and keys are numbered in the
order in which they are tried. One integer has a bit for each key that has units, and one integer per key has a bit for
each of its units: the best unit for a request is found with three operations on integers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar

TENANTS_SEEN: Final = 8
"""Units with more gangs than this count as having this many."""
FINE_UP_TO: Final = 16
"""Larger units are sorted more coarsely, so that keys stay few."""


class Indexed(Protocol):
    """An item of an index: its number, the bit of that number, its place, and its current key (-1 for none)."""

    index: int
    place: int
    """Its number among all units of the chain, by which larger cells contain units."""
    bit: int
    key: int


U = TypeVar("U", bound=Indexed)


class Tally:
    """The number of whole units in each larger cell, with the cells sorted by that number."""

    __slots__ = ("by_count", "counts", "members", "present", "units_per_cell")

    def __init__(self, units_per_cell: int) -> None:
        self.units_per_cell = units_per_cell
        self.counts: dict[int, int] = {}
        self.by_count: dict[int, int] = {}
        self.members: dict[int, int] = {}
        """By cell, its units in the index, as bits of their numbers."""
        self.present = 0
        """Bit n is set when some cell has n whole units."""

    def change(self, cell: int, difference: int) -> None:
        """Add `difference` to the number of whole units in `cell`."""
        before = self.counts.get(cell, 0)
        after = before + difference
        bit = 1 << cell
        by_count = self.by_count
        if before:
            left = by_count[before] ^ bit
            if left:
                by_count[before] = left
            else:
                del by_count[before]
                self.present &= ~(1 << before)
        if after:
            self.counts[cell] = after
            by_count[after] = by_count.get(after, 0) | bit
            self.present |= 1 << after
        else:
            del self.counts[cell]

    def tightest(self, number: int) -> int | None:
        """Return the first cell with the fewest whole units, but at least `number`; None if there is none."""
        enough = self.present >> number
        if not enough:
            return None
        bits = self.by_count[number + (enough & -enough).bit_length() - 1]
        return (bits & -bits).bit_length() - 1

    def richest(self) -> tuple[int, int] | None:
        """Return the cell with the most whole units, and their number; None if none has any."""
        if not self.present:
            return None
        most = self.present.bit_length() - 1
        bits = self.by_count[most]
        return (bits & -bits).bit_length() - 1, most


class UnitIndex(Generic[U]):
    """Units of one size, by key."""

    __slots__ = ("by_key", "present", "size", "tallies", "units", "whole")

    def __init__(self, size: int, whole: int, groups: tuple[int, ...]) -> None:
        """Make an empty index for units of `size` devices.

        `whole` has a bit for each key of an unused unit; `groups` is how many units each larger cell holds.
        """
        self.size = size
        self.whole = whole
        self.units: dict[int, U] = {}
        self.by_key: dict[int, int] = {}
        self.present = 0
        self.tallies = tuple(Tally(number) for number in groups)

    def add(self, unit: U, key: int) -> None:
        """Add a unit."""
        self.units[unit.index] = unit
        for tally in self.tallies:
            cell = unit.place // tally.units_per_cell
            tally.members[cell] = tally.members.get(cell, 0) | unit.bit
        self.move(unit, key)

    def remove(self, unit: U) -> None:
        """Remove a unit."""
        self.move(unit, -1)
        del self.units[unit.index]
        for tally in self.tallies:
            tally.members[unit.place // tally.units_per_cell] ^= unit.bit

    def move(self, unit: U, key: int) -> None:
        """Change a unit's key; -1 means none."""
        old = unit.key
        if old == key:
            return
        unit.key = key
        bit = unit.bit
        by_key = self.by_key
        change = 0
        if old >= 0:
            left = by_key[old] ^ bit
            if left:
                by_key[old] = left
            else:
                del by_key[old]
                self.present ^= 1 << old
            change -= self.whole >> old & 1
        if key >= 0:
            if key in by_key:
                by_key[key] |= bit
            else:
                by_key[key] = bit
                self.present |= 1 << key
            change += self.whole >> key & 1
        if change:
            for tally in self.tallies:
                tally.change(unit.place // tally.units_per_cell, change)

    def first(self, keys: int) -> U | None:
        """Return the first unit of the first of `keys` that has one."""
        found = self.present & keys
        if not found:
            return None
        bits = self.by_key[(found & -found).bit_length() - 1]
        return self.units[(bits & -bits).bit_length() - 1]

    def some(self, keys: int, limit: int, within: int = -1) -> Iterator[U]:
        """Yield at most `limit` units in the order of `keys`; `within` has a bit for each unit that may be used."""
        found = self.present & keys
        while found:
            low = found & -found
            found ^= low
            bits = self.by_key[low.bit_length() - 1] & within
            while bits:
                if not limit:
                    return
                limit -= 1
                one = bits & -bits
                yield self.units[one.bit_length() - 1]
                bits ^= one


class Masks(dict[int, int]):
    """Sets of keys by number of devices, computed on first use."""

    def __init__(self, make: Callable[[int], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, number: int) -> int:
        mask = self[number] = self._make(number)
        return mask


class GuaranteedKeys:
    """Numbers the states of a unit in the order a virtual cluster tries its units.

    Those that should be empty last come first, so that whole units stay whole and others become whole: those with the
    fewest free devices less gangs. Where one more device taken leaves no more free devices than gangs, units count
    alike. Among equals the fullest comes first, then the one with most gangs, then the one with fewest devices used by
    jobs without a guarantee.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.tenants = TENANTS_SEEN if size <= FINE_UP_TO else 0
        states = [
            (max(1, free - tenants), free, -tenants)
            for free in range(size + 1)
            for tenants in range(min(self.tenants, size - free) + 1)
        ]
        self._free = [free for _, free, _ in sorted(states)]
        self._row = size + 1
        self._first = {(free, -tenants): at * self._row for at, (_, free, tenants) in enumerate(sorted(states))}
        self.fits = Masks(lambda number: self._mask(range(number, size + 1)))
        """The keys of units that have a number of devices without preempting a gang."""
        self.could_fit = Masks(lambda number: self._mask(range(size + 1), number))
        """The keys of units that have a number of devices, some of which opportunistic gangs may use."""
        self.whole = self.fits[size]

    def key(self, free: int, tenants: int, dirty: int) -> int:
        """Return the key of a unit with `free` devices for its virtual cluster, `dirty` of them borrowed."""
        return self._first[free, min(tenants, self.tenants)] + dirty

    def free_of(self, key: int) -> int:
        """Return how many devices a unit with that key has for its virtual cluster."""
        return self._free[key // self._row]

    def lacking(self, number: int, missing: int) -> int:
        """Return the keys of units with room for `number` when opportunistic gangs leave `missing` of them."""
        return self._mask((number - missing,), number)

    def _mask(self, clean: Container[int], free_least: int = 0) -> int:
        """Return the keys of units with so many idle devices, and so many at least that are free for gangs."""
        mask = 0
        for free, first in zip(self._free, range(0, len(self._free) * self._row, self._row), strict=True):
            for dirty in range(free + 1):
                if free >= free_least and free - dirty in clean:
                    mask |= 1 << (first + dirty)
        return mask


class OpportunisticKeys:
    """Numbers the states of a node in the order opportunistic gangs try nodes.

    Nodes that no virtual cluster uses come first, the fullest of them first, then nodes that one uses.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._plane = size + 1
        self.fits = Masks(self._mask)
        self.whole = 1 << self.key(size, 0, False)

    def key(self, free: int, claimed: int, is_held: bool) -> int:
        """Return the key of a node with `free` idle devices and `claimed` guaranteed ones."""
        if is_held:
            return (self._plane + free) * self._plane + claimed
        return free * self._plane

    def _mask(self, number: int) -> int:
        mask = 0
        for free in range(number, self.size + 1):
            mask |= 1 << self.key(free, 0, False)
            for claimed in range(self.size + 1 - free):
                mask |= 1 << self.key(free, claimed, True)
        return mask


@lru_cache(maxsize=64)
def guaranteed_keys(size: int) -> GuaranteedKeys:
    """Return the numbering for units of `size` devices."""
    return GuaranteedKeys(size)


@lru_cache(maxsize=64)
def opportunistic_keys(size: int) -> OpportunisticKeys:
    """Return the numbering for nodes of `size` devices."""
    return OpportunisticKeys(size)

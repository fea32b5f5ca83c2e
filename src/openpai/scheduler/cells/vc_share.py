"""What one virtual cluster has of one chain: its promise, the part of it that is served, and where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openpai.scheduler.cells.unit_index import GuaranteedKeys, UnitIndex, guaranteed_keys

if TYPE_CHECKING:
    from openpai.scheduler.cells.chain import Chain
    from openpai.scheduler.cells.node_cell import CellBinding, NodeCell


class VcShare:
    """A virtual cluster's cells of one chain, or one pinned cell of it."""

    __slots__ = (
        "bad",
        "bindings",
        "chain",
        "claimed",
        "claimed_at",
        "keys",
        "name",
        "pin",
        "promised",
        "size",
        "unit_indexes",
        "unserved",
    )  # fmt: skip

    def __init__(self, name: str, chain: Chain, pin: str | None = None) -> None:
        self.name = name
        self.chain = chain
        self.pin = pin
        self.promised = [0] * chain.spec.top
        self.unserved = [0] * chain.spec.top
        """Numbers of the promised cells nothing serves yet, as bits, by level from 1."""
        self.bindings: dict[tuple[int, int], CellBinding] = {}
        self.unit_indexes: dict[int, UnitIndex] = {}
        """By level of the units: parts of nodes first, whole nodes last."""
        self.keys: dict[int, GuaranteedKeys] = {}
        self.size = 0
        """Devices promised."""
        self.claimed = 0
        self.claimed_at: dict[int, int] = {}
        """Devices claimed, by priority."""
        self.bad = 0
        """Bad devices in the cells that serve it."""

    @property
    def label(self) -> str:
        """Return how people know it."""
        return self.name if self.pin is None else f"{self.name} (pinned cell {self.pin})"

    def promise(self, level: int, number: int) -> None:
        """Promise more cells of a level."""
        at = level - 1
        self.promised[at] += number
        self.unserved[at] = (1 << self.promised[at]) - 1
        self.size += number * self.chain.spec.leaves(level)
        self.unit_index(min(level, self.chain.node_level))

    def unit_index(self, level: int) -> UnitIndex:
        """Return the shelf for units of that level, making it if need be."""
        unit_index = self.unit_indexes.get(level)
        if unit_index is None:
            chain = self.chain
            size = chain.spec.leaves(level)
            keys = self.keys[level] = guaranteed_keys(size)
            groups = chain.groups if level == chain.node_level else ()
            unit_index = UnitIndex(size, keys.whole, groups)
            self.unit_indexes[level] = unit_index
            self.unit_indexes = dict(sorted(self.unit_indexes.items()))
        return unit_index

    def claimed_below(self, priority: int) -> int:
        """Return how many devices are claimed at lower priorities."""
        return sum(number for at, number in self.claimed_at.items() if at < priority)

    def has_room(self, count: int, number: int) -> bool:
        """Return whether `count` members of `number` devices could have room, leaving aside who sits there now."""
        chain = self.chain
        node = chain.node_level
        for at, unserved in enumerate(self.unserved):
            if unserved:
                inside = chain.nodes_per[at + 1] if at + 1 > node else 1
                count -= unserved.bit_count() * inside * (chain.spec.leaves(min(at + 1, node)) // number)
        for level, unit_index in self.unit_indexes.items():
            keys = self.keys[level]
            found = unit_index.present >> keys.first_of(number)
            while found and count > 0:
                low = found & -found
                found ^= low
                key = low.bit_length() - 1 + keys.first_of(number)
                count -= unit_index.by_key[key].bit_count() * (keys.free_of(key) // number)
        return count <= 0

    def binding_of(self, node_cell: NodeCell, mask: int) -> CellBinding | None:
        """Return what of this view lies on those devices of a box, if it covers them all."""
        for unit in node_cell.units:
            if not mask & ~unit.mask and unit.binding.share is self:
                return unit.binding
        return None

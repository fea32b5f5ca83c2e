"""The records of one chain: its nodes, the shares of virtual clusters, and which cell serves which promise.

Only `mutations` modifies them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from openpai.scheduler.cells.free_cells import BAD_WEIGHT, FreeCells
from openpai.scheduler.cells.layout import ChainLayout
from openpai.scheduler.cells.unit_index import GuaranteedKeys, UnitIndex, guaranteed_keys, opportunistic_keys
from openpai.scheduler.config.model import ChainSpec


class Chain(ChainLayout):
    """The cells of one chain and everything that is bound to them or runs on them."""

    def __init__(self, spec: ChainSpec) -> None:
        super().__init__(spec)
        levels = range(spec.node_level, spec.top + 1)
        self.bad_counts = [[0] * spec.count(level) for level in levels]
        """Bad devices of each cell, by level from node level up."""
        self.opportunistic_counts = [[0] * spec.count(level) for level in levels]
        self.opportunistic_keys = opportunistic_keys(self.shape.leaves)
        self._opportunistic_index: UnitIndex[Unit] = UnitIndex(
            self.shape.leaves, self.opportunistic_keys.whole, self.groups
        )
        self.stale: list[NodeCell] = []
        """Nodes that changed since the index for gangs without a guarantee was last used."""
        self.node_cells: list[NodeCell] = []
        unbound = CellBinding(VcShare("", self), spec.top, 0, 0)
        whole = self.opportunistic_keys.key(self.shape.leaves, 0, False)
        for index, (name, devices) in enumerate(zip(spec.nodes, spec.devices, strict=True)):
            node_cell = NodeCell(self, index, name, devices, self.shape.full)
            node_cell.opportunistic_unit = Unit(self._opportunistic_index, index, node_cell, node_cell.full, unbound)
            self.node_cells.append(node_cell)
            self._opportunistic_index.add(node_cell.opportunistic_unit, whole)
        self.free_cells = FreeCells(spec.children, [spec.count(level) for level in range(1, spec.top + 1)], self.burden)
        self.shares: dict[str, VcShare] = {}
        """The share of each virtual cluster that was promised cells of this chain, except pinned cells."""
        self.opportunistic_devices = 0
        """Devices used by gangs without a guarantee."""
        self.bad_nodes: set[int] = set()
        self.version = 0
        """Incremented when a cell is bound or unbound, and when the health of hardware changes."""
        self.doomed: tuple[Guarantee, ...] = ()
        self.doomed_at = -1
        """The version for which `doomed` was computed."""

    @property
    def opportunistic_index(self) -> UnitIndex[Unit]:
        """Return the index of all nodes for gangs without a guarantee, brought up to date now."""
        if self.stale:
            for node_cell in self.stale:
                node_cell.is_stale = False
                idle = node_cell.full & ~(node_cell.claimed | node_cell.bad | node_cell.opportunistic)
                key = self.opportunistic_keys.key(
                    idle.bit_count(), node_cell.claimed.bit_count(), bool(node_cell.units)
                )
                self._opportunistic_index.move(node_cell.opportunistic_unit, key)
            self.stale.clear()
        return self._opportunistic_index

    def nodes_in(self, bits: int) -> list[NodeCell]:
        """Return the nodes whose bits are set, in order."""
        found = []
        while bits:
            low = bits & -bits
            bits ^= low
            found.append(self.node_cells[low.bit_length() - 1])
        return found

    def bad_cells(self, level: int) -> int:
        """Return an upper bound on how many cells of a level have a bad device."""
        return len(self.bad_nodes) * (self.per_node(level) if level < self.node_level else 1)

    def burden(self, level: int, index: int) -> int:
        """Return a cell's bad devices times WORSE plus its devices in opportunistic use."""
        at = level - self.node_level
        if at >= 0:
            return self.bad_counts[at][index] * BAD_WEIGHT + self.opportunistic_counts[at][index]
        node_cell = self.node_cells[index // self.per_node(level)]
        mask = self.mask_in_node(level, index)
        return (node_cell.bad & mask).bit_count() * BAD_WEIGHT + (node_cell.opportunistic & mask).bit_count()


@lru_cache(maxsize=10_000)
def _numbers(devices: tuple[int, ...], mask: int) -> tuple[int, ...]:
    return tuple([device for at, device in enumerate(devices) if mask >> at & 1])


class NodeCell:
    """One node of one chain. Devices are bits, in the order of the cell tree.

    A device has at most one *claim*, of a gang with a guarantee, and at most one *opportunistic* gang, which has none.
    Where it has both, the claimant waits until the opportunistic gang has left.
    """

    __slots__ = (
        "bad",
        "chain",
        "claimed",
        "claims",
        "devices",
        "full",
        "index",
        "is_split",
        "is_stale",
        "name",
        "opportunistic",
        "opportunistic_gangs",
        "opportunistic_unit",
        "units",
    )  # fmt: skip

    def __init__(self, chain: Chain, index: int, name: str, devices: tuple[int, ...], full: int) -> None:
        self.chain = chain
        self.index = index
        self.name = name
        self.devices = devices
        self.full = full
        self.bad = 0
        self.claimed = 0
        self.opportunistic = 0
        self.claims: dict[str, int] = {}
        self.opportunistic_gangs: dict[str, int] = {}
        self.units: list[Unit] = []
        self.is_split = False
        """Whether it was ever split to serve promises of less than a node."""
        self.is_stale = False
        """Whether its key in the index for gangs without a guarantee is out of date."""
        self.opportunistic_unit: Unit
        """The whole node, in the index for gangs without a guarantee."""

    def numbers(self, mask: int) -> tuple[int, ...]:
        """Return the device numbers of these bits."""
        return _numbers(self.devices, mask)

    def mask_of(self, numbers: tuple[int, ...]) -> int:
        """Return the bits of these device numbers; numbers it does not have are ignored."""
        mask = 0
        for position, device in enumerate(self.devices):
            if device in numbers:
                mask |= 1 << position
        return mask

    def opportunistic_on(self, mask: int) -> set[str]:
        """Return the opportunistic gangs on some of its devices."""
        if not mask & self.opportunistic:
            return set()
        return {gang for gang, part in self.opportunistic_gangs.items() if part & mask}

    def gangs_on(self, mask: int) -> set[str]:
        """Return the gangs that run, or have a claim, on some of its devices."""
        return {gang for held in (self.claims, self.opportunistic_gangs) for gang, part in held.items() if part & mask}


class Unit:
    """A node, or a part of one, that a gang's tasks can be placed on."""

    __slots__ = ("binding", "bit", "index", "key", "mask", "node_cell", "place", "unit_index")

    def __init__(
        self, unit_index: UnitIndex[Unit], index: int, node_cell: NodeCell, mask: int, binding: CellBinding
    ) -> None:
        self.unit_index = unit_index
        self.index = index
        self.bit = 1 << index
        self.node_cell = node_cell
        self.place = node_cell.index
        self.mask = mask
        self.binding = binding
        self.key = -1

    def from_cell(self, mask: int) -> int:
        """Return devices given as bits of its cell, or of the node if that is smaller, as bits of the node."""
        return mask << self.node_cell.chain.first_device(self.binding.level, self.binding.index)


class CellBinding:
    """A physical cell that serves one of a virtual cluster's promised cells."""

    __slots__ = ("claims", "index", "is_pinned", "level", "number", "share", "units")

    def __init__(self, share: VcShare, level: int, index: int, number: int, is_pinned: bool = False) -> None:
        self.share = share
        self.level = level
        self.index = index
        self.number = number
        """Which of the virtual cluster's promised cells it serves."""
        self.is_pinned = is_pinned
        self.claims = 0
        """How many of its devices are claimed."""
        self.units: list[Unit] = []


class VcShare:
    """A virtual cluster's cells of one chain, or one pinned cell of it."""

    __slots__ = (
        "bad", "bindings", "chain", "claimed", "claimed_at", "draining", "keys", "name", "pin", "promised", "serving",
        "size", "unit_indexes", "unserved",
    )  # fmt: skip

    def __init__(self, name: str, chain: Chain, pin: str | None = None) -> None:
        self.name = name
        self.chain = chain
        self.pin = pin
        self.promised = [0] * chain.spec.top
        self.unserved = [0] * chain.spec.top
        """Promised cells that no physical cell serves yet, as bits, by level from 1."""
        self.bindings: dict[tuple[int, int], CellBinding] = {}
        """By level and physical cell."""
        self.serving: dict[tuple[int, int], CellBinding] = {}
        """The same by level and number of the promised cell."""
        self.unit_indexes: dict[int, UnitIndex[Unit]] = {}
        """By level of the units: parts of nodes first, whole nodes last."""
        self.keys: dict[int, GuaranteedKeys] = {}
        self.size = 0
        """Devices promised."""
        self.claimed = 0
        self.claimed_at: dict[int, int] = {}
        """Devices claimed, by priority."""
        self.bad = 0
        """Bad devices in the cells that serve it."""
        self.draining = 0
        """Its nodes that are left to drain, as bits: what needs less than a node takes others where it can."""

    @property
    def label(self) -> str:
        """Return its name for messages."""
        return self.name if self.pin is None else f"{self.name} (pinned cell {self.pin})"

    def promise(self, level: int, number: int) -> None:
        """Promise more cells of a level."""
        at = level - 1
        self.promised[at] += number
        self.unserved[at] = (1 << self.promised[at]) - 1
        self.size += number * self.chain.spec.leaves(level)
        self.unit_index(min(level, self.chain.node_level))

    def unit_index(self, level: int) -> UnitIndex[Unit]:
        """Return the index of units of a level; create it on first use."""
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

    def first_unit(self, level: int, number: int) -> int:
        """Return the number, in its index, of the first unit of a promised cell: whole racks come before single nodes.

        Units are tried in this order, which does not depend on the physical cells, so that a virtual cluster decides
        exactly as it would alone on a cluster of its own. With racks last, `bench.scheduler` rejects more gangs.
        """
        chain = self.chain
        if level < chain.node_level:
            return number
        larger = range(level + 1, len(self.promised) + 1)
        return sum(self.promised[at - 1] * chain.nodes_per[at] for at in larger) + number * chain.nodes_per[level]

    def claimed_below(self, priority: int) -> int:
        """Return how many devices are claimed at lower priorities."""
        below = 0
        for at, number in self.claimed_at.items():
            if at < priority:
                below += number
        return below

    def binding_of(self, node_cell: NodeCell, mask: int) -> CellBinding | None:
        """Return its binding that covers all of these devices of a node, or None."""
        for unit in node_cell.units:
            if not mask & ~unit.mask and unit.binding.share is self:
                return unit.binding
        return None


class Guarantee(NamedTuple):
    """The promised cell that a part is claimed from."""

    share: VcShare
    level: int
    cell: int
    number: int

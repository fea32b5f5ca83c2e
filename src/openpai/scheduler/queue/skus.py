"""Converts what tasks ask for to devices, and devices to GPUs.

A SKU is one device with its share of the node: a task takes as many devices as its scarcest resource needs. Where the
configuration has no SKU for a device type, it is an equal share of the nodes that are reported.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.journal import Part
from openpai.scheduler.cells.model import CellGroup, GangRequest, Uncountable
from openpai.scheduler.config.model import SkuSpec
from openpai.scheduler.model import Ask, Gang, Group, Node

COUNTED_MAX: Final = 1_000
"""Cached answers; the cache is cleared when it is full."""

Counted = tuple[str | None, Mapping[Ask, int]] | Uncountable
"""The type of device and the devices for each ask, or why no number of them would do."""


class Skus:
    """The SKUs of a cluster, configured or derived from nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._given = cluster.config.skus
        self._found: dict[str, SkuSpec] = {}
        cluster.skus = ChainMap(dict(self._given), self._found)
        self._counted: dict[tuple[object, ...], Counted] = {}
        """Cached counts of requests: most gangs request the same as earlier ones."""
        self.latest: tuple[Gang, tuple[GangRequest, ...] | Uncountable] | None = None
        """The requests of the latest gang: one is checked and added right after each other."""
        self.version = 0
        """Incremented when a derived SKU changes."""

    def learn(self, node: Node) -> None:
        """Derive SKUs from a node, for the device types without a configured SKU."""
        for node_cell in self._cluster.node_cells.get(node.name, ()):
            kind = node_cell.chain.spec.leaf_type
            if kind in self._given:
                continue
            devices = len(node_cell.devices)
            gpus = 1 if node.gpus else 0
            share = SkuSpec(gpus, node.cpus // devices, node.memory_mb // devices)
            known = self._found.get(kind, share)
            smallest = SkuSpec(
                max(known.gpus, gpus), min(known.cpus, share.cpus), min(known.memory_mb, share.memory_mb)
            )
            if smallest != self._found.get(kind):
                self._found[kind] = smallest
                self._counted.clear()
                self.latest = None
                self.version += 1

    def dump(self) -> dict[str, list[int]]:
        """Return the derived SKUs as plain data: also nodes that are gone may have made them as small as they are."""
        return {kind: [sku.gpus, sku.cpus, sku.memory_mb] for kind, sku in self._found.items()}

    def load(self, data: Mapping[str, Sequence[int]]) -> None:
        """Restore the result of `dump`, before anything is counted."""
        for kind, (gpus, cpus, memory_mb) in data.items():
            self._found[kind] = SkuSpec(gpus, cpus, memory_mb)

    def of(self, kind: str) -> SkuSpec | None:
        """Return the SKU of a device type, None if it is not known yet."""
        return self._given.get(kind) or self._found.get(kind)

    def known(self) -> Mapping[str, SkuSpec]:
        """Return all SKUs by device type."""
        kinds = dict.fromkeys(chain.spec.leaf_type for chain in self._cluster.chains.values())
        return {kind: sku for kind in kinds if (sku := self.of(kind)) is not None}

    def choose(self, gang: Gang, asks: Sequence[Ask]) -> tuple[str | None, SkuSpec | None]:
        """Return the device type and SKU for members that name none: what their virtual cluster has and can serve them.

        If all types can, the type stays open and the SKU has the smallest amount of each resource.
        """
        cluster = self._cluster
        chains = list(cluster.chains.values())
        if gang.priority >= 0 and gang.virtual_cluster in cluster.shares:
            chains = [share.chain for share in cluster.shares[gang.virtual_cluster].values()]
        kinds = list(dict.fromkeys(chain.spec.leaf_type for chain in chains))
        known = {kind: sku for kind in kinds if (sku := self.of(kind)) is not None}
        serving = [kind for kind, sku in known.items() if all(_can_serve(ask, sku) for ask in asks)]
        if serving and len(serving) < len(known):
            return serving[0], known[serving[0]]
        if not known:
            return None, None
        found = known.values()
        smallest = SkuSpec(
            min(sku.gpus for sku in found), min(sku.cpus for sku in found), min(sku.memory_mb for sku in found)
        )
        return None, smallest

    def gpus_of(self, part: Part) -> tuple[int, ...]:
        """Return the numbers of the GPUs that the devices of a member stand for."""
        sku = self.of(part.node_cell.chain.spec.leaf_type)
        per = 1 if sku is None else sku.gpus
        devices = part.node_cell.numbers(part.mask)
        return devices if per == 1 else tuple([device * per + at for device in devices for at in range(per)])

    def devices_of(self, kind: str, gpus: tuple[int, ...]) -> tuple[int, ...]:
        """Return the devices that some GPUs belong to; none for a type without GPUs."""
        sku = self.of(kind)
        per = 1 if sku is None else sku.gpus
        return tuple(sorted({gpu // per for gpu in gpus})) if per else ()

    def request(self, gang: Gang, name: str, group: Group) -> GangRequest | Uncountable:
        """Return the request of some members of a gang, under that name, or why it cannot be counted in devices."""
        kind, pin = group.sku_type, group.pinned_cell
        if pin is not None and kind is not None:
            return Uncountable("it names both a SKU and a pinned cell; name one of the two")
        asks = [gang.asks[member] for member in group.members]
        distinct = tuple(asks) if len(asks) == 1 else tuple(dict.fromkeys(asks))
        key = (gang.virtual_cluster, gang.priority >= 0, kind, pin, distinct)
        counted = self._counted.get(key)
        if counted is None:
            if len(self._counted) >= COUNTED_MAX:
                self._counted.clear()
            counted = self._counted[key] = self._count(gang, kind, pin, distinct)
        if isinstance(counted, Uncountable):
            return counted
        kind, devices_by_ask = counted
        return GangRequest(
            name, gang.virtual_cluster, _members(asks, devices_by_ask), gang.priority, kind, pin,
            gang.is_lazily_preemptible, gang.topology, self._usable(gang.excluded_nodes), groups=_cell_groups(group),
            checkpoint_every_ms=gang.checkpoint_every_ms, positions=group.members,
        )  # fmt: skip

    def _usable(self, excluded: Collection[str]) -> frozenset[str] | None:
        """Return all nodes but some; None for all."""
        if not excluded:
            return None
        chains = self._cluster.chains.values()
        return frozenset(cell.name for chain in chains for cell in chain.node_cells) - frozenset(excluded)

    def _count(self, gang: Gang, kind: str | None, pin: str | None, asks: Sequence[Ask]) -> Counted:
        """Return the type of device and the devices for each of these asks, or why no number of them would do."""
        config = self._cluster.config
        if pin is not None and pin in config.pinned:
            sku = self.of(config.chains[config.pinned[pin].chain].leaf_type)
        elif kind is not None:
            sku = self.of(kind)
        else:
            kind, sku = self.choose(gang, asks)
        found: dict[Ask, int] = {}
        for ask in asks:
            devices = devices_for(ask, sku)
            if isinstance(devices, Uncountable):
                return devices
            found[ask] = devices
        return kind, found


def _members(asks: Sequence[Ask], devices_by_ask: Mapping[Ask, int]) -> tuple[tuple[int, int], ...]:
    """Return how many members in a row need the same number of devices, and that number."""
    if len(devices_by_ask) == 1:
        [devices] = devices_by_ask.values()
        return ((len(asks), devices),)
    members: list[tuple[int, int]] = []
    for ask in asks:
        devices = devices_by_ask[ask]
        if members and members[-1][1] == devices:
            members[-1] = (members[-1][0] + 1, devices)
        else:
            members.append((1, devices))
    return tuple(members)


def _cell_groups(group: Group) -> tuple[CellGroup, ...]:
    """Return which members of a group must run inside one cell, each for itself or all together."""
    if not group.cell_types and group.cell_type is None:
        return ()
    own = tuple([CellGroup(kind, (at,)) for at, kind in enumerate(group.cell_types) if kind is not None])
    if group.cell_type is None:
        return own
    bound = {member for each in own for member in each.members}
    rest = tuple([at for at in range(len(group.members)) if at not in bound])
    return (CellGroup(group.cell_type, rest, own),)


def _can_serve(ask: Ask, sku: SkuSpec) -> bool:
    return not isinstance(devices_for(ask, sku), Uncountable)


def devices_for(ask: Ask, sku: SkuSpec | None) -> int | Uncountable:
    """Return how many devices a task needs, or why no number of them is enough."""
    if sku is None:
        return max(1, ask.gpus)
    most = 1
    for wanted, each, noun in (
        (ask.gpus, sku.gpus, "GPUs"),
        (ask.cpus, sku.cpus, "CPUs"),
        (ask.memory_mb, sku.memory_mb, "memory"),
    ):
        if wanted and not each:
            return Uncountable(f"it asks for {noun}, and the machines it may run on have none", noun == "GPUs")
        if wanted:
            most = max(most, -(-wanted // each))
    return most

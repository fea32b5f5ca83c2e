"""The state in the shapes of HiveD's own API: trees of physical and virtual cells, and affinity groups.

A promised cell that no cell serves is shown free and healthy; one that is served mirrors its physical cell.
Opportunistic gangs appear at the head of their virtual cluster's list, as cells named after the physical device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from openpai.scheduler.cells.chain import CellBinding, Chain, NodeCell, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.doomed_cells import doomed_bound
from openpai.scheduler.cells.journal import Part
from openpai.scheduler.cells.model import GangRecord, State
from openpai.wire.scheduler import Cell, CellState, ClusterCells, Gang, GangStatus

FREE_PRIORITY: Final = -2


def cluster_status(cluster: Cluster) -> ClusterCells:
    """Return all physical and all virtual cells."""
    return {"physicalCluster": physical_cells(cluster), "virtualClusters": virtual_clusters(cluster)}


def physical_cells(cluster: Cluster) -> list[Cell]:
    """Return the physical cells as trees, in the order of the configuration."""
    found = []
    with _committed_with_doomed(cluster):
        for chain in cluster.chains.values():
            trees = _CellTrees(cluster, chain)
            found += [trees.physical(chain.top, index, "") for index in range(chain.spec.tops)]
    return found


def virtual_clusters(cluster: Cluster) -> dict[str, list[Cell]]:
    """Return the virtual cells of each virtual cluster as trees."""
    with _committed_with_doomed(cluster):
        return {name: _virtual_cells(cluster, name) for name in cluster.shares}


@contextmanager
def _committed_with_doomed(cluster: Cluster) -> Iterator[None]:
    """Show only what is committed, with the doomed cells bound, while the context lasts."""
    with cluster.committed(), ExitStack() as stack:
        for chain in cluster.chains.values():
            stack.enter_context(doomed_bound(chain))
        yield


def _virtual_cells(cluster: Cluster, name: str) -> list[Cell]:
    """Return the virtual cells of one virtual cluster: opportunistic devices, promised cells, pinned cells."""
    trees_of = {chain: _CellTrees(cluster, cluster.chains[chain]) for chain in cluster.chains}
    found = [*_opportunistic_cells(cluster, name, trees_of)]
    given: dict[tuple[str, int], int] = {}
    address = 0
    for quota in cluster.config.virtual_clusters[name].quota:
        for _ in range(quota.number):
            share = cluster.shares[name][quota.chain]
            number = given.get((quota.chain, quota.level), 0)
            given[quota.chain, quota.level] = number + 1
            found.append(_promised_cell(trees_of[quota.chain], share, quota.level, number, f"{name}/{address}"))
            address += 1
    for pin in cluster.config.virtual_clusters[name].pinned:
        share = cluster.pins[name, pin]
        level = cluster.config.pinned[pin].level
        found.append(_promised_cell(trees_of[share.chain.spec.name], share, level, 0, f"{name}/{address}"))
        address += 1
    return found


def virtual_address(cluster: Cluster, binding: CellBinding) -> str:
    """Return the address of the promised cell that a binding serves."""
    name = binding.share.name
    spec = cluster.config.virtual_clusters[name]
    before = 0
    if binding.share.pin is not None:
        return f"{name}/{sum(quota.number for quota in spec.quota) + spec.pinned.index(binding.share.pin)}"
    left = binding.number
    for quota in spec.quota:
        if (quota.chain, quota.level) == (binding.share.chain.spec.name, binding.level):
            if left < quota.number:
                return f"{name}/{before + left}"
            left -= quota.number
        before += quota.number
    return f"{name}/{before}"


def affinity_groups(cluster: Cluster) -> list[Gang]:
    """Return all gangs, by name."""
    with cluster.committed():
        return [affinity_group(cluster, record) for _, record in sorted(cluster.gangs.items())]


def affinity_group(cluster: Cluster, record: GangRecord) -> Gang:
    """Return a gang as HiveD shows an affinity group."""
    physical: dict[str, list[int]] = {}
    virtual: dict[str, list[str]] = {}
    for part in record.parts:
        if part is None:
            continue
        physical.setdefault(part.node_cell.name, []).extend(part.node_cell.numbers(part.mask))
        if part.guarantee is not None:
            binding = part.guarantee.share.bindings[part.guarantee.level, part.guarantee.cell]
            top = virtual_address(cluster, binding)
            virtual.setdefault(top, []).extend(_leaf_addresses(binding, part, top))
    status: GangStatus = {
        "vc": record.request.virtual_cluster,
        "priority": record.request.priority,
        "state": record.state.value,
        "physicalPlacement": physical,
    }
    if virtual:
        status["virtualPlacement"] = virtual
    if record.lazily_preempted_by:
        status["lazyPreemptionStatus"] = {"preemptor": record.lazily_preempted_by}
    return {"metadata": {"name": record.request.id}, "status": status}


def _leaf_addresses(binding: CellBinding, part: Part, top: str) -> Iterator[str]:
    chain = part.node_cell.chain
    for bit in range(chain.shape.leaves):
        if part.mask >> bit & 1:
            leaf = part.node_cell.index * chain.shape.leaves + bit
            yield _address_below(chain, binding, leaf, top)


def _address_below(chain: Chain, binding: CellBinding, leaf: int, top: str) -> str:
    """Return the address of a device below a promised cell: numbers count from 0 inside the cell, level by level."""
    inside = leaf - binding.index * chain.spec.leaves(binding.level)
    numbers = [str(inside // chain.spec.leaves(level)) for level in range(binding.level - 1, 0, -1)]
    return "/".join([top, *numbers])


class _CellTrees:
    """Builds trees of one chain."""

    def __init__(self, cluster: Cluster, chain: Chain) -> None:
        self.cluster = cluster
        self.chain = chain
        self.spec = chain.spec
        self.held = {
            (unit.binding.level, unit.binding.index): unit.binding
            for node_cell in chain.node_cells
            for unit in node_cell.units
        }

    def physical(self, level: int, index: int, prefix: str) -> Cell:
        """Return a physical cell and all inside it."""
        address = self.address(level, index, prefix)
        children = [self.physical(level - 1, child, address) for child in self.children(level, index)]
        cell = self.cell(level, address, children, self.leaf(level, index, False))
        binding = self.held.get((level, index))
        if binding is not None:
            cell["vc"] = binding.share.name
            cell["virtualCell"] = {"cellType": cell["cellType"], "cellAddress": virtual_address(self.cluster, binding)}
        return cell

    def mirrored(self, level: int, index: int, at: tuple[str, int], prefix: str) -> Cell:
        """Return the virtual cell that a physical one serves; `at` is its address and its number in its parent."""
        address, number = at
        physical = self.address(level, index, prefix)
        first = number * self.spec.children[level - 1]
        children = [
            self.mirrored(level - 1, child, (f"{address}/{first + place}", first + place), physical)
            for place, child in enumerate(self.children(level, index))
        ]
        cell = self.cell(level, address, children, self.leaf(level, index, True))
        # Inside a promised cell only what is used is bound to particular devices.
        if cell["cellPriority"] > FREE_PRIORITY or not prefix:
            cell["physicalCell"] = {"cellType": cell["cellType"], "cellAddress": physical}
        return cell

    def unserved(self, level: int, address: str, number: int) -> Cell:
        """Return a promised cell that nothing serves."""
        first = number * self.spec.children[level - 1]
        inside = range(first, first + self.spec.children[level - 1])
        children = [self.unserved(level - 1, f"{address}/{place}", place) for place in inside]
        return self.cell(level, address, children, ("Free", False, FREE_PRIORITY))

    def children(self, level: int, index: int) -> range:
        """Return the cells inside one."""
        number = self.spec.children[level - 1]
        return range(index * number, (index + 1) * number)

    def address(self, level: int, index: int, prefix: str) -> str:
        """Return the full address of a physical cell whose parent's is `prefix`."""
        if level >= self.chain.node_level:
            return self.spec.upper[level - self.chain.node_level][index]
        per = self.chain.per_node(level)
        node_cell = index // per
        if not prefix:
            above = index // self.spec.children[level]
            prefix = self.address(level + 1, above, "")
        return f"{prefix}/{self.spec.inner[node_cell][level - 1][index % per]}"

    def cell(self, level: int, address: str, children: list[Cell], leaf: tuple[CellState, bool, int]) -> Cell:
        """Return one cell, with state, health and priority from its children or else from `leaf`."""
        state, is_bad, priority = leaf
        if children:
            states = {child["cellState"] for child in children}
            state = "Used" if "Used" in states else states.pop() if len(states) == 1 else "Free"
            is_bad = any(child["cellHealthiness"] == "Bad" for child in children)
            priority = max(child["cellPriority"] for child in children)
        cell: Cell = {
            "cellType": self.spec.types[level - 1],
            "cellAddress": address,
            "cellState": state,
            "cellHealthiness": "Bad" if is_bad else "Healthy",
            "cellPriority": priority,
        }
        if level == self.chain.top:
            cell["leafCellType"] = self.spec.leaf_type
        if level == self.chain.node_level:
            cell["isNodeLevel"] = True
        if children:
            cell["cellChildren"] = children
        return cell

    def leaf(self, level: int, index: int, is_virtual: bool) -> tuple[CellState, bool, int]:
        """Return state, health and priority of a device; its virtual side shows no opportunistic gangs."""
        if level > 1:
            return "Free", False, FREE_PRIORITY
        node_cell = self.chain.node_cells[index // self.chain.shape.leaves]
        bit = 1 << index % self.chain.shape.leaves
        claimer = _on(node_cell.claims, bit)
        opportunistic_gang = _on(node_cell.opportunistic_gangs, bit)
        is_bad = bool(node_cell.bad & bit)
        if claimer is None:
            is_used = opportunistic_gang is not None and not is_virtual
            return ("Used", is_bad, -1) if is_used else ("Free", is_bad, FREE_PRIORITY)
        record = self.cluster.gangs[claimer]
        state: CellState = "Used"
        if record.state is State.PREEMPTING:
            state = "Reserving" if opportunistic_gang is not None else "Reserved"
        return state, is_bad, record.request.priority


def _on(held: dict[str, int], bit: int) -> str | None:
    return next((gang for gang, mask in held.items() if mask & bit), None)


def _promised_cell(trees: _CellTrees, share: VcShare, level: int, number: int, address: str) -> Cell:
    for binding in share.bindings.values():
        if (binding.level, binding.number) == (level, number):
            return trees.mirrored(level, binding.index, (address, 0), "")
    return trees.unserved(level, address, 0)


def _opportunistic_cells(cluster: Cluster, name: str, trees_of: dict[str, _CellTrees]) -> Iterator[Cell]:
    for _, record in sorted(cluster.gangs_of[name].items()):
        for part in record.parts:
            if part is not None and part.guarantee is None:
                yield from _opportunistic_cells_of(trees_of[part.node_cell.chain.spec.name], part.node_cell, part.mask)


def _opportunistic_cells_of(trees: _CellTrees, node_cell: NodeCell, mask: int) -> Iterator[Cell]:
    chain = node_cell.chain
    for bit in range(chain.shape.leaves):
        if mask >> bit & 1:
            address = trees.address(1, node_cell.index * chain.shape.leaves + bit, "")
            is_bad = bool(node_cell.bad >> bit & 1)
            yield {
                "leafCellType": chain.spec.leaf_type,
                "cellType": chain.spec.leaf_type,
                "cellAddress": f"{address}-opp",
                "cellState": "Used",
                "cellHealthiness": "Bad" if is_bad else "Healthy",
                "cellPriority": -1,
                "physicalCell": {"cellType": chain.spec.leaf_type, "cellAddress": address},
            }

"""Finds what can never be scheduled: requests that break a rule, and gangs larger than what they were promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.chain import Chain, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.model import OPPORTUNISTIC, PRIORITY_MAX, CellGroup, GangRequest
from openpai.scheduler.cells.wording import ResourceUnit
from openpai.scheduler.model import Spot

GROUP_TOO_LARGE: Final = "a group of tasks needs more CPUs or GPUs than a cell of the type it must stay inside has"

GROUPS_DEEP_MAX: Final = 8
"""How deep groups may be nested."""


def refusal(cluster: Cluster, request: GangRequest) -> str | None:
    """Return why a gang could not run even if everything were free and healthy, or None."""
    return broken_rule(cluster, request) or too_large(cluster, request)


def broken_rule(cluster: Cluster, request: GangRequest) -> str | None:
    """Return what is wrong with a request whatever the size of the cluster, or None."""
    name = request.virtual_cluster
    message = None
    if name not in cluster.shares:
        message = f"there is no virtual cluster {name!r}; there are {_list(cluster.shares)}"
    elif not OPPORTUNISTIC <= request.priority <= PRIORITY_MAX:
        message = f"priority {request.priority} is not between {OPPORTUNISTIC} and {PRIORITY_MAX}"
    elif not request.members or any(count < 1 or leaves < 1 for count, leaves in request.members):
        message = "a job needs at least one task, and each task at least one CPU or GPU"
    elif request.pinned_cell is not None:
        message = _pin_fault(cluster, request)
    elif request.leaf_type is not None:
        message = _type_fault(cluster, request)
    if message is None and request.groups:
        message = _group_fault(cluster, request)
    if message is None and request.topology is not None:
        types = {name for chain in cluster.chains.values() for name in chain.spec.types}
        if request.topology.cell_type not in types:
            message = f"there is no cell type {request.topology.cell_type!r} to stay inside; there are {_list(types)}"
    return message


def _group_fault(cluster: Cluster, request: GangRequest) -> str | None:
    types = {name for chain in cluster.chains.values() for name in chain.spec.types}
    members = sum(count for count, _ in request.members)
    seen: set[int] = set()
    left = [(group, 1) for group in request.groups]
    while left:
        group, depth = left.pop()
        if depth > GROUPS_DEEP_MAX:
            return f"groups are nested more than {GROUPS_DEEP_MAX} deep"
        if group.cell_type not in types:
            return f"there is no cell type {group.cell_type!r} to put a group into; there are {_list(types)}"
        for member in group.members:
            if member in seen or not 0 <= member < members:
                return f"task {member} is in two groups, or does not exist; put each task into one group"
            seen.add(member)
        left += [(inner, depth + 1) for inner in group.groups]
    return None


def check_together(cluster: Cluster, requests: Sequence[GangRequest]) -> None:
    """Raise Refused for a gang, of several that are to start together, that is named twice or has devices already."""
    names = [request.id for request in requests]
    for name in names:
        if name in cluster.gangs or names.count(name) > 1:
            message = f"gang {name!r} has devices already, or is named twice"
            raise Refused("ConflictJobError", message, "name each gang once, and none that runs")


def restore_fault(request: GangRequest, spots: Sequence[Spot | None]) -> str | None:
    """Return why a gang cannot be running at these spots, or None."""
    gang = request.id
    if not OPPORTUNISTIC <= request.priority <= PRIORITY_MAX:
        return f"gang {gang!r} has priority {request.priority}, not between {OPPORTUNISTIC} and {PRIORITY_MAX}"
    if any(count < 1 or leaves < 1 for count, leaves in request.members):
        return f"gang {gang!r} has members without devices"
    wanted = sum(count for count, _ in request.members)
    if len(spots) != wanted:
        return f"gang {gang!r} has {wanted} members and {len(spots)} spots are named; name one each, or None"
    seen: set[tuple[str, int]] = set()
    for spot in spots:
        for device in spot.devices if spot is not None else ():
            if spot is not None and (spot.node, device) in seen:
                return f"device {device} of node {spot.node!r} is named twice for gang {gang!r}"
            if spot is not None:
                seen.add((spot.node, device))
    return None


def _pin_fault(cluster: Cluster, request: GangRequest) -> str | None:
    name, pin = request.virtual_cluster, request.pinned_cell
    if request.priority == OPPORTUNISTIC:
        return f"an opportunistic job cannot ask for pinned cell {pin!r}; give it a priority of 0 or more, or no pin"
    if pin is None or (name, pin) not in cluster.pins:
        own = [other for owner, other in cluster.pins if owner == name]
        return f"virtual cluster {name!r} has no pinned cell {pin!r}; it has {_list(own)}"
    return None


def _type_fault(cluster: Cluster, request: GangRequest) -> str | None:
    wanted = request.leaf_type
    types = {chain.spec.leaf_type for chain in cluster.chains.values()}
    if wanted not in types:
        return f"there is no SKU type {wanted!r} in the cluster; there are {_list(types)}"
    if request.priority != OPPORTUNISTIC:
        own = {share.chain.spec.leaf_type for share in cluster.shares[request.virtual_cluster].values()}
        if wanted not in own:
            return f"virtual cluster {request.virtual_cluster!r} was promised no {wanted}; it has {_list(own)}"
    return None


def too_large(cluster: Cluster, request: GangRequest) -> str | None:
    """Return why a gang that breaks no rule is too large, or None."""
    need = sum(count * leaves for count, leaves in request.members)
    largest = max(leaves for _, leaves in request.members)
    if request.priority == OPPORTUNISTIC:
        chains = [chain for chain in cluster.chains.values() if request.leaf_type in (None, chain.spec.leaf_type)]
        if any(chain_could_hold(chain, request) for chain in chains):
            return None
        if request.topology is not None and any(_fits_nodes(chain, request) for chain in chains):
            return _outside(cluster, chains, request.topology.cell_type, need)
        if request.groups and any(_fits_nodes(chain, request) for chain in chains):
            return GROUP_TOO_LARGE
        unit, most = _unit(cluster, chains), max((len(c.node_cells) * c.shape.leaves for c in chains), default=0)
        needed = f"{unit.describe(need)}, {unit.count(largest)} on one node"
        return f"its tasks need {needed}; no part of the cluster is as large ({unit.count(most)})"
    if request.pinned_cell is not None:
        shares = [cluster.pins[request.virtual_cluster, request.pinned_cell]]
    else:
        shares = [
            share
            for share in cluster.shares[request.virtual_cluster].values()
            if request.leaf_type in (None, share.chain.spec.leaf_type)
        ]
    if any(could_hold(share, request) for share in shares):
        return None
    if request.topology is not None and any(_is_large_enough(share, request) for share in shares):
        return _outside(cluster, [share.chain for share in shares], request.topology.cell_type, need)
    if request.groups and any(_is_large_enough(share, request) for share in shares):
        return GROUP_TOO_LARGE
    if not any(share.size for share in shares):
        return f"virtual cluster {request.virtual_cluster!r} was promised nothing: only opportunistic jobs run in it"
    size = max((share.size for share in shares), default=0)
    node = max((largest_part(share) for share in shares), default=0)
    unit = _unit(cluster, [share.chain for share in shares])
    return (
        f"its tasks need {unit.describe(need)} of one type, up to {unit.count(largest)} on one node; virtual cluster "
        f"{request.virtual_cluster!r} has at most {unit.count(size)} of one type, {unit.count(node)} on one node"
        + _pins_besides(cluster, request)
    )


def could_hold(share: VcShare, request: GangRequest) -> bool:
    """Return whether a share could hold a gang, if everything were free and healthy."""
    return _is_large_enough(share, request) and _fits_topology(share.chain, request)


def chain_could_hold(chain: Chain, request: GangRequest) -> bool:
    """Return whether a whole chain could hold a gang, if everything were free and healthy."""
    return _fits_nodes(chain, request) and _fits_topology(chain, request)


def _unit(cluster: Cluster, chains: Sequence[Chain]) -> ResourceUnit:
    """Return the unit of the largest of these chains."""
    kind = max(chains, key=lambda chain: len(chain.node_cells) * chain.shape.leaves).spec.leaf_type if chains else ""
    return ResourceUnit.of(kind, cluster.skus.get(kind))


def _outside(cluster: Cluster, chains: Sequence[Chain], cell_type: str, need: int) -> str:
    inside = [chain for chain in chains if cell_type in chain.spec.types]
    if inside:
        needed = _unit(cluster, inside).describe(need)
        return f"its tasks need {needed} inside one {cell_type}, which is smaller"
    return f"no {' and no '.join(sorted({chain.spec.leaf_type for chain in chains}))} is inside a {cell_type}"


def _pins_besides(cluster: Cluster, request: GangRequest) -> str:
    """Return the pinned cells of its virtual cluster, which only jobs that name them can use."""
    own = [pin for name, pin in cluster.pins if name == request.virtual_cluster]
    return f", beside the pinned cells {_list(own)}" if own and request.pinned_cell is None else ""


def _is_large_enough(share: VcShare, request: GangRequest) -> bool:
    need = sum(count * leaves for count, leaves in request.members)
    largest = max(leaves for _, leaves in request.members)
    if need > share.size or largest > largest_part(share):
        return False
    count = sum(count for count, leaves in request.members if leaves == largest)
    return count <= places_in(share, largest)


def _fits_groups(chain: Chain, request: GangRequest) -> bool:
    """Return whether the cells that groups must stay inside are large enough for them."""
    sizes = request.sizes()
    types = chain.spec.types

    def fits(group: CellGroup) -> bool:
        need = sum(sizes[member] for member in group.all_members())
        level = types.index(group.cell_type) + 1 if group.cell_type in types else 0
        return level > 0 and need <= chain.spec.leaves(level) and all(fits(inner) for inner in group.groups)

    return all(fits(group) for group in request.groups)


def _fits_topology(chain: Chain, request: GangRequest) -> bool:
    """Return whether a cell of the type the gang must stay inside is large enough for it."""
    if not _fits_groups(chain, request):
        return False
    topology = request.topology
    if topology is None or not topology.is_required:
        return True
    types = chain.spec.types
    need = sum(count * leaves for count, leaves in request.members)
    return topology.cell_type in types and need <= chain.spec.leaves(types.index(topology.cell_type) + 1)


def largest_part(share: VcShare) -> int:
    """Return how many devices on one node the share was promised."""
    chain = share.chain
    levels = [min(at + 1, chain.node_level) for at, number in enumerate(share.promised) if number]
    return max((chain.spec.leaves(level) for level in levels), default=0)


def places_in(share: VcShare, number: int) -> int:
    """Return how many members of a size fit into everything the share was promised."""
    chain = share.chain
    total = 0
    for at, promised in enumerate(share.promised):
        inside = chain.nodes_per[at + 1] if at + 1 > chain.node_level else 1
        total += promised * inside * (chain.spec.leaves(min(at + 1, chain.node_level)) // number)
    return total


def _fits_nodes(chain: Chain, request: GangRequest) -> bool:
    leaves, node_cells = chain.shape.leaves, len(chain.node_cells)
    largest = max(number for _, number in request.members)
    need = sum(count * number for count, number in request.members)
    count = sum(count for count, number in request.members if number == largest)
    return largest <= leaves and need <= leaves * node_cells and count <= chain_places(chain, largest)


def chain_places(chain: Chain, number: int) -> int:
    """Return how many members of a size fit on the empty nodes of a chain."""
    return chain.shape.leaves // number * len(chain.node_cells)


def _list(names: object) -> str:
    return ", ".join(sorted(map(str, names))) or "none"  # type: ignore[call-overload]

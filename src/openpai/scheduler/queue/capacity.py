"""Explains why a gang is too large for its virtual cluster, in CPUs, memory and GPUs, and what would make it fit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from openpai.protocol.wording import joined, plural
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.feasibility import broken_rule, chain_places, largest_part, places_in, too_large
from openpai.scheduler.cells.model import OPPORTUNISTIC, GangRequest, Uncountable
from openpai.scheduler.cells.wording import ResourceUnit, amount_text, ask_text, share_text
from openpai.scheduler.config.model import SkuSpec
from openpai.scheduler.model import Ask, Gang, Refusal
from openpai.scheduler.queue.requests import requests_of
from openpai.scheduler.queue.skus import Skus

NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class _Room:
    """The devices of one type that a gang could use if all were free: on one node, and in total."""

    kind: str
    on_a_node: int
    total: int
    places: int
    """The number of the gang's largest members that fit."""


@dataclass(frozen=True, slots=True)
class _Fault:
    message: str
    remedy: str
    is_of_gang: bool = False
    """Whether each member would fit alone."""


def refuse(core: Hived, skus: Skus, gang: Gang, usable: Collection[str] | None = ()) -> Refusal | None:
    """Return why a gang could not run even if everything were free and healthy, or None.

    `usable` names the virtual clusters that may be recommended; None means all of them. Without it none is, as for a
    job that waits already: it is not known which of them its user may use.
    """
    fault = _fault(core, skus, gang)
    if fault is None:
        return None
    remedies = [fault.remedy] if fault.remedy else []
    if fault.is_of_gang and len(gang.asks) > 1:
        remedies.append("let its tasks start one by one (`extras: {gangAllocation: false}`)")
    if others := _others(core, skus, gang, usable):
        remedies.append(f"submit it to virtual cluster {joined(others, 'or')}")
    return Refusal(fault.message, joined(remedies or ["ask an administrator for more"], "or"))


def _others(core: Hived, skus: Skus, gang: Gang, usable: Collection[str] | None) -> list[str]:
    if gang.priority == OPPORTUNISTIC or gang.pinned_cell is not None:
        return []
    others = sorted(core.cluster.shares.keys() - {gang.virtual_cluster})
    names = (name for name in others if usable is None or name in usable)
    return list(islice((name for name in names if _fits(core, skus, replace(gang, virtual_cluster=name))), NAMED_MAX))


def _fits(core: Hived, skus: Skus, gang: Gang) -> bool:
    requests = requests_of(gang, skus)
    return not isinstance(requests, Uncountable) and all(core.could_run(request) for request in requests)


def _fault(core: Hived, skus: Skus, gang: Gang) -> _Fault | None:
    cluster = core.cluster
    requests = requests_of(gang, skus)
    if isinstance(requests, Uncountable):
        return _not_countable(gang, requests)
    for request in requests:
        if core.could_run(request):
            continue
        if (message := broken_rule(cluster, request)) is not None:
            return _Fault(message, "")
        if (message := too_large(cluster, request)) is not None:
            asks = [gang.asks[member] for member in request.positions]
            return _in_words(cluster, skus, request, asks) or _Fault(message, "ask for less")
    return None


def _not_countable(gang: Gang, why: Uncountable) -> _Fault:
    """Return why no number of devices is enough, with the request of the largest task."""
    if not why.is_without_gpus:
        return _Fault(why.message, "")
    gpus = max(ask.gpus for ask in gang.asks)
    where = "no node" if gang.priority == OPPORTUNISTIC else f"no node of virtual cluster {gang.virtual_cluster}"
    return _Fault(f"a task asks for {plural(gpus, 'GPU')}, and {where} has any", "ask for no GPU")


def _in_words(cluster: Cluster, skus: Skus, request: GangRequest, asks: Sequence[Ask]) -> _Fault | None:
    """Return by how much members of a gang are too large; None if their size is not the reason."""
    per_task = max(leaves for _, leaves in request.members)
    rooms = _rooms(cluster, request, per_task)
    if not any(room.total for room in rooms):
        return None
    room = max(rooms, key=lambda room: (room.on_a_node >= per_task, room.total, room.on_a_node))
    sku = skus.of(room.kind)
    unit = ResourceUnit.of(room.kind, sku)
    owner = _owner(cluster, request)
    largest = next(ask for ask, size in zip(asks, request.sizes(), strict=True) if size == per_task)
    if per_task > room.on_a_node:
        asked = (
            _exceeding(largest, sku, room.on_a_node)
            or f"{ask_text(largest)}{share_text([largest], per_task, unit, sku)}"
        )
        most = _amount(sku, unit, room.on_a_node)
        return _Fault(f"a task asks for {asked}; {owner} has at most {most} on one node", "ask for less in each task")
    need = sum(count * leaves for count, leaves in request.members)
    tasks = plural(len(asks), "task")
    fewer = _Fault("", "ask for fewer or smaller tasks", is_of_gang=True)
    if need > room.total:
        total = Ask(sum(ask.cpus for ask in asks), sum(ask.memory_mb for ask in asks), sum(ask.gpus for ask in asks))
        asked = _exceeding(total, sku, room.total) or f"{unit.describe(need)}{share_text(asks, need, unit, sku)}"
        kinds = " of one kind, on which tasks that start together run" if len(rooms) > 1 else ""
        return replace(fewer, message=f"its {tasks} need {asked}; {owner} has {_amount(sku, unit, room.total)}{kinds}")
    topology = request.topology
    if topology is not None and topology.is_required:
        message = f"its {tasks} need {unit.describe(need)} inside one {topology.cell_type}, which is smaller"
        return replace(fewer, message=message) if _has_type(cluster, room.kind, topology.cell_type) else None
    fit = f"{plural(room.places, 'task')} of {ask_text(largest)}"
    message = f"of its {tasks} at most {fit} fit on the nodes of {owner} at a time; a node has "
    return replace(fewer, message=message + _amount(sku, unit, room.on_a_node))


def _rooms(cluster: Cluster, request: GangRequest, per_task: int) -> list[_Room]:
    wanted = request.leaf_type
    if request.priority == OPPORTUNISTIC:
        chains = [chain for chain in cluster.chains.values() if wanted in (None, chain.spec.leaf_type)]
        sizes = [(chain, chain.shape.leaves, len(chain.node_cells)) for chain in chains]
        return [
            _Room(c.spec.leaf_type, leaves, leaves * nodes, chain_places(c, per_task)) for c, leaves, nodes in sizes
        ]
    shares = list(cluster.shares[request.virtual_cluster].values())
    if request.pinned_cell is not None:
        shares = [cluster.pins[request.virtual_cluster, request.pinned_cell]]
    kinds = [(share, share.chain.spec.leaf_type) for share in shares]
    found = [(share, kind) for share, kind in kinds if request.pinned_cell is not None or wanted in (None, kind)]
    return [_Room(kind, largest_part(share), share.size, places_in(share, per_task)) for share, kind in found]


def _owner(cluster: Cluster, request: GangRequest) -> str:
    if request.priority == OPPORTUNISTIC:
        return "the cluster"
    if request.pinned_cell is not None:
        return f"pinned cell {request.pinned_cell} of virtual cluster {request.virtual_cluster}"
    beside = sorted(pin for name, pin in cluster.pins if name == request.virtual_cluster)
    pins = f" (beside pinned cells {joined(beside)})" if beside else ""
    return f"virtual cluster {request.virtual_cluster}{pins}"


def _has_type(cluster: Cluster, kind: str, cell_type: str) -> bool:
    return any(cell_type in chain.spec.types for chain in cluster.chains.values() if chain.spec.leaf_type == kind)


def _exceeding(ask: Ask, sku: SkuSpec | None, devices: int) -> str:
    """Return the requested resources that exceed those of `devices`, as text; empty if none does by itself."""
    if sku is None:
        return ""
    cpus = ask.cpus if ask.cpus > sku.cpus * devices else 0
    memory_mb = ask.memory_mb if ask.memory_mb > sku.memory_mb * devices else 0
    gpus = ask.gpus if ask.gpus > sku.gpus * devices else 0
    return amount_text(cpus, memory_mb, gpus) if cpus or memory_mb or gpus else ""


def _amount(sku: SkuSpec | None, unit: ResourceUnit, devices: int) -> str:
    """Return the CPUs, memory and GPUs of some devices, as text."""
    if sku is None:
        return unit.describe(devices)
    return amount_text(sku.cpus * devices, sku.memory_mb * devices, sku.gpus * devices)

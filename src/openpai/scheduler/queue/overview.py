"""Shows the scheduler's state: virtual clusters with what they have and use, SKU types, cells and gangs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from openpai.scheduler.cells.doomed_cells import lost_devices
from openpai.scheduler.cells.inspection import affinity_groups, cluster_status
from openpai.scheduler.config.model import SkuSpec
from openpai.scheduler.interface import Amount, Inspection, Lending, VcView
from openpai.scheduler.model import Order
from openpai.scheduler.queue.lending import borrowed_devices, loans
from openpai.scheduler.queue.moves import HOUR_MS, MovedWork
from openpai.scheduler.queue.skus import Skus
from openpai.scheduler.queue.state import SchedulerState
from openpai.wire.scheduler import Gang, GangStatus

T = TypeVar("T")

UNKNOWN: Final = SkuSpec(1, 0, 0)
"""The SKU of a device before any node is reported."""


def virtual_clusters(state: SchedulerState) -> tuple[VcView, ...]:
    """Return every virtual cluster, by name."""
    state.sync_nodes()
    running = Counter(held.gang.virtual_cluster for held in state.running.gangs.values())
    waiting = Counter(each.gang.virtual_cluster for each in (*state.queue.all(), *state.reserving.values()))
    waiting.update(gang.virtual_cluster for gang, _, _ in state.uncountable.values())
    lending = lending_of(state)
    views = [_view(state, name, running[name], waiting[name]) for name in sorted(state.core.cluster.shares)]
    return tuple([replace(view, lent_to=lending.lent.get(view.name, {})) for view in views])


def lending_of(state: SchedulerState) -> Lending:
    """Return what virtual clusters lend to each other, and what each user borrows."""
    skus = state.machines.skus
    lent: dict[str, dict[str, Amount]] = {}
    for (lender, borrower, kind), devices in sorted(loans(state.core.cluster).items()):
        to = lent.setdefault(lender, {})
        to[borrower] = to.get(borrower, Amount()) + _amount(skus, {kind: devices})
    borrowed: dict[tuple[str, str], Amount] = {}
    for (name, user, kind), devices in sorted(borrowed_devices(state).items()):
        borrowed[name, user] = borrowed.get((name, user), Amount()) + _amount(skus, {kind: devices})
    return Lending(lent, borrowed)


def borrowed_by(state: SchedulerState, gangs: Iterable[str]) -> Amount:
    """Return what some running gangs use without a guarantee."""
    devices: Counter[str] = Counter()
    for held in (state.running.gangs.get(name) for name in gangs):
        for request in held.requests if held is not None else ():
            for part in state.core.cluster.gangs[request.id].parts:
                if part is not None and part.guarantee is None:
                    devices[part.node_cell.chain.spec.leaf_type] += part.mask.bit_count()
    return _amount(state.machines.skus, devices)


def _view(state: SchedulerState, name: str, running: int, waiting: int) -> VcView:
    cluster = state.core.cluster
    promised: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    used: Counter[str] = Counter()
    borrowed: Counter[str] = Counter()
    for share in cluster.shares_of(name):
        kind = share.chain.spec.leaf_type
        promised[kind] += share.size
        bad[kind] += lost_devices(share)
        used[kind] += share.claimed
    for record in cluster.gangs_of.get(name, {}).values():
        for part in record.parts:
            if part is not None and part.guarantee is None:
                borrowed[part.node_cell.chain.spec.leaf_type] += part.mask.bit_count()
    skus, moved = state.machines.skus, state.moves.work.get(name, MovedWork())
    return VcView(
        name, _amount(skus, promised), _amount(skus, promised - bad), _amount(skus, used), _amount(skus, borrowed),
        dict(promised), running, waiting, order=state.orders.get(name, Order.FAIR),
        accuracy=state.running.run_times.guesses.of(name),
        moves_jobs=name in state.moves.allowed, moves=moved.moves, moved_gpu_hours=moved.lost_gpu_ms / HOUR_MS,
    )  # fmt: skip


def _amount(skus: Skus, devices: Mapping[str, int]) -> Amount:
    pairs = [(skus.of(kind) or UNKNOWN, number) for kind, number in devices.items()]
    return Amount(
        sum(sku.cpus * number for sku, number in pairs),
        sum(sku.memory_mb * number for sku, number in pairs),
        sum(sku.gpus * number for sku, number in pairs),
    )


def sku_types(state: SchedulerState, virtual_cluster: str | None) -> dict[str, Amount]:
    """Return the SKU of each device type, or only of the types that one virtual cluster was promised."""
    cluster = state.core.cluster
    chains = list(cluster.chains.values())
    if virtual_cluster is not None:
        shares = cluster.shares_of(virtual_cluster) if virtual_cluster in cluster.shares else []
        chains = [share.chain for share in shares]
    kinds = dict.fromkeys(chain.spec.leaf_type for chain in chains)
    return {kind: _amount(state.machines.skus, {kind: 1}) for kind in kinds}


def inspect(state: SchedulerState) -> Inspection:
    """Return the cells and gangs in HiveD's own shapes."""
    state.sync_nodes()
    groups: dict[str, Gang] = {}
    for group in affinity_groups(state.core.cluster):
        name = group["metadata"]["name"] = state.gang_name(group["metadata"]["name"])
        groups[name] = _joined(groups[name], group) if name in groups else group
    return {**cluster_status(state.core.cluster), "affinityGroups": list(groups.values())}


def _joined(one: Gang, other: Gang) -> Gang:
    """Return two requests of a gang as one affinity group."""
    first, second = one["status"], other["status"]
    status: GangStatus = {**second, **first}
    status["physicalPlacement"] = _merged(first["physicalPlacement"], second["physicalPlacement"])
    virtual = _merged(first.get("virtualPlacement", {}), second.get("virtualPlacement", {}))
    if virtual:
        status["virtualPlacement"] = virtual
    return {"metadata": one["metadata"], "status": status}


def _merged(one: Mapping[str, Sequence[T]], other: Mapping[str, Sequence[T]]) -> dict[str, list[T]]:
    return {place: [*one.get(place, ()), *other.get(place, ())] for place in {**one, **other}}

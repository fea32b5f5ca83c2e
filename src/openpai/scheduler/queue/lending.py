"""Counts the devices that each virtual cluster lends: promised to it, and used by others without a guarantee.

Only as much counts as lent as its owner would have to take back if it wanted all it was promised at this moment. Where
a promise is served by certain cells, those are looked at. A promise that nothing serves can be served anywhere: what is
missing there of idle devices is lent, in proportion to such promises, each device once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from openpai.scheduler.cells.chain import Chain
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.model import Gang, Lent
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Waiting


class Loan(NamedTuple):
    """Devices of one type that a virtual cluster lends to another."""

    lender: str
    borrower: str
    leaf_type: str


def loans(cluster: Cluster) -> Counter[Loan]:
    """Return how many devices each virtual cluster lends to each other one, by type."""
    found: Counter[Loan] = Counter()
    for chain in cluster.chains.values():
        if chain.opportunistic_devices:
            _add_loans(cluster, chain, found)
    return +found


def borrowed_devices(state: SchedulerState) -> Counter[tuple[str, str, str]]:
    """Return how many devices are used without a guarantee, by virtual cluster, user and type."""
    found: Counter[tuple[str, str, str]] = Counter()
    running = state.running.gangs
    for chain in state.core.cluster.chains.values():
        for node_cell in chain.node_cells if chain.opportunistic_devices else ():
            for name, mask in node_cell.opportunistic_gangs.items():
                held = running.get(state.gang_name(name))
                if held is not None:
                    found[held.gang.virtual_cluster, held.gang.user, chain.spec.leaf_type] += mask.bit_count()
    return found


def lent_from(state: SchedulerState, gang: Gang, reserving: Waiting | None) -> tuple[Lent, ...]:
    """Return what others use of the promise to a gang's virtual cluster, or of the devices reserved for the gang."""
    found: Counter[tuple[str, str]] = Counter()
    if reserving is not None:
        records = [state.core.cluster.gangs.get(request.id) for request in reserving.requests]
        for part in (part for record in records if record is not None for part in record.parts if part is not None):
            for other, mask in part.node_cell.opportunistic_gangs.items():
                user = state.core.cluster.gangs[other].request.virtual_cluster
                found[user, part.node_cell.chain.spec.leaf_type] += (mask & part.mask).bit_count()
    elif gang.priority >= 0:
        for loan, devices in loans(state.core.cluster).items():
            if loan.lender == gang.virtual_cluster:
                found[loan.borrower, loan.leaf_type] += devices
    lent: dict[str, Lent] = {}
    for (user, kind), devices in found.items():
        before, sku = lent.get(user, Lent(user, 0, 0)), state.machines.skus.of(kind)
        if sku is not None and devices:
            lent[user] = Lent(user, before.gpus + devices * sku.gpus, before.cpus + devices * sku.cpus)
    return tuple(sorted(lent.values(), key=lambda each: (-each.gpus, -each.cpus, each.virtual_cluster)))


def _add_loans(cluster: Cluster, chain: Chain, found: Counter[Loan]) -> None:
    kind, idle = chain.spec.leaf_type, 0
    users: Counter[str] = Counter()
    """Devices outside of all cells that serve a promise, by the virtual cluster that uses them."""
    for node_cell in chain.node_cells:
        bound = 0
        for unit in node_cell.units:
            bound |= unit.mask
        idle += (node_cell.full & ~(bound | node_cell.opportunistic | node_cell.bad)).bit_count()
        for gang, mask in node_cell.opportunistic_gangs.items():
            user = cluster.gangs[gang].request.virtual_cluster
            users[user] += (mask & ~bound).bit_count()
            for unit in node_cell.units:
                owner = unit.binding.share.name
                # Devices that another gang has a claim on already are on their way back.
                if owner != user:
                    found[Loan(owner, user, kind)] += (mask & unit.mask & ~node_cell.claimed).bit_count()
    missing = {
        name: sum(number.bit_count() * chain.spec.leaves(at + 1) for at, number in enumerate(share.unserved))
        for name, share in sorted(chain.shares.items())
    }
    for lender, part in _parts(min(users.total(), max(0, sum(missing.values()) - idle)), missing).items():
        # Users that lend, too, come first: no virtual cluster lends to its own jobs.
        for user in sorted(users, key=lambda user: (not missing.get(user), -users[user], user)):
            devices = min(part, users[user]) if user != lender else 0
            found[Loan(lender, user, kind)] += devices
            users[user] -= devices
            part -= devices


def _parts(whole: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divide a number in proportion to weights; the remainder goes to the first, so that the parts add up."""
    total, parts = sum(weights.values()), {}
    for name, weight in weights.items():
        parts[name] = -(-whole * weight // total) if total else 0
        whole, total = whole - parts[name], total - weight
    return parts

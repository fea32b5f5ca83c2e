"""Explains to its owner why a gang must wait, and what would change that."""

from __future__ import annotations

from openpai.scheduler.cells.chain import Chain, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.decision import candidate_chains, candidate_shares
from openpai.scheduler.cells.doomed_cells import doomed_devices, lost_devices
from openpai.scheduler.cells.feasibility import chain_could_hold, could_hold
from openpai.scheduler.cells.model import OPPORTUNISTIC, Code, GangRequest, Wait
from openpai.scheduler.cells.node_search import room_of
from openpai.scheduler.cells.opportunistic import free_of
from openpai.scheduler.cells.wording import ResourceUnit


def reason_to_wait(cluster: Cluster, request: GangRequest) -> Wait:
    """Return why a gang cannot be placed now."""
    if request.priority == OPPORTUNISTIC:
        return _opportunistic_reason(cluster, request)
    shares = candidate_shares(cluster, request)
    able = [share for share in shares if could_hold(share, request)] if len(shares) > 1 else shares
    share = max(able or shares, key=lambda share: share.size - share.claimed)
    need = sum(count * leaves for count, leaves in request.members)
    free = share.size - share.claimed
    lost = lost_devices(share)
    unit = _unit(cluster, share.chain)
    number = unit.count
    counts = {"needed": need, "promised": share.size, "used": share.claimed, "free": free, "bad": lost}
    if need > free:
        message = f"virtual cluster {share.label} uses {number(share.claimed)} of its {unit.describe(share.size)}"
        unblock = (
            f"jobs of {share.name} with the same or a higher priority ending, until {number(need - free)} more are free"
        )
        if need > share.size - lost:
            message = f"{message}, and {number(lost)} of them are bad or drained; this needs {number(need)}"
            unblock = f"bad and drained hardware coming back, and {unblock}"
            return Wait(request.id, Code.BAD_HARDWARE, message, unblock, counts, share.chain.spec.name)
        return Wait(request.id, Code.QUOTA_USED, f"{message}; this needs {number(need)}", unblock, counts)
    left = f"virtual cluster {share.label} has {unit.describe(free)} left"
    unhealthy_chain = share.chain.spec.name if share.chain.bad_nodes else ""
    bad = number(_bad_and_free(share))
    if need > free - _bad_and_free(share) or _is_blocked_by_bad(share, request):
        which = f"{bad} of them" if bad else "nodes it could use"
        message = f"{left}, but {which} are bad or drained; this needs {number(need)}"
        return Wait(
            request.id, Code.BAD_HARDWARE, message, "bad and drained hardware coming back", counts, unhealthy_chain
        )
    if request.has_constraints:
        where = "the nodes it may use" if request.nodes is not None else "the cells its groups must stay inside"
        where = f"one {request.topology.cell_type}" if request.topology else where
        message = f"{left}, but too few of them inside {where}; this needs {number(need)}"
        return Wait(request.id, Code.OUTSIDE_TOPOLOGY, message, f"jobs inside {where} ending", counts, unhealthy_chain)
    largest = _largest(request)
    message = f"{left}, but they are spread over nodes; this needs {number(largest)} on one node"
    message += f", {number(need)} in all" if need != largest else ""
    return Wait(request.id, Code.FRAGMENTED, message, "jobs that share nodes ending", counts, unhealthy_chain)


def _unit(cluster: Cluster, chain: Chain) -> ResourceUnit:
    return ResourceUnit.of(chain.spec.leaf_type, cluster.skus.get(chain.spec.leaf_type))


def _largest(request: GangRequest) -> int:
    return max(leaves for _, leaves in request.members)


def _bad_and_free(share: VcShare) -> int:
    """Return how many devices of a share are bad and not claimed."""
    units = [unit for index in share.chain.bad_nodes for unit in share.chain.node_cells[index].units]
    own = [unit for unit in units if unit.binding.share is share]
    return sum((unit.mask & unit.node_cell.bad & ~unit.node_cell.claimed).bit_count() for unit in own) + doomed_devices(
        share
    )


def _is_blocked_by_bad(share: VcShare, request: GangRequest) -> bool:
    """Return whether bad hardware is why there is no room for the gang's largest member."""
    if not share.chain.bad_nodes:
        return False
    largest, leaves = _largest(request), share.chain.spec.leaves
    if any(bits and leaves(min(at + 1, share.chain.node_level)) >= largest for at, bits in enumerate(share.unserved)):
        return True
    unhealthy_chain = 0
    for index in share.chain.bad_nodes:
        for unit in share.chain.node_cells[index].units:
            if unit.binding.share is share and (unit.mask & ~unit.node_cell.claimed).bit_count() >= largest:
                unhealthy_chain += room_of(unit).bit_count() < largest
    return unhealthy_chain > 0


def _opportunistic_reason(cluster: Cluster, request: GangRequest) -> Wait:
    chains = candidate_chains(cluster, request)
    able = [chain for chain in chains if chain_could_hold(chain, request)] if len(chains) > 1 else chains
    chain = max(able or chains, key=_free_in)
    free = _free_in(chain)
    need, largest = sum(count * leaves for count, leaves in request.members), _largest(request)
    unit = _unit(cluster, chain)
    idle = unit.describe(free)
    needed = unit.count(need)
    topology = request.topology
    if need > free:
        message = f"an opportunistic job takes only what is idle, {idle} at the moment; this needs {needed}"
    elif topology is not None and topology.is_required:
        where = f"one {topology.cell_type}"
        message = f"{idle} are free at the moment, but too few of them inside {where}; this needs {needed}"
    else:
        message = f"{idle} are free at the moment, but not together; this needs {unit.count(largest)} on one node"
    counts = {"needed": need, "free": free}
    sound = "bad and drained hardware coming back, " if chain.bad_nodes else ""
    unblock = f"any jobs ending, {sound}or a priority of 0 or more"
    return Wait(request.id, Code.NO_IDLE_DEVICES, message, unblock, counts, chain.spec.name if chain.bad_nodes else "")


def _free_in(chain: Chain) -> int:
    if chain.opportunistic_index.by_key.keys() == {0}:
        return 0
    return sum(free_of(unit.node_cell).bit_count() for unit in chain.opportunistic_index.units.values())

"""Why a gang must wait, in words its owner understands, and what would let it run."""

from __future__ import annotations

from openpai.scheduler.hived.chain import Chain
from openpai.scheduler.hived.cluster import Cluster
from openpai.scheduler.hived.deciding import candidate_chains, candidate_views
from openpai.scheduler.hived.leftovers import free_of
from openpai.scheduler.hived.model import OPPORTUNISTIC, Code, GangRequest, Wait
from openpai.scheduler.hived.seeking import room_of
from openpai.scheduler.hived.view import View


def reason_to_wait(cluster: Cluster, request: GangRequest) -> Wait:
    """Return why no place was found for a gang just now."""
    if request.priority == OPPORTUNISTIC:
        return _leftover_reason(cluster, request)
    views = candidate_views(cluster, request)
    view = max(views, key=lambda view: view.size - view.claimed)
    need = sum(count * leaves for count, leaves in request.members)
    largest = max(leaves for _, leaves in request.members)
    free = view.size - view.claimed
    kind = view.chain.spec.leaf_type
    counts = {"needed": need, "promised": view.size, "used": view.claimed, "free": free, "bad": view.bad}
    if need > free:
        told = f"virtual cluster {view.label} uses {view.claimed} of its {view.size} {kind} devices; this needs {need}"
        unblock = f"jobs of {view.name} with the same or a higher priority finishing, {need - free} more devices' worth"
        return Wait(request.id, Code.QUOTA_USED, told, unblock, counts)
    if need > free - view.bad or _is_spoilt(view, request):
        bad = max(view.bad, len(view.chain.bad_boxes))
        told = (
            f"virtual cluster {view.label} has {free} {kind} devices left, but {bad} devices or nodes there are bad or "
            f"draining and this gang needs {need}"
        )
        return Wait(request.id, Code.BAD_HARDWARE, told, "the bad nodes or devices coming back", counts)
    if (request.topology is not None and request.topology.is_required) or request.nodes is not None:
        where = f"one {request.topology.cell_type}" if request.topology else "the nodes it may use"
        told = f"virtual cluster {view.label} has {free} {kind} devices left, but too few of them inside {where}"
        return Wait(request.id, Code.OUTSIDE_TOPOLOGY, told, f"jobs inside {where} finishing", counts)
    told = (
        f"virtual cluster {view.label} has {free} {kind} devices left, but they are spread over nodes: this gang needs "
        f"{largest} on one node" + (f", {need} in all" if need != largest else "")
    )
    return Wait(request.id, Code.FRAGMENTED, told, "jobs that share nodes finishing", counts)


def _is_spoilt(view: View, request: GangRequest) -> bool:
    """Return whether bad hardware is why there is no room for the gang's largest member."""
    if not view.chain.bad_boxes:
        return False
    largest = max(leaves for _, leaves in request.members)
    if any(view.unserved):
        return True
    spoilt = 0
    for index in view.chain.bad_boxes:
        for unit in view.chain.boxes[index].units:
            if unit.holding.view is view and (unit.mask & ~unit.box.claimed).bit_count() >= largest:
                spoilt += room_of(unit).bit_count() < largest
    return spoilt > 0


def _leftover_reason(cluster: Cluster, request: GangRequest) -> Wait:
    chain = max(candidate_chains(cluster, request), key=_free_in)
    free = _free_in(chain)
    need = sum(count * leaves for count, leaves in request.members)
    largest = max(leaves for _, leaves in request.members)
    kind = chain.spec.leaf_type
    counts = {"needed": need, "free": free}
    if need > free:
        told = f"an opportunistic gang takes what nobody uses: {free} {kind} devices at the moment, and it needs {need}"
    else:
        told = f"{free} {kind} devices are free at the moment, but not together: this gang needs {largest} on one node"
    return Wait(request.id, Code.NO_LEFTOVERS, told, "any jobs finishing, or a priority of 0 or more", counts)


def _free_in(chain: Chain) -> int:
    if chain.commons.by_key.keys() == {0}:
        return 0
    return sum(free_of(unit.box).bit_count() for unit in chain.commons.units.values())

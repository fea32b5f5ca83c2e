"""Decides where a gang goes: the order in which chains, cells and other gangs' devices are considered.

First what costs nobody anything, in every chain that would do; then what costs gangs without a guarantee; last what
costs gangs of lower priority in the same virtual cluster. What is decided stays in the books as a trial until it is
committed to or taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from openpai.scheduler.hived.chain import Chain
from openpai.scheduler.hived.cluster import Cluster
from openpai.scheduler.hived.journal import Journal, Part
from openpai.scheduler.hived.leftovers import LeftoverPlacement
from openpai.scheduler.hived.model import OPPORTUNISTIC, GangRequest, State
from openpai.scheduler.hived.placing import Placement
from openpai.scheduler.hived.preempting import Preemption
from openpai.scheduler.hived.seeking import Loss, Price, Within
from openpai.scheduler.hived.view import View
from openpai.scheduler.model import Spot


@dataclass(slots=True)
class Trial:
    """What a decision changed in the books, so that it can be taken back."""

    request: GangRequest
    chain: Chain
    parts: list[Part]
    victims: set[str] = field(default_factory=set)
    stripped: set[str] = field(default_factory=set)
    """Gangs that lost their right but need not leave."""
    displaced: set[str] = field(default_factory=set)
    spots: tuple[Spot, ...] = ()
    undo: Callable[[], None] = field(default=lambda: None)
    """Takes everything back."""


def price_of(cluster: Cluster, now_ms: int | None) -> Price:
    """Return what tells the loss of sending gangs away: work since the last checkpoint, then how many and how large."""

    def price(gangs: set[str]) -> Loss:
        work = 0
        count = 0
        devices = 0
        for gang in gangs:
            record = cluster.gangs[gang]
            if record.state is State.ALLOCATED:
                count += 1
                devices += record.leaves
                if now_ms is not None:
                    # A gang of unknown age was there before anyone wrote it down: it has most to lose.
                    saved = max(record.since_ms or 0, record.checkpoint_ms or 0)
                    work += record.leaves * max(0, now_ms - saved)
        return work, count, devices

    return price


def candidate_views(cluster: Cluster, request: GangRequest) -> list[View]:
    """Return where a gang with a guarantee may go, the smallest promise first so that large ones stay whole."""
    if request.pinned_cell is not None:
        return [cluster.pins[request.virtual_cluster, request.pinned_cell]]
    views = [
        view
        for view in cluster.views[request.virtual_cluster].values()
        if request.leaf_type in (None, view.chain.spec.leaf_type)
    ]
    return sorted(views, key=lambda view: view.size) if len(views) > 1 else views


def candidate_chains(cluster: Cluster, request: GangRequest) -> list[Chain]:
    """Return where a gang without a guarantee may go, first where most is promised to nobody at the moment."""
    chains = [chain for chain in cluster.chains.values() if request.leaf_type in (None, chain.spec.leaf_type)]
    return sorted(chains, key=lambda chain: -len(chain.boxes)) if len(chains) > 1 else chains


def decide(cluster: Cluster, request: GangRequest, now_ms: int | None) -> Trial | None:
    """Return a trial that gives every member its place, or None if there is none. None leaves no trace."""
    if request.priority == OPPORTUNISTIC:
        return _decide_leftover(cluster, request)
    price = price_of(cluster, now_ms)
    views = candidate_views(cluster, request)
    need = sum(leaves * count for count, leaves in request.members)
    count, largest = _largest(request)
    roomy = [view for view in views if view.size - view.claimed >= need and view.has_room(count, largest)]
    ways: list[Callable[[Placement, View, Within | None], list[Part] | None]] = [
        Placement.without_loss,
        Placement.at_a_cost,
    ]
    for way in ways:
        for view in roomy:
            journal = Journal()
            placement = Placement(request.id, request.priority, request.sizes(), journal, price)
            parts = _place(way, placement, view, request)
            if parts is not None:
                victims = {gang for part in parts for gang, mask in part.box.squatters.items() if mask & part.mask}
                return Trial(request, view.chain, parts, victims, undo=journal.undo)
    for view in views:
        below = view.claimed_below(request.priority)
        if not below or view.size - view.claimed + below < need:
            continue
        for within in _insides(view.chain, request):
            preemption = Preemption(cluster, view, request, price, within)
            parts = preemption.place()
            if parts is not None and _is_too_wide(request, parts):
                preemption.undo()
            elif parts is not None:
                return Trial(
                    request, view.chain, parts,
                    preemption.victims, preemption.stripped, preemption.displaced, undo=preemption.undo,
                )  # fmt: skip
    return None


def _largest(request: GangRequest) -> tuple[int, int]:
    """Return how many members need most devices on one node, and how many devices that is."""
    largest = max(leaves for _, leaves in request.members)
    return sum(count for count, leaves in request.members if leaves == largest), largest


def _place(
    way: Callable[[Placement, View, Within | None], list[Part] | None],
    placement: Placement,
    view: View,
    request: GangRequest,
) -> list[Part] | None:
    if request.topology is None and request.nodes is None:
        return way(placement, view, None)
    for within in _insides(view.chain, request):
        parts = way(placement, view, within)
        if parts is not None:
            if not _is_too_wide(request, parts):
                return parts
            placement.undo()
    return None


def _is_too_wide(request: GangRequest, parts: list[Part]) -> bool:
    """Return whether a gang that must stay inside a part of a node does not."""
    wish = request.topology
    shape = parts[0].box.chain.shape
    types = parts[0].box.chain.spec.types
    if wish is None or not wish.is_required or wish.cell_type not in types[: shape.levels]:
        return False
    together = 0
    for part in parts:
        together |= part.mask
    return shape.level_around(together) > types.index(wish.cell_type) + 1


def _insides(chain: Chain, request: GangRequest) -> Iterator[Within | None]:
    """Yield the sets of nodes to try one after the other; None for all nodes."""
    allowed = allowed_nodes(chain, request)
    wish = request.topology
    if wish is not None and wish.cell_type in chain.spec.types:
        level = chain.spec.types.index(wish.cell_type) + 1
        if level > chain.node_level:
            per = chain.boxes_per[level]
            need = -(-sum(leaves * count for count, leaves in request.members) // chain.shape.leaves)
            if per >= need:
                for cell in range(chain.spec.count(level)):
                    inside = Within.cell(chain, per, cell)
                    if allowed is None:
                        yield inside
                    elif inside.bits & allowed.bits:
                        yield Within(chain, inside.bits & allowed.bits)
        elif sum(request.sizes()) <= chain.spec.leaves(level):
            for box in range(len(chain.boxes)):
                if allowed is None or allowed.bits >> box & 1:
                    yield Within(chain, 1 << box)
    if wish is None or not wish.is_required:
        yield allowed


def allowed_nodes(chain: Chain, request: GangRequest) -> Within | None:
    """Return the nodes of a chain that a gang may use, None if it may use all."""
    if request.nodes is None:
        return None
    bits = 0
    for box in chain.boxes:
        if box.name in request.nodes:
            bits |= 1 << box.index
    return Within(chain, bits)


def _decide_leftover(cluster: Cluster, request: GangRequest) -> Trial | None:
    sizes = request.sizes()
    for chain in candidate_chains(cluster, request):
        for within in _insides(chain, request):
            journal = Journal()
            parts = LeftoverPlacement(request.id, sizes, journal).onto(chain, within)
            if parts is not None and _is_too_wide(request, parts):
                journal.undo()
            elif parts is not None:
                return Trial(request, chain, parts, undo=journal.undo)
    return None

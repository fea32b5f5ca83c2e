"""Decides where a gang goes: the order in which chains, cells and other gangs' devices are considered.

First what preempts no gang, in every suitable chain; then what preempts opportunistic gangs; last what preempts gangs
of lower priority in the same virtual cluster. A decision stays recorded as a proposal until it is committed or undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from openpai.scheduler.cells.chain import Chain, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.constraints import node_sets, opportunistic_node_sets
from openpai.scheduler.cells.grouping import in_share, on_idle_devices
from openpai.scheduler.cells.journal import Journal, Part
from openpai.scheduler.cells.model import OPPORTUNISTIC, GangRequest, State
from openpai.scheduler.cells.node_search import Loss, Price, Within
from openpai.scheduler.cells.opportunistic import OpportunisticPlacement
from openpai.scheduler.cells.placing import Placement
from openpai.scheduler.cells.preempting import Preemption
from openpai.scheduler.model import Spot


@dataclass(slots=True)
class Proposal:
    """A decision and the changes it made to the records, so that it can be undone."""

    request: GangRequest
    chain: Chain
    parts: list[Part]
    journal: Journal
    victims: set[str] = field(default_factory=set)
    lazily_preempted: set[str] = field(default_factory=set)
    """Gangs that lose their guarantee but need not leave."""
    displaced: set[str] = field(default_factory=set)
    rebound: set[str] = field(default_factory=set)
    """Gangs that lost their guarantee, or are served from another cell."""
    spots: tuple[Spot, ...] = ()
    undo: Callable[[], None] = field(default=lambda: None)
    """Undoes the decision."""

    @property
    def touches_others(self) -> bool:
        """Return whether other gangs leave, lose their guarantee or reservation, or are served from other cells."""
        return bool(self.victims or self.lazily_preempted or self.displaced or self.rebound)

    def name_spots(self) -> None:
        """Set the spots of its parts."""
        self.spots = tuple([Spot(part.node_cell.name, part.node_cell.numbers(part.mask)) for part in self.parts])

    def suspend(self) -> None:
        """Remove it from the records until `resume`."""
        self.journal.suspend()

    def resume(self) -> None:
        """Record it again."""
        self.journal.resume()


def price_of(cluster: Cluster, now_ms: int | None) -> Price:
    """Return a function for the loss of preempting gangs: work since a checkpoint, then their number, then devices."""

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
                    work += record.leaves * record.at_risk_ms(now_ms)
        return work, count, devices

    return price


def candidate_shares(cluster: Cluster, request: GangRequest) -> list[VcShare]:
    """Return the shares that a gang with a guarantee may use, the smallest first so that large ones stay whole."""
    if request.pinned_cell is not None:
        return [cluster.pins[request.virtual_cluster, request.pinned_cell]]
    key = request.virtual_cluster, request.leaf_type
    found = cluster.candidates.get(key)
    if found is None:
        shares = cluster.shares[request.virtual_cluster].values()
        able = [share for share in shares if request.leaf_type in (None, share.chain.spec.leaf_type)]
        found = cluster.candidates[key] = sorted(able, key=lambda share: share.size)
    return found


def candidate_chains(cluster: Cluster, request: GangRequest) -> list[Chain]:
    """Return the chains that an opportunistic gang may use, the largest first."""
    chains = [chain for chain in cluster.chains.values() if request.leaf_type in (None, chain.spec.leaf_type)]
    return sorted(chains, key=lambda chain: -len(chain.node_cells)) if len(chains) > 1 else chains


def missing_devices(cluster: Cluster, request: GangRequest) -> int:
    """Return how many devices its virtual cluster lacks for a gang at least, wherever they are; 0 for none."""
    return 0 if request.priority == OPPORTUNISTIC else max(0, request.devices - devices_within_reach(cluster, request))


def devices_within_reach(cluster: Cluster, request: GangRequest) -> int:
    """Return the most devices of one share that are free, or have gangs of a lower priority than this one."""
    most = 0
    for share in candidate_shares(cluster, request):
        free = share.size - share.claimed + share.claimed_below(request.priority)
        if free > most:
            most = free
    return most


def decide(cluster: Cluster, request: GangRequest, now_ms: int | None) -> Proposal | None:
    """Return a proposal with a place for every member; None, without a trace, if there is no room."""
    if request.priority == OPPORTUNISTIC:
        return _decide_opportunistic(cluster, request)
    price = price_of(cluster, now_ms)
    shares = candidate_shares(cluster, request)
    need = request.devices
    count, largest = _largest(request)
    roomy = [share for share in shares if share.size - share.claimed >= need and _has_room(share, count, largest)]
    for way in (Placement.without_loss, Placement.at_a_cost):
        for share in roomy:
            journal = Journal()
            placement = Placement(request.id, request.priority, request.sizes(), journal, price)
            parts = _place(way, placement, share, request)
            if parts is not None:
                victims = set[str]()
                if share.chain.opportunistic_devices:
                    victims.update(*[part.node_cell.opportunistic_on(part.mask) for part in parts])
                return Proposal(request, share.chain, parts, journal, victims, undo=journal.undo)
    for share in shares:
        below = share.claimed_below(request.priority)
        if not below or share.size - share.claimed + below < need:
            continue
        preemption = Preemption(cluster, share, request, price)
        parts = preemption.place()
        if parts is not None:
            return Proposal(
                request, share.chain, parts, preemption.journal,
                preemption.victims, preemption.lazily_preempted, preemption.displaced, preemption.journal.touched(),
                undo=preemption.undo,
            )  # fmt: skip
    return None


def _largest(request: GangRequest) -> tuple[int, int]:
    """Return the number of the gang's largest members, and how many devices each of them needs."""
    if len(request.members) == 1:
        return request.members[0]
    largest = max([leaves for _, leaves in request.members])
    return sum([count for count, leaves in request.members if leaves == largest]), largest


def _place(
    way: Callable[[Placement, VcShare, Within | None], list[Part] | None],
    placement: Placement,
    share: VcShare,
    request: GangRequest,
) -> list[Part] | None:
    if request.topology is None and request.nodes is None and not request.groups:
        return way(placement, share, None)
    grouped = in_share(request, share, placement.journal, placement.price, may_cost=way is Placement.at_a_cost)
    for within in node_sets(share, request):
        parts = grouped.place(within) if request.groups else way(placement, share, within)
        if parts is not None:
            return parts
    return None


def _decide_opportunistic(cluster: Cluster, request: GangRequest) -> Proposal | None:
    sizes = request.sizes()
    for chain in candidate_chains(cluster, request):
        for within in opportunistic_node_sets(chain, request):
            journal = Journal()
            if request.groups:
                parts = on_idle_devices(request, chain, journal).place(within)
            else:
                parts = OpportunisticPlacement(request.id, sizes, journal).onto(chain, within)
            if parts is not None:
                return Proposal(request, chain, parts, journal, undo=journal.undo)
    return None


def _has_room(share: VcShare, count: int, number: int) -> bool:
    """Return whether `count` tasks of `number` devices may fit, ignoring opportunistic gangs."""
    for level, unit_index in share.unit_indexes.items():
        keys = share.keys[level]
        found = unit_index.present & keys.could_fit[number]
        if found and count == 1:
            return True
        while found and count > 0:
            low = found & -found
            found ^= low
            key = low.bit_length() - 1
            count -= unit_index.by_key[key].bit_count() * (keys.free_of(key) // number)
    chain = share.chain
    node = chain.node_level
    for at, unserved in enumerate(share.unserved):
        if count <= 0:
            return True
        if unserved:
            inside = chain.nodes_per[at + 1] if at + 1 > node else 1
            count -= unserved.bit_count() * inside * (chain.spec.leaves(min(at + 1, node)) // number)
    return count <= 0


def record_preemption(cluster: Cluster, proposals: Iterable[Proposal]) -> list[str]:
    """Record which gangs leave, or lose their guarantee, for gangs that are recorded already.

    Returns those that lost a reservation: they hold nothing any more, and the caller must release them.
    """
    gangs, displaced = cluster.gangs, set()
    for proposal in proposals:
        gang = proposal.request.id
        for name in proposal.victims:
            gangs[gang].state = State.PREEMPTING
            gangs[gang].since_ms = None
            gangs[gang].victims.add(name)
            gangs[name].threats.add(gang)
            gangs[name].state = State.BEING_PREEMPTED
        for name in proposal.lazily_preempted:
            cluster.demote(gangs[name], gang)
        displaced |= proposal.displaced
    # Not before the victims are recorded: some of them may be victims of the displaced gangs, too.
    for name in displaced:
        gangs[name].parts = []
    return sorted(displaced)

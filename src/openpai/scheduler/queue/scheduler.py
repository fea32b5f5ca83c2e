"""Implements the platform's scheduler interface with the HiveD core: counts requests in devices and adds a queue.

Within a virtual cluster higher priorities go first, then higher ranks, then users who used less, then older gangs. A
gang that fits may pass one that does not; cells are kept for a gang that has waited for long. Virtual clusters never
wait for each other. Opportunistic gangs take turns by how much their virtual cluster borrows already in proportion to
what it was promised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import OPPORTUNISTIC, GangRequest, State, Uncountable
from openpai.scheduler.cells.restoring import Reconfigured
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.interface import Amount, Inspection, Lending, Scheduler, VcView
from openpai.scheduler.model import Decision, Gang, Limit, Node, Order, Place, Queued, Refusal, Spot, Wait
from openpai.scheduler.queue import capacity, explaining, overview, snapshot
from openpai.scheduler.queue.accuracy import Guesses
from openpai.scheduler.queue.borrowing import as_borrower, was_borrowing
from openpai.scheduler.queue.decision_round import Round
from openpai.scheduler.queue.moving import come_back
from openpai.scheduler.queue.placement_hint import HintedSpots, current_hint, current_hints
from openpai.scheduler.queue.places import queue_of
from openpai.scheduler.queue.preview import preview
from openpai.scheduler.queue.requests import GangRequests, requests_of, rough_requests_of
from openpai.scheduler.queue.running import RunningGang
from openpai.scheduler.queue.state import SchedulerState

PATIENCE_MS: Final = 30 * 60 * 1000
"""How long a gang waits before cells are kept for it, where no run times are known."""

NOTHING: Final = HivedConfig({}, {})
"""The configuration before any was set."""


class HivedScheduler(Scheduler):
    """Shares a cluster between virtual clusters and users with HiveD: what the platform runs."""

    def __init__(self, config: HivedConfig = NOTHING, patience_ms: int = PATIENCE_MS) -> None:
        self.state = SchedulerState(Hived(Cluster(config)), patience_ms)

    @classmethod
    def over(cls, state: SchedulerState) -> HivedScheduler:
        """Return a scheduler with a given state."""
        made = cls()
        made.state = state
        return made

    @property
    def core(self) -> Hived:
        """Return the core, for inspection."""
        return self.state.core

    @property
    def guesses(self) -> Guesses:
        """Return the guesses about starts and run times that came true or not."""
        return self.state.running.run_times.guesses

    @property
    def cluster(self) -> Cluster:
        """Return the core's state, for inspection."""
        self.state.sync_nodes()
        return self.state.core.cluster

    def set_node(self, node: Node) -> None:
        """Add or change a node. Gangs that run on it keep their spots."""
        self.state.machines.set(node)

    def remove_node(self, name: str) -> None:
        """Remove a node for good. Gangs that run on it keep their spots until released."""
        self.state.machines.remove(name)

    def reconfigure(self, config: HivedConfig) -> Reconfigured:
        """Switch to another configuration; running gangs keep running."""
        return self.state.reconfigure(config)

    def refusal(self, gang: Gang, usable: Collection[str] | None = None) -> Refusal | None:
        """Return why `gang` could not run even if everything were free, or None. Changes nothing.

        `usable` names the virtual clusters that may be recommended instead; None means all of them.
        """
        return capacity.refuse(self.core, self.state.machines.skus, gang, usable)

    def add(self, gang: Gang) -> None:
        """Add a gang to the queue. Adding one that waits or runs changes nothing."""
        state = self.state
        is_known = gang.id in state.queue or gang.id in state.reserving or gang.id in state.running.gangs
        if not is_known and gang.id not in state.uncountable:
            number = state.next_number()
            if not (state.moves.open and come_back(state, gang, number)):
                state.enqueue(gang, number)

    def restore(self, gang: Gang, spots: Iterable[Spot | None], since_ms: int | None = None) -> None:
        """Add a gang that already runs, as after a restart; a spot is None for a member that is over."""
        state = self.state
        if gang.id in state.running.gangs:
            return
        self.cancel(gang.id)
        wanted = list(spots)
        if not any(wanted):
            return
        requests = requests_of(gang, state.machines.skus)
        if isinstance(requests, Uncountable):
            requests = rough_requests_of(gang)
        is_lent = was_borrowing(gang, requests, wanted)
        if is_lent:
            requests = (as_borrower(requests[0]),)
        restored = self._restored(gang, requests, wanted, since_ms)
        held = RunningGang(gang, restored, state.next_number(), since_ms, is_lent=is_lent)
        held.left = {member for member, spot in enumerate(wanted) if spot is None}
        state.hold(held)

    def _restored(
        self, gang: Gang, requests: GangRequests, wanted: list[Spot | None], since_ms: int | None
    ) -> GangRequests:
        seating = HintedSpots(self.core.cluster, self.state.machines.skus)
        restored: list[GangRequest] = []
        try:
            for asked in requests:
                request, found, types = seating.request(asked, [wanted[member] for member in asked.positions])
                if any(found):
                    self.core.restore(request, found, gang.submitted_at_ms if since_ms is None else since_ms, types)
                restored.append(request)
        except Refused:
            for request in restored:
                self.core.release(request.id)
            raise
        return tuple(restored)

    def decide(self, now_ms: int, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` decisions, the most urgent first. Each stays proposed until committed or rejected."""
        decisions = Round(self.state, now_ms).decide(limit)
        if not decisions:
            return ()
        return tuple([self._place(each) if isinstance(each, RunningGang) else each for each in decisions])

    def _place(self, held: RunningGang) -> Place:
        """Return where the members of a gang were placed, with hints that name the promised cells that serve them."""
        spots: dict[int, Spot] = {}
        gangs, gpus_of, asks = self.state.core.cluster.gangs, self.state.machines.skus.gpus_of, held.gang.asks
        for request in held.requests:
            record = gangs[request.id]
            for member, part in zip(request.positions, record.parts, strict=True):
                if part is not None:
                    gpus = gpus_of(part)[: asks[member].gpus]
                    spots[member] = Spot(part.node_cell.name, gpus, current_hint(record, part))
        return Place(held.gang.id, tuple([spots[member] for member in range(len(asks))]))

    def _hints(self, held: RunningGang) -> tuple[str, ...]:
        placement_hints = [""] * len(held.gang.asks)
        for request in held.requests:
            record = self.core.cluster.gangs.get(request.id)
            for member, placement_hint in zip(request.positions, current_hints(record) if record else (), strict=False):
                placement_hints[member] = placement_hint
        return tuple(placement_hints)

    def restored(self) -> None:
        """End a restore: gangs that had no guarantee before get one from what the others leave."""
        self.core.restored()

    def changed_hints(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by gang, the placement hints of members whose promised cells changed since the last call.

        Passed to `restore` in place of the original hints, they restore the guarantee that the gang has now.
        """
        held = self.state.running.gangs
        names = sorted({self.state.gang_name(name) for name in self.core.rebound()})
        return {name: self._hints(held[name]) for name in names if name in held}

    def fewest_devices(self) -> int | None:
        """Return how many devices the smallest of the waiting gangs requests; None if none waits."""
        return self.state.queue.fewest_devices()

    def look_again_ms(self) -> int | None:
        """Return when a gang will have waited for so long that others may not pass it; None if none waits."""
        return self.state.look_times.first_ms

    def commit(self, gang: str) -> None:
        """Commit the placement proposed for `gang`."""
        held = self.state.running.gangs.get(gang)
        if held is not None:
            held.is_proposed = False
            self.guesses.note_start(gang, held.gang.virtual_cluster, self.state.now_ms)

    def reject(self, gang: str) -> None:
        """Drop the placement proposed for `gang`, which waits again at its place in the queue."""
        state = self.state
        held = state.running.gangs.get(gang)
        waiting = state.reserving.get(gang)
        if held is not None and held.is_proposed:
            state.drop(held)
            state.enqueue(held.gang, held.number)
        elif waiting is not None:
            state.give_up(waiting)
            state.enqueue(waiting.gang, waiting.number)

    def release(self, gang: str, members: Iterable[int] | None = None) -> None:
        """Free the spots of these members (all when None). A gang without spots is forgotten."""
        state = self.state
        held = state.running.gangs.get(gang)
        if held is None:
            return
        if members is None and not held.left:
            gangs, was_sent_away = state.core.cluster.gangs, False
            for request in held.requests:
                record = gangs.get(request.id)
                was_sent_away |= record is not None and record.state is State.BEING_PREEMPTED
            state.drop(held, is_finished=not was_sent_away and not held.is_proposed)
            return
        leaving = sorted(set(held.places if members is None else members) - held.left)
        was_sent_away = False
        for number, inside in held.by_request(leaving).items():
            name = held.requests[number].id
            record = self.core.cluster.gangs.get(name)
            if record is not None:
                was_sent_away |= record.state is State.BEING_PREEMPTED
                self.core.release(name, inside)
        state.running.leave(held, leaving)
        if len(held.left) == len(held.gang.asks):
            state.drop(held, is_finished=not was_sent_away and not held.is_proposed)

    def cancel(self, gang: str) -> None:
        """Remove a waiting gang. Unknown gangs are ignored."""
        state = self.state
        self.guesses.forget(gang)
        state.dequeue(gang)
        if gang in state.reserving:
            state.give_up(state.reserving[gang])
        held = state.running.gangs.get(gang)
        if held is not None and held.is_proposed:
            state.drop(held)

    def why(self, gang: str, now_ms: int | None = None) -> Wait | None:
        """Return why a gang waits; None when it does not."""
        why = explaining.explain(self.state, gang, self.state.now_ms if now_ms is None else now_ms)
        if why is not None:
            self.guesses.note_shown(gang, why.estimate)
        return why

    def queue(self, virtual_cluster: str, limit: int = 0) -> tuple[Queued, ...]:
        """Return the jobs that wait in a virtual cluster, in order; the first `limit` with why they wait."""
        return queue_of(self.state, virtual_cluster, limit)

    def preview(self, gangs: Sequence[Gang], now_ms: int) -> Wait | None:
        """Return why gangs of one job would wait if they were added now; None if all would start. Changes nothing."""
        return preview(self.state, gangs, now_ms)

    def change(self, gang: Gang) -> None:
        """Change the priority, rank, virtual cluster or time limit of a gang; if it runs, it runs on."""
        state = self.state
        self.guesses.forget(gang.id)
        held = state.running.gangs.get(gang.id)
        reserving = state.reserving.get(gang.id)
        if held is not None:
            self._change_held(held, gang)
        elif reserving is not None:
            state.give_up(reserving)
            state.enqueue(gang, reserving.number)
        elif gang.id in state.uncountable:
            state.enqueue(gang, state.uncountable[gang.id][1])
        else:
            waiting = state.dequeue(gang.id)
            if waiting is not None:
                state.enqueue(gang, waiting.number)

    def _change_held(self, held: RunningGang, gang: Gang) -> None:
        requests = []
        is_lent = held.is_lent and gang.priority >= 0
        for old in held.requests:
            record = self.core.cluster.gangs.get(old.id)
            request = replace(
                old, virtual_cluster=gang.virtual_cluster, priority=OPPORTUNISTIC if is_lent else gang.priority,
                is_lazily_preemptible=gang.is_lazily_preemptible,
            )  # fmt: skip
            if record is not None and request != record.request:
                self.core.change(request)
            requests.append(request)
        self.state.stop_borrowing(held)
        self.state.running.restate(held, gang, tuple(requests))
        if is_lent:
            self.state.start_borrowing(held)

    def checkpointed(self, gang: str, at_ms: int) -> None:
        """Record that a gang saved its work: what it did before is not lost if it must leave."""
        held = self.state.running.gangs.get(gang)
        for request in held.requests if held is not None else ():
            self.core.checkpointed(request.id, at_ms)

    def set_limits(self, limits: Sequence[Limit]) -> None:
        """Replace the limits on what one user may run at a time."""
        self.state.running.limits.set(limits)
        self.state.queue.touch()

    def set_fairness(self, half_life_ms: int | None) -> None:
        """Set the half-life of use when users of a virtual cluster are compared; None ignores use."""
        self.state.running.ledger.set_half_life(half_life_ms, self.state.now_ms)

    def set_orders(self, orders: Mapping[str, Order]) -> None:
        """Replace the order of gangs in each virtual cluster; `Order.FAIR` where none is named."""
        self.state.set_orders(orders)

    def set_movable(self, virtual_clusters: Collection[str]) -> None:
        """Allow to move interruptible gangs of these virtual clusters, and only of these, to make whole cells."""
        self.state.moves.allowed = frozenset(virtual_clusters)
        self.state.queue.touch()

    def learn_run_time(self, gang: Gang, ran_ms: int) -> None:
        """Add the run time of a gang that finished before this scheduler was created; the latest last."""
        self.state.running.run_times.note(gang, ran_ms)

    def learn_use(self, virtual_cluster: str, user: str, device_ms: float, at_ms: int) -> None:
        """Add a user's use from before this scheduler was created, decayed to `at_ms`."""
        self.state.running.ledger.learn((virtual_cluster, user), device_ms, at_ms)

    def borrowers(self) -> frozenset[str]:
        """Return the gangs that run on borrowed devices until their own virtual cluster has room."""
        return frozenset(name for lent in self.state.lent.values() for name in lent)

    def borrowed_by(self, gangs: Iterable[str]) -> Amount:
        """Return what some running gangs use without a guarantee at this moment."""
        return overview.borrowed_by(self.state, gangs)

    def lending(self) -> Lending:
        """Return what virtual clusters lend to each other now, and what each user borrows."""
        return overview.lending_of(self.state)

    def virtual_clusters(self) -> tuple[VcView, ...]:
        """Return every virtual cluster, by name."""
        return overview.virtual_clusters(self.state)

    def sku_types(self, virtual_cluster: str | None = None) -> Mapping[str, Amount]:
        """Return the SKU of each device type, or only of the types that one virtual cluster was promised."""
        return overview.sku_types(self.state, virtual_cluster)

    def inspect(self) -> Inspection:
        """Return the cells and gangs in HiveD's shapes: physicalCluster, virtualClusters, affinityGroups."""
        return overview.inspect(self.state)

    def snapshot(self) -> Mapping[str, Any]:
        """Return the whole state, queue included, as plain data that JSON can hold and `replay` can load."""
        return snapshot.dump(self.state)

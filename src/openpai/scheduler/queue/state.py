"""The state of the platform's scheduler around the core, and the steps by which a gang moves through it.

A gang is in one of four places: it waits in the queue; its request cannot be counted in devices (uncountable); its
devices are reserved while its victims leave; or it holds its spots, at first only as a proposal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Uncountable
from openpai.scheduler.cells.restoring import Reconfigured
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.model import Gang, Node, Order
from openpai.scheduler.queue.backfill import ALONE_AFTER, CLOSED_AFTER, PATIENCE_MAX_MS, FeasibilityCache, Kept, Leaving
from openpai.scheduler.queue.draining import Drains
from openpai.scheduler.queue.limits import gpus_of
from openpai.scheduler.queue.look_times import LookTimes
from openpai.scheduler.queue.moves import Move, MoveBook, job_key
from openpai.scheduler.queue.nodes import Machines
from openpai.scheduler.queue.requests import GangRequests, requests_of
from openpai.scheduler.queue.running import RunningGang, RunningGangs
from openpai.scheduler.queue.waiting_queue import OrderKey, Queue, Waiting

FIRST: Final = -(1 << 60)
"""Sorts before the use of any user."""

TURNS_MS: Final = 15 * 60 * 1000
"""With `Order.SHORTEST`, turns are updated at most this often."""

TURNS_MAX_MS: Final = 6 * 60 * 60 * 1000
"""And at least this often."""

TURNS_A_FINISH: Final = 16
"""In between, once for this many waiting gangs per finished gang, so that a long queue is not sorted all the time."""


class SchedulerState:
    """The core, the queue, the running gangs and the nodes."""

    def __init__(self, core: Hived, patience_ms: int, nodes: dict[str, Node] | None = None) -> None:
        self.core = core
        self.machines = Machines(core.cluster, nodes)
        self.running = RunningGangs()
        self.queue = Queue()
        self.orders: dict[str, Order] = {}
        """The order of gangs, by virtual cluster; `Order.FAIR` by default."""
        self.turns_given: dict[str, tuple[int, int]] = {}
        """By virtual cluster, when turns were last updated, and how many gangs had finished then."""
        self.feasibility = FeasibilityCache()
        self.reserving: dict[str, Waiting] = {}
        """Gangs whose devices are reserved while their victims leave."""
        self.uncountable: dict[str, tuple[Gang, int, str]] = {}
        """Gangs whose request cannot be counted in devices, with their numbers and the reason."""
        self.kept: dict[str, Kept] = {}
        """The cells kept for a gang that has waited for long, by virtual cluster."""
        self.drains = Drains(core.cluster)
        self.moves = MoveBook()
        self.lent: dict[str, dict[str, RunningGang]] = {}
        """Gangs that run on borrowed devices, by virtual cluster."""
        self.promoted_at: dict[str, int] = {}
        """The value of `Cluster.freed` when promotion was last tried, by virtual cluster."""
        self.retry_ms: dict[str, int] = {}
        """When cells to keep may next be searched for, by virtual cluster."""
        self.look_times = LookTimes()
        self.number = 0
        self.now_ms = 0
        self.patience_ms = patience_ms
        self.health = 0
        """Incremented when the health of nodes changes."""
        self._whole: dict[str, str] = {}
        """The gangs with several requests, by the names of these requests in the core."""
        self._skus_seen = self.machines.skus.version

    def next_number(self) -> int:
        """Return the number of a new gang."""
        self.number += 1
        return self.number

    def gang_name(self, name: str) -> str:
        """Return the name of the gang that a name in the core belongs to."""
        return self._whole.get(name, name)

    def reconfigure(self, config: HivedConfig) -> Reconfigured:
        """Switch to another configuration; running gangs keep running."""
        before = self.core.cluster
        report = self.core.reconfigure(config)
        self.kept.clear()
        self.drains.start_over(self.core.cluster)
        self.promoted_at.clear()
        if self.core.cluster is before:
            self.machines.resize()
        else:
            self._start_over()
        self._skus_seen = -1
        self.sync_nodes()
        demoted = {self.gang_name(name) for name in report.demoted}
        kept = {self.gang_name(name) for name in report.kept} - demoted
        waited = {self.gang_name(name) for name in report.waiting}
        return Reconfigured(tuple(sorted(kept)), tuple(sorted(demoted)), tuple(sorted(waited)))

    def _start_over(self) -> None:
        """Take up the core's new cells: nothing is reserved in them."""
        for job in list(self.moves.open):
            self.end_move(job)
        self.machines = Machines(self.core.cluster, self.machines.nodes)
        for waiting in list(self.reserving.values()):
            self.unreserve(waiting)
            self.put_back(waiting)

    def sync_nodes(self) -> None:
        """Pass all changes of nodes to the core, and renew the requests that they affect."""
        changes = self.machines.take_changes()
        if changes:
            self.core.set_nodes(changes)
            self.health += 1
        if self._skus_seen != self.machines.skus.version:
            self._skus_seen = self.machines.skus.version
            waiting, self.queue = self.queue.all(), Queue()
            uncountable, self.uncountable = self.uncountable, {}
            for each in waiting:
                self.enqueue(each.gang, each.number)
            for gang, number, _ in uncountable.values():
                self.enqueue(gang, number)

    def enqueue(self, gang: Gang, number: int, turn: int | None = None) -> None:
        """Add a gang to the queue at its place; `turn` is the one it had in a snapshot."""
        requests = requests_of(gang, self.machines.skus)
        if isinstance(requests, Uncountable):
            self.uncountable[gang.id] = gang, number, requests.message
        else:
            self.uncountable.pop(gang.id, None)
            waiting = self.waiting_of(gang, requests, number)
            if self.order_of(gang) is Order.SHORTEST:
                waiting.turn = self.turn(waiting) if turn is None else turn
            self.queue.add(waiting)
            if self.outranks_kept(gang):
                self.queue.touch(gang.virtual_cluster)

    def waiting_of(self, gang: Gang, requests: GangRequests, number: int) -> Waiting:
        """Return a gang as it waits in the queue."""
        return Waiting(gang, requests, number, whole_nodes=self.drains.whole_nodes(gang, requests))

    def put_back(self, waiting: Waiting) -> None:
        """Queue a gang again for which devices were reserved; what it asks for is counted again."""
        self.enqueue(waiting.gang, waiting.number, waiting.turn)

    def set_orders(self, orders: Mapping[str, Order]) -> None:
        """Replace the order of gangs in each virtual cluster."""
        changed = {name for name in {*orders, *self.orders} if orders.get(name) != self.orders.get(name)}
        self.orders = dict(orders)
        for name in sorted(changed):
            self.drains.set(name, None)
            is_shortest = orders.get(name) is Order.SHORTEST
            self.queue.update_turns(name, self.turn if is_shortest else lambda _: 0)

    def order_of(self, gang: Gang) -> Order:
        """Return the order that applies to a gang; `Order.FAIR` for opportunistic ones."""
        return self.orders.get(gang.virtual_cluster, Order.FAIR) if gang.priority >= 0 else Order.FAIR

    def turn(self, waiting: Waiting) -> int:
        """Return a gang's turn with `Order.SHORTEST`: its expected run time, or 0 once it has waited for long."""
        gang = waiting.gang
        now_ms = max(self.now_ms, gang.submitted_at_ms)
        if now_ms - gang.submitted_at_ms >= self.passed_max_ms(gang.virtual_cluster):
            return 0
        expected_ms = self.running.run_times.expected(gang, now_ms)
        limit_ms = gang.time_limit_ms
        if expected_ms is None:
            # Nothing is known about a gang unlike any other before it runs.
            expected_ms = 0 if limit_ms is None else limit_ms
        return 1 + (expected_ms if limit_ms is None else min(expected_ms, limit_ms))

    def passed_max_ms(self, virtual_cluster: str) -> int:
        """Return how long a gang can be passed by younger ones with `Order.SHORTEST`."""
        return min(PATIENCE_MAX_MS, ALONE_AFTER * self.patience_of(virtual_cluster))

    def update_turns(self) -> None:
        """Update turns with `Order.SHORTEST`, where something changed and enough gangs have finished since."""
        if Order.SHORTEST not in self.orders.values():
            return
        for name in self.queue.due(self.core.cluster.freed):
            if self.orders.get(name) is Order.SHORTEST:
                given_ms, finished = self.turns_given.get(name, (-TURNS_MAX_MS, 0))
                now, passed_ms = self.running.run_times.finished(name), self.now_ms - given_ms
                is_worth = (now - finished) * TURNS_A_FINISH >= self.queue.waiting_in(name)
                if passed_ms >= TURNS_MAX_MS or (passed_ms >= TURNS_MS and is_worth):
                    self.turns_given[name] = self.now_ms, now
                    self.queue.update_turns(name, self.turn)

    def dequeue(self, gang: str) -> Waiting | None:
        """Remove a gang from the queue, and release the cells kept for it."""
        self.uncountable.pop(gang, None)
        waiting = self.queue.remove(gang)
        if waiting is not None and self.is_kept_for(gang, waiting.gang.virtual_cluster):
            self.keep(waiting.gang.virtual_cluster, None)
        return waiting

    def is_kept_for(self, gang: str, virtual_cluster: str) -> bool:
        """Return whether cells of a virtual cluster are kept for a gang."""
        kept = self.kept.get(virtual_cluster)
        return kept is not None and kept.gang == gang

    def outranks_kept(self, gang: Gang) -> bool:
        """Return whether the cells of its virtual cluster are kept for a less urgent gang, and thus not withheld."""
        kept = self.kept.get(gang.virtual_cluster)
        first = None if kept is None or gang.priority < 0 else self.queue.get(kept.gang)
        return first is not None and (gang.priority, gang.rank) > (first.gang.priority, first.gang.rank)

    def keep(self, virtual_cluster: str, kept: Kept | None) -> None:
        """Replace the kept cells of a virtual cluster."""
        if self.kept.pop(virtual_cluster, None) is not None:
            self.note_freed(virtual_cluster)
        if kept is not None:
            self.kept[virtual_cluster] = kept

    def note_freed(self, virtual_cluster: str) -> None:
        """Record that kept cells of a virtual cluster are open again: gangs that found no room before are tried."""
        cluster = self.core.cluster
        shares = cluster.shares_of(virtual_cluster) if virtual_cluster in cluster.shares else ()
        cluster.note_freed(virtual_cluster, {share.chain.spec.name: share.chain for share in shares}.values())

    def reserve(self, waiting: Waiting) -> None:
        """Record that a gang's devices are reserved until its victims have left."""
        gang = waiting.gang
        self.reserving[gang.id] = waiting
        self.running.limits.run((gang.virtual_cluster, gang.user), gpus_of(gang))

    def unreserve(self, waiting: Waiting) -> None:
        """Undo `reserve`, but not the reservation in the core."""
        gang = waiting.gang
        if self.reserving.pop(gang.id, None) is not None:
            self.running.limits.run((gang.virtual_cluster, gang.user), -gpus_of(gang))

    def give_up(self, waiting: Waiting) -> None:
        """Cancel the reservation of a gang; its victims may stay."""
        self.unreserve(waiting)
        gang = waiting.gang.id
        for job in [job for job, move in self.moves.open.items() if move.room_for == gang and move.left_ms is None]:
            self.end_move(job)
        for request in waiting.requests:
            self.core.cancel(request.id)
            self._whole.pop(request.id, None)

    def hold(self, held: RunningGang) -> None:
        """Record that a gang has its spots, or that they are proposed."""
        self.running.take(held)
        if held.is_lent:
            self.start_borrowing(held)
        self.link_parts(held.gang.id, held.requests)

    def start_borrowing(self, held: RunningGang) -> None:
        """Record that a gang runs on borrowed devices."""
        held.is_lent = True
        self.lent.setdefault(held.gang.virtual_cluster, {})[held.gang.id] = held

    def stop_borrowing(self, held: RunningGang) -> None:
        """Record that a gang no longer borrows its devices."""
        held.is_lent = False
        self.lent.get(held.gang.virtual_cluster, {}).pop(held.gang.id, None)

    def link_parts(self, gang: str, requests: GangRequests) -> None:
        """Record that these requests to the core belong to one gang."""
        if len(requests) > 1:
            self._whole |= {request.id: gang for request in requests}

    def link_kept(self, move: Move) -> None:
        """Record that what is reserved for a moved gang belongs to it."""
        self._whole[move.kept] = move.gang

    def end_move(self, job: str) -> None:
        """Forget the move of a job, and release what is still reserved for it."""
        move = self.moves.open.pop(job)
        self.core.release(move.kept)
        self._whole.pop(move.kept, None)
        if move.left_ms is not None:
            self.running.limits.run((move.virtual_cluster, move.user), -move.gpus)

    def _note_left(self, held: RunningGang) -> None:
        """Record that a moved gang has left: until it is queued again it counts for its user as if it ran."""
        move = self.moves.open.get(job_key(held.gang))
        if move is not None and move.gang == held.gang.id and move.left_ms is None:
            move.left_ms = self.now_ms
            self.running.limits.run((move.virtual_cluster, move.user), move.gpus)

    def drop(self, held: RunningGang, *, is_finished: bool = False) -> None:
        """Remove a gang and free its devices."""
        if self.moves.open:
            self._note_left(held)
        self.running.forget(held.gang.id, is_finished=is_finished)
        if held.is_lent:
            self.stop_borrowing(held)
        for request in held.requests:
            self.core.release(request.id)
            self._whole.pop(request.id, None)

    def patience_of(self, virtual_cluster: str) -> int:
        """Return how long a gang of several members waits before cells are kept for it: the longest run time so far."""
        longest_ms = self.running.run_times.longest(virtual_cluster, self.now_ms)
        patience_ms = self.patience_ms
        return patience_ms if longest_ms <= patience_ms else max(patience_ms, min(PATIENCE_MAX_MS, longest_ms))

    def kept_after_ms(self, waiting: Waiting, patience_ms: int | None = None) -> int:
        """Return how long a gang waits before cells are kept for it; `patience_ms` is what `patience_of` returns now.

        A gang of several members waits for as long as gangs similar to it run on average. A gang of one member finds
        a place whenever one node has room, so its cells are kept only when they are closed.
        """
        gang = waiting.gang
        if self.orders and self.order_of(gang) is Order.SHORTEST:
            return self.passed_max_ms(gang.virtual_cluster)
        closed_after_ms = self._closed_after_ms(gang, patience_ms)
        if len(gang.asks) == 1:
            return closed_after_ms
        mean_ms = self.running.run_times.mean(gang)
        if mean_ms is None:
            return closed_after_ms // CLOSED_AFTER
        return max(self.patience_ms, min(closed_after_ms, mean_ms))

    def closed_after_ms(self, waiting: Waiting) -> int:
        """Return how long a gang waits before the cells kept for it are closed."""
        gang = waiting.gang
        if self.order_of(gang) is Order.SHORTEST:
            return self.passed_max_ms(gang.virtual_cluster) * (1 if len(gang.asks) == 1 else CLOSED_AFTER)
        return self._closed_after_ms(gang)

    def _closed_after_ms(self, gang: Gang, patience_ms: int | None = None) -> int:
        if patience_ms is None:
            patience_ms = self.patience_of(gang.virtual_cluster)
        return patience_ms * (ALONE_AFTER if len(gang.asks) == 1 else CLOSED_AFTER)

    def leaving(self, held: RunningGang) -> Leaving:
        """Return when a running gang is expected to leave."""
        now_ms = self.now_ms
        return Leaving(
            held.gang.id,
            held.number,
            held.requests,
            lambda chance: now_ms + self.left_ms(held, chance),
            now_ms + self.left_ms(held),
        )

    def left_ms(self, held: RunningGang, quantile: float = 0.5) -> int:
        """Return how long a gang probably runs on: the median of gangs like it that ran at least as long already."""
        ran_ms = 0 if held.since_ms is None else max(0, self.now_ms - held.since_ms)
        length_ms = self.running.run_times.guess(held.gang, quantile, ran_ms)
        # Without a guess, half of its run time is assumed to be over.
        left_ms = ran_ms if length_ms is None else length_ms - ran_ms
        limit_ms = held.gang.time_limit_ms
        return left_ms if limit_ms is None else max(0, min(left_ms, limit_ms - ran_ms))

    def _is_next(self, waiting: Waiting) -> bool:
        """Return whether a gang of several members has waited so long that it goes before those with fewer devices.

        Several places that are free at once are rare. A gang that takes one of them costs more than it gains: they
        serve all gangs that need several places, the largest first, before others take them.
        """
        waited_ms = self.now_ms - waiting.gang.submitted_at_ms
        return waited_ms >= self.patience_ms and waited_ms >= self.kept_after_ms(waiting)

    def order_key(self, waiting: Waiting) -> OrderKey:
        """Return the sort key of a waiting gang; smaller goes first."""
        gang = waiting.gang
        name, priority, share = gang.virtual_cluster, gang.priority, 0.0
        if priority < 0:
            # Idle devices are shared in proportion to promises.
            cluster = self.core.cluster
            shares = cluster.shares_of(name) if name in cluster.shares else ()
            share = cluster.borrowed.get(name, 0) / max(1, sum(each.size for each in shares))
            use = self.running.ledger.use((name, gang.user), self.now_ms)
        elif (kept := self.kept.get(name)) is not None and kept.gang == gang.id:
            use = FIRST  # before all others of its priority and rank, however much its user used
        elif (order := self.orders.get(name, Order.FAIR)) is not Order.FAIR:
            use = waiting.turn if order is Order.SHORTEST else 0
        elif len(gang.asks) > 1 and self._is_next(waiting):
            use = -waiting.devices
        else:
            use = self.running.ledger.use((name, gang.user), self.now_ms)
        since_ms = gang.submitted_at_ms
        if waiting.whole_nodes:
            since_ms -= self.drains.ahead_ms(name) * waiting.whole_nodes
        return -priority, share, -gang.rank, use, since_ms, waiting.number

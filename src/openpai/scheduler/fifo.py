"""First in, first out: the simplest sharing policy that is still fair to every virtual cluster.

Within a virtual cluster gangs start strictly in order of priority, then submission, then id: nobody overtakes
a gang that waits ahead of them, so a large gang gets its nodes in the end. Only a gang that would not fit even if
everything were free lets the others pass, until the cluster changes. Virtual clusters do not block each other.
Nothing is preempted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Final

from openpai.scheduler.model import Decision, Gang, Node, Place, Spot, Wait, Why
from openpai.scheduler.packing import Pool
from openpai.scheduler.reasons import Reason, queue_sentence, reason_to_refuse, reason_to_wait

AHEAD_SHOWN: Final = 5
HEAP_SLACK: Final = 64

Turn = tuple[int, int, str]
"""Sorts gangs into the order in which they may start."""


def turn_of(gang: Gang) -> Turn:
    """Return the gang's place in the order: higher priority, then earlier submission, then id."""
    return (-gang.priority, gang.submitted_at_ms, gang.id)


@dataclass(slots=True)
class Queue:
    """The waiting gangs of one virtual cluster."""

    waiting: dict[str, Gang] = field(default_factory=dict)
    heap: list[Turn] = field(default_factory=list)
    """May hold turns of gangs that no longer wait; they are dropped when they reach the top."""
    blocked: tuple[str, int] | None = None
    """The head that did not fit, and how often anything had been freed by then."""
    hopeless: set[str] = field(default_factory=set)
    """Gangs that wait for other nodes than there are, beside the order."""
    in_order: list[str] | None = None
    """Ids in order and, below, their positions: made when somebody asks, gone with the next change."""
    positions: dict[str, int] = field(default_factory=dict)

    def add(self, gang: Gang) -> None:
        """Let `gang` wait."""
        self.waiting[gang.id] = gang
        heappush(self.heap, turn_of(gang))
        self.in_order = None
        if len(self.heap) > 2 * len(self.waiting) + HEAP_SLACK:
            self.hope()

    def remove(self, gang: str) -> None:
        """Let `gang` wait no longer."""
        del self.waiting[gang]
        self.hopeless.discard(gang)
        self.in_order = None

    def give_up(self, gang: str) -> None:
        """Let `gang` stand beside the order until `hope`."""
        self.hopeless.add(gang)
        self.in_order = None

    def hope(self) -> None:
        """Put every waiting gang in order again."""
        self.hopeless.clear()
        self.heap = [turn_of(waiting) for waiting in self.waiting.values()]
        heapify(self.heap)
        self.in_order = None

    def head(self) -> Turn | None:
        """Return the turn of the gang that goes first."""
        heap = self.heap
        while heap:
            gang = self.waiting.get(heap[0][2])
            if gang is not None and turn_of(gang) == heap[0] and gang.id not in self.hopeless:
                return heap[0]
            heappop(heap)
        return None

    def order(self) -> list[str]:
        """Return the ids of all waiting gangs, the first to start first."""
        if self.in_order is None:
            hopeful = (turn_of(gang) for gang in self.waiting.values() if gang.id not in self.hopeless)
            self.in_order = [turn[2] for turn in sorted(hopeful)]
            self.positions = {gang: position for position, gang in enumerate(self.in_order)}
        return self.in_order


@dataclass(slots=True)
class Holding:
    """A gang with its spots: proposed until committed; None for members that are over."""

    gang: Gang
    spots: list[Spot | None]
    is_committed: bool


class FifoScheduler:
    """Implements `scheduler.interface.Scheduler` first come, first served."""

    def __init__(self) -> None:
        self._pool = Pool()
        self._nodes: dict[str, Node] = {}
        self._queues: dict[str, Queue] = {}
        self._holdings: dict[str, Holding] = {}
        self._waiting_in: dict[str, Queue] = {}
        self._frees = 0
        self._empty: Pool | None = None
        self._healthy: Pool | None = None
        self._reasons: dict[str, tuple[int, Reason]] = {}

    def set_node(self, node: Node) -> None:
        """Learn of a node, or that it changed. Gangs that run on it keep their spots."""
        if self._nodes.get(node.name) == node:
            return
        self._nodes[node.name] = node
        self._pool.set_node(node)
        self._cluster_changed()

    def remove_node(self, name: str) -> None:
        """Learn that a node is gone for good. Gangs that run on it keep their spots until released."""
        if self._nodes.pop(name, None) is not None:
            self._pool.remove_node(name)
            self._cluster_changed()

    def refusal(self, gang: Gang) -> str | None:
        """Return why `gang` could not run even if everything were free and healthy, or None.

        A cluster without any node refuses nobody: its nodes have yet to come.
        """
        if not self._nodes or self._fits(self._empty_pool(), gang):
            return None
        return reason_to_refuse(self._empty_pool(), gang)

    def add(self, gang: Gang) -> None:
        """Let a gang wait. Adding one that waits or runs changes nothing."""
        if gang.id in self._waiting_in or gang.id in self._holdings:
            return
        self._enqueue(gang)

    def restore(self, gang: Gang, spots: Iterable[Spot | None]) -> None:
        """Learn that a gang already runs there, as after a restart; None for members that are over."""
        if gang.id in self._holdings:
            return
        self.cancel(gang.id)
        held = list(spots)
        for spot, ask in zip(held, gang.asks, strict=True):
            if spot is not None:
                self._pool.hold(spot, ask)
        if any(held):
            self._holdings[gang.id] = Holding(gang, held, is_committed=True)

    def decide(self, now_ms: int, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` placements, best right first. Each is set aside until committed or rejected."""
        turns = [(turn, vc) for vc, queue in self._queues.items() if (turn := self._turn(queue)) is not None]
        # As a list sorted backwards the best turn is popped from the end; there is one entry per virtual cluster.
        turns.sort(reverse=True)
        placed: list[Decision] = []
        while turns and len(placed) < limit:
            turn, vc = turns.pop()
            queue = self._queues[vc]
            gang = queue.waiting[turn[2]]
            spots = self._pool.pack(gang.asks)
            if spots is not None:
                self._dequeue(gang.id)
                self._holdings[gang.id] = Holding(gang, list(spots), is_committed=False)
                placed.append(Place(gang.id, spots))
            elif self.refusal(gang) is not None:
                queue.give_up(gang.id)
            else:
                queue.blocked = (gang.id, self._frees)
                continue
            following = self._turn(queue) if vc in self._queues else None
            if following is not None:
                _insert_backwards(turns, (following, vc))
        return tuple(placed)

    def commit(self, gang: str) -> None:
        """The placement proposed for `gang` became a fact."""
        holding = self._holdings.get(gang)
        if holding is not None:
            holding.is_committed = True

    def reject(self, gang: str) -> None:
        """The placement proposed for `gang` did not become a fact: it waits again, where it was in the queue."""
        holding = self._holdings.get(gang)
        if holding is not None and not holding.is_committed:
            self.release(gang)
            self._enqueue(holding.gang)

    def release(self, gang: str, members: Iterable[int] | None = None) -> None:
        """These members (all when None) hold their spots no longer. A gang without spots is forgotten."""
        holding = self._holdings.get(gang)
        if holding is None:
            return
        for index in range(len(holding.spots)) if members is None else members:
            spot = holding.spots[index]
            if spot is not None:
                self._pool.give_back(spot, holding.gang.asks[index])
                holding.spots[index] = None
                self._frees += 1
        if not any(holding.spots):
            del self._holdings[gang]

    def cancel(self, gang: str) -> None:
        """A waiting gang wants nothing any more. Unknown gangs are ignored."""
        if gang in self._waiting_in:
            self._dequeue(gang)
        elif gang in self._holdings and not self._holdings[gang].is_committed:
            self.release(gang)

    def why(self, gang: str) -> Wait | None:
        """Return why a gang waits, who goes first, and what would help; None when it does not wait."""
        queue = self._waiting_in.get(gang)
        if queue is None:
            return None
        if gang in queue.hopeless:
            reason = reason_to_wait(
                self._empty_pool(), self._empty_pool(), queue.waiting[gang], could_run_when_healthy=False
            )
            return Wait(gang, reason.code, reason.told, reason.unblock)
        order = queue.order()
        position = queue.positions[gang]
        head = queue.waiting[order[0]]
        reason = self._reason(head)
        if position == 0:
            return Wait(gang, reason.code, reason.told, reason.unblock, (), 1)
        ahead = tuple(_name(queue.waiting[other]) for other in order[max(0, position - AHEAD_SHOWN) : position][::-1])
        told = queue_sentence(queue.waiting[gang], position, head, reason)
        is_outranked = head.priority > queue.waiting[gang].priority
        code = Why.BEHIND_HIGHER_PRIORITY if is_outranked else Why.BEHIND_OLDER_JOB
        return Wait(gang, code, told, f"the start or the end of {_name(head)}", ahead, position + 1)

    def _turn(self, queue: Queue) -> Turn | None:
        """Return the queue's first turn unless it is known not to fit what is free."""
        head = queue.head()
        if head is None or queue.blocked == (head[2], self._frees):
            return None
        return head

    def _reason(self, head: Gang) -> Reason:
        """Return why the head of a queue waits; worked out once per change of the cluster."""
        queue = self._queues[head.virtual_cluster]
        if queue.blocked != (head.id, self._frees):
            return Reason(Why.NOT_YET_LOOKED_AT, "it is next in line and has not been looked at yet", "a moment")
        changes, reason = self._reasons.get(head.virtual_cluster, (-1, None))
        if reason is not None and changes == self._pool.changes and reason.gang == head.id:
            return reason
        could_run = self._fits(self._healthy_pool(), head)
        made = reason_to_wait(self._pool, self._healthy_pool(), head, could_run_when_healthy=could_run)
        reason = replace(made, gang=head.id)
        self._reasons[head.virtual_cluster] = (self._pool.changes, reason)
        return reason

    def _enqueue(self, gang: Gang) -> None:
        queue = self._queues.setdefault(gang.virtual_cluster, Queue())
        queue.add(gang)
        self._waiting_in[gang.id] = queue

    def _dequeue(self, gang: str) -> None:
        queue = self._waiting_in.pop(gang)
        virtual_cluster = queue.waiting[gang].virtual_cluster
        queue.remove(gang)
        if not queue.waiting:
            del self._queues[virtual_cluster]
            self._reasons.pop(virtual_cluster, None)

    def _cluster_changed(self) -> None:
        self._frees += 1
        self._empty = self._healthy = None
        for queue in self._queues.values():
            if queue.hopeless:
                queue.hope()

    def _empty_pool(self) -> Pool:
        """Return the cluster with everything free and healthy."""
        if self._empty is None:
            self._empty = Pool()
            for node in self._nodes.values():
                self._empty.set_node(replace(node, is_schedulable=True, bad_devices=frozenset()))
        return self._empty

    def _healthy_pool(self) -> Pool:
        """Return the cluster with everything free, but as healthy as it is."""
        if self._healthy is None:
            self._healthy = Pool()
            for node in self._nodes.values():
                self._healthy.set_node(node)
        return self._healthy

    @staticmethod
    def _fits(pool: Pool, gang: Gang) -> bool:
        spots = pool.pack(gang.asks)
        for spot, ask in zip(spots or (), gang.asks, strict=False):
            pool.give_back(spot, ask)
        return spots is not None


def _insert_backwards(turns: list[tuple[Turn, str]], new: tuple[Turn, str]) -> None:
    """Insert into a list that is sorted with the smallest last."""
    at = len(turns)
    while at > 0 and turns[at - 1] < new:
        at -= 1
    turns.insert(at, new)


def _name(gang: Gang) -> str:
    return gang.job or gang.id

"""The HiveD core behind the platform's entrance to scheduling: asks become devices, and waiting gangs get a queue.

Within a virtual cluster higher priorities go first, then older gangs; a gang that fits may pass one that does not,
until that one has waited too long. Virtual clusters never wait for each other. Gangs without a guarantee take turns by
how much their virtual cluster borrows already, measured against what it was promised.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from openpai.protocol.errors import Refused
from openpai.scheduler.hived.cluster import Cluster
from openpai.scheduler.hived.config import HivedConfig
from openpai.scheduler.hived.core import Hived
from openpai.scheduler.hived.model import Code, GangRequest, NodeHealth
from openpai.scheduler.hived.model import Preempt as HivedPreempt
from openpai.scheduler.hived.model import Wait as HivedWait
from openpai.scheduler.hived.queueing import Queue, Waiting
from openpai.scheduler.hived.restoring import Reconfigured
from openpai.scheduler.hived.skus import Skus
from openpai.scheduler.interface import Scheduler
from openpai.scheduler.model import Decision, Gang, Node, Place, Preempt, Spot, Wait, Why

PATIENCE_MS: Final = 30 * 60 * 1000
"""A gang that waited this long is not passed any more by gangs of its virtual cluster with no more right."""

AHEAD_MAX: Final = 5

REMIND_MS: Final = 10_000
"""Victims that have not left by then are named again, in case whoever was to stop them forgot."""

ABSENT: Final = NodeHealth(is_healthy=False)

WHY_OF: Final = {
    Code.QUOTA_USED: Why.NOT_ENOUGH_FREE,
    Code.NO_LEFTOVERS: Why.NOT_ENOUGH_FREE,
    Code.FRAGMENTED: Why.FRAGMENTED,
    Code.OUTSIDE_TOPOLOGY: Why.FRAGMENTED,
    Code.TOO_LARGE: Why.NO_NODE,
    Code.BAD_HARDWARE: Why.UNHEALTHY_NODES,
}


class HivedScheduler(Scheduler):
    """Schedules a platform's gangs with HiveD."""

    def __init__(self, config: HivedConfig, patience_ms: int = PATIENCE_MS) -> None:
        self.core = Hived.from_config(config)
        self.skus = Skus(self.core.cluster)
        self._patience_ms = patience_ms
        self._queue = Queue()
        self._reserving: dict[str, Waiting] = {}
        """Gangs whose devices are reserved and who wait for others to leave them."""
        self._gangs: dict[str, Gang] = {}
        """Gangs that hold spots, or for which some are set aside."""
        self._unclear: dict[str, tuple[Gang, str]] = {}
        """Gangs that nothing there is now could serve, and why."""
        self._proposed: dict[str, Waiting] = {}
        self._number = 0
        # A node that nobody reported yet is not there, whatever the configuration says.
        self._news: dict[str, NodeHealth] = dict.fromkeys(self.core.cluster.boxes, ABSENT)
        self._nodes: dict[str, Node] = {}

    @property
    def cluster(self) -> Cluster:
        """Return what the core knows, for those who show it."""
        self._hear()
        return self.core.cluster

    def set_node(self, node: Node) -> None:
        """Learn of a node, or that it changed. Gangs that run on it keep their spots."""
        self._nodes[node.name] = node
        self.skus.learn(node)
        if node.name in self.core.cluster.boxes:
            bad = set(node.bad_devices)
            for box in self.core.cluster.boxes[node.name]:
                bad |= set(self.skus.devices_of(box.chain.spec.leaf_type, tuple(node.bad_devices)))
            self._news[node.name] = NodeHealth(node.is_schedulable, False, frozenset(bad))

    def remove_node(self, name: str) -> None:
        """Learn that a node is gone for good. Gangs that run on it keep their spots until released."""
        self._nodes.pop(name, None)
        if name in self.core.cluster.boxes:
            self._news[name] = ABSENT

    def reconfigure(self, config: HivedConfig) -> Reconfigured:
        """Go on under another configuration. Nobody is stopped for it; see the answer for who lost a guarantee."""
        report = self.core.reconfigure(config)
        self.skus = Skus(self.core.cluster)
        self._news = dict.fromkeys(self.core.cluster.boxes, ABSENT)
        for node in list(self._nodes.values()):
            self.set_node(node)
        waiting = [*self._queue.all(), *self._reserving.values()]
        self._queue, self._reserving = Queue(), {}
        for each in waiting:
            request = self.skus.request(each.gang)
            self._queue.add(each if isinstance(request, str) else Waiting(each.gang, request, each.number))
        return report

    def refusal(self, gang: Gang) -> str | None:
        """Return why `gang` could not run even if everything were free, or None. Changes nothing."""
        request = self.skus.request(gang)
        return request if isinstance(request, str) else self.core.refusal(request)

    def add(self, gang: Gang) -> None:
        """Let a gang wait. Adding one that waits or runs changes nothing."""
        if gang.id in self._queue or gang.id in self._reserving or gang.id in self._gangs:
            return
        request = self.skus.request(gang)
        if isinstance(request, str):
            self._unclear[gang.id] = (gang, request)
            return
        self._unclear.pop(gang.id, None)
        self._number += 1
        self._queue.add(Waiting(gang, request, self._number))

    def restore(self, gang: Gang, spots: Iterable[Spot | None]) -> None:
        """Learn that a gang already runs there, as after a restart; None for members that are over."""
        if gang.id in self._gangs:
            return
        self.cancel(gang.id)
        request = self.skus.request(gang)
        wanted = list(spots)
        if not any(wanted):
            return
        if isinstance(request, str):
            members = tuple((1, max(1, ask.gpus)) for ask in gang.asks)
            request = GangRequest(gang.id, gang.virtual_cluster, members, gang.priority, gang.sku_type)
        taken: dict[str, int] = {}
        found = [
            self.skus.devices_at(spot, need, request, taken) for spot, need in zip(wanted, request.sizes(), strict=True)
        ]
        self.core.restore(request, found, gang.submitted_at_ms)
        self._gangs[gang.id] = gang

    def decide(self, now_ms: int, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` decisions, best right first. Each is set aside until committed or rejected."""
        self._hear()
        decisions = self._take_reserved(now_ms, limit)
        held_up: dict[str, str] = {}
        freed = self.core.cluster.freed
        for lane in self._queue.heads(self._right, freed):
            if len(decisions) >= limit:
                break
            waiting = lane.first
            blocker = held_up.get(lane.group)
            waiting.behind = blocker
            if blocker is not None:
                continue
            before = freed.get(lane.group, 0)
            decision = lane.answer if lane.looked_at == before else self._decide(waiting, now_ms)
            if decision is None or isinstance(decision, HivedWait):
                lane.answer, lane.looked_at = decision, before
                if lane.group and now_ms - waiting.gang.submitted_at_ms >= self._patience_ms:
                    held_up[lane.group] = waiting.gang.id
            else:
                decisions.append(decision)
        return tuple(decisions)

    def _take_reserved(self, now_ms: int, limit: int) -> list[Decision]:
        """Place the gangs whose victims have left; look again for those that lost their reservation."""
        decisions: list[Decision] = []
        for gang, waiting in list(self._reserving.items()):
            record = self.core.cluster.gangs.get(gang)
            if len(decisions) >= limit:
                break
            if record is not None and record.victims:
                if now_ms - waiting.preempted_at_ms >= REMIND_MS:
                    decisions.append(self._preempt(waiting, tuple(sorted(record.victims)), now_ms))
            else:
                del self._reserving[gang]
                decision = self._decide(waiting, now_ms)
                if isinstance(decision, HivedWait):
                    self._queue.add(waiting)
                else:
                    decisions.append(decision)
        return decisions

    def _right(self, waiting: Waiting) -> tuple[int, float, int, int]:
        minus_priority, submitted, number = waiting.order
        share = 0.0
        if waiting.gang.priority < 0:
            # What is left over is shared in proportion to what was promised.
            name = waiting.gang.virtual_cluster
            promised = sum(view.size for view in self.core.cluster.views_of(name))
            share = self.core.cluster.borrowed.get(name, 0) / max(1, promised)
        return minus_priority, share, submitted, number

    def _decide(self, waiting: Waiting, now_ms: int) -> Decision | HivedWait:
        gang = waiting.gang
        try:
            answer = self.core.schedule(waiting.request, now_ms)
        except Refused as refused:
            # It was accepted under another configuration; the next one may have what it asks for again.
            return HivedWait(gang.id, Code.TOO_LARGE, refused.message, "a configuration that has what it asks for")
        if isinstance(answer, HivedWait):
            return answer
        self.core.commit(gang.id, now_ms)
        self._queue.remove(gang.id)
        if isinstance(answer, HivedPreempt):
            self._reserving[gang.id] = waiting
            return self._preempt(waiting, answer.victims, now_ms)
        self._gangs[gang.id] = gang
        self._proposed[gang.id] = waiting
        kind = self.core.cluster.chains[answer.chain].spec.leaf_type
        spots = tuple([Spot(spot.node, self.skus.gpus_of(kind, spot.devices)) for spot in answer.spots])
        return Place(gang.id, spots)

    def _preempt(self, waiting: Waiting, victims: tuple[str, ...], now_ms: int) -> Preempt:
        waiting.preempted_at_ms = now_ms
        name = waiting.gang.job or waiting.gang.id
        told = f"{name} has more right to these devices: its virtual cluster was promised them"
        return Preempt(waiting.gang.id, victims, told)

    def commit(self, gang: str) -> None:
        """The placement proposed for `gang` became a fact."""
        self._proposed.pop(gang, None)

    def reject(self, gang: str) -> None:
        """The placement proposed for `gang` did not become a fact: it waits again, where it was in the queue."""
        waiting = self._proposed.pop(gang, None) or self._reserving.pop(gang, None)
        if waiting is not None:
            self.core.release(gang)
            self._gangs.pop(gang, None)
            self._queue.add(waiting)

    def release(self, gang: str, members: Iterable[int] | None = None) -> None:
        """These members (all when None) hold their spots no longer. A gang without spots is forgotten."""
        if gang in self._reserving:
            return
        self.core.release(gang, members)
        if gang not in self.core.cluster.gangs:
            self._gangs.pop(gang, None)
            self._proposed.pop(gang, None)

    def cancel(self, gang: str) -> None:
        """A waiting gang wants nothing any more. Unknown gangs are ignored."""
        self._unclear.pop(gang, None)
        self._queue.remove(gang)
        if self._reserving.pop(gang, None) is not None:
            self.core.cancel(gang)
        if gang in self._proposed:
            self.release(gang)

    def why(self, gang: str) -> Wait | None:
        """Return why a gang waits; None when it does not."""
        reserving = self._reserving.get(gang)
        if reserving is not None:
            record = self.core.cluster.gangs.get(gang)
            count = len(record.victims) if record is not None else 0
            told = f"its devices are reserved; it waits for {count} gangs with less right to them to leave"
            return Wait(gang, Why.NOT_ENOUGH_FREE, told, "these gangs ending", (), 1)
        if gang in self._unclear:
            return Wait(gang, Why.NO_NODE, self._unclear[gang][1], "a smaller ask, or nodes that have what it asks for")
        waiting = self._queue.get(gang)
        if waiting is None:
            return None
        ahead = self._queue.ahead_of(waiting)
        names = tuple(other.gang.job or other.gang.id for other in reversed(ahead[-AHEAD_MAX:]))
        code, told, unblock = self._reason(waiting)
        return Wait(gang, code, told, unblock, names, len(ahead) + 1)

    def _reason(self, waiting: Waiting) -> tuple[Why, str, str]:
        lane = self._queue.lane_of(waiting.gang.id)
        blocker = self._queue.get(lane.first.behind) if lane.first.behind is not None else None
        if blocker is not None:
            first = blocker.gang
            told = f"{first.job or first.id} has waited long in the same virtual cluster and goes first"
            higher = first.priority > waiting.gang.priority
            return Why.BEHIND_HIGHER_PRIORITY if higher else Why.BEHIND_OLDER_JOB, told, "that job starting or leaving"
        if lane.answer is None:
            return Why.NOT_YET_LOOKED_AT, "the scheduler has not looked at it yet", "a moment's patience"
        return WHY_OF[lane.answer.code], lane.answer.told, lane.answer.unblock

    def _hear(self) -> None:
        """Tell the core all news of nodes at once."""
        if self._news:
            news, self._news = self._news, {}
            self.core.set_nodes(news)
            for gang, _ in list(self._unclear.values()):
                self.add(gang)

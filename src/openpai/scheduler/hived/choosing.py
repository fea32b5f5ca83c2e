"""One round of decisions: who of those that wait gets what is free, whom that costs, and who may pass whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from openpai.protocol.errors import Refused
from openpai.scheduler.hived.model import Bind, Code, GangRecord
from openpai.scheduler.hived.model import Preempt as HivedPreempt
from openpai.scheduler.hived.model import Wait as HivedWait
from openpai.scheduler.hived.queueing import Head, Waiting, group_of
from openpai.scheduler.hived.seating import spot_for
from openpai.scheduler.hived.standing import Held
from openpai.scheduler.hived.state import SchedulerState
from openpai.scheduler.model import Decision, Gang, Place, Preempt, Spot

REMIND_MS: Final = 10_000
"""Victims that have not left by then are named again, in case whoever was to stop them forgot."""

Answers = Sequence[Bind | HivedPreempt]


class Round:
    """Everything that is decided at one moment."""

    def __init__(self, state: SchedulerState, now_ms: int) -> None:
        self._state = state
        self._now_ms = now_ms
        self._blockers: dict[str, Waiting | None] = {}
        """By group, who has waited too long to be passed."""

    def decide(self, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` decisions, best right first."""
        state = self._state
        state.now_ms = self._now_ms
        state.hear()
        state.standing.settle(self._now_ms)
        if state.standing.limits.was_eased():
            state.queue.touch()
        decisions = self._take_reserved(limit)
        self._look_through(decisions, limit)
        while len(decisions) < limit and self._take_back_displaced():
            self._look_through(decisions, limit)
        for group, blocker in self._blockers.items():
            state.held_up.pop(group, None)
            if blocker is not None:
                state.held_up[group] = blocker.gang.id
        state.standing.settle_use(self._now_ms)
        return tuple(decisions)

    def _look_through(self, decisions: list[Decision], limit: int) -> None:
        state = self._state
        for head in state.queue.heads(state.right, state.core.cluster.freed, state.standing.ledger.given):
            if len(decisions) >= limit:
                break
            decision = self._look_at(head)
            if decision is not None:
                decisions.append(decision)

    def _take_back_displaced(self) -> bool:
        """Let those wait again whose reserved devices went to somebody with more right; return whether there are."""
        state, gangs = self._state, self._state.core.cluster.gangs
        displaced = [
            waiting
            for waiting in state.reserving.values()
            if any(portion.request.id not in gangs for portion in waiting.portions)
        ]
        for waiting in displaced:
            state.give_up(waiting)
            state.queue.add(waiting)
        return bool(displaced)

    def _look_at(self, head: Head) -> Decision | None:
        state, (lane, waiting) = self._state, head
        blocker = self._blockers.setdefault(lane.group, None)
        if state.standing.limits.keeping_back(waiting.gang) is not None:
            return None
        if blocker is not None:
            if not self._may_pass(waiting, blocker):
                return None
            passing = self._decide(waiting, may_preempt=False)
            return None if isinstance(passing, HivedWait) else passing
        before = state.core.cluster.freed.get(lane.group, 0)
        answer = lane.answer
        if lane.looked_at != before or answer is None:
            decision = self._decide(waiting)
            if not isinstance(decision, HivedWait):
                return decision
            lane.answer, lane.looked_at = answer, _ = decision, before
        if self._holds_up(waiting, answer):
            self._blockers[lane.group] = waiting
        return None

    def _holds_up(self, waiting: Waiting, answer: HivedWait) -> bool:
        """Return whether nobody with less right may pass a gang that found no room."""
        state, group = self._state, group_of(waiting.gang)
        if not group or self._now_ms - waiting.gang.submitted_at_ms < state.patience_ms:
            return False
        if answer.code is Code.TOO_LARGE:
            return False
        return state.backfilling.is_possible(state.core.cluster, waiting, state.health)

    def _may_pass(self, waiting: Waiting, blocker: Waiting) -> bool:
        """Return whether a gang is surely gone before one that waited too long could start."""
        limit = waiting.gang.time_limit_ms
        if limit is None:
            return False
        state, name = self._state, blocker.gang.virtual_cluster
        ends = (
            (held.ends_ms, held.portions)
            for held in state.standing.held.values()
            if held.ends_ms is not None and held.gang.virtual_cluster == name
        )
        shadow_ms = state.backfilling.shadow_ms(state.core.cluster, blocker, ends, self._now_ms)
        return shadow_ms is not None and self._now_ms + limit <= shadow_ms

    def _take_reserved(self, limit: int) -> list[Decision]:
        """Place the gangs whose victims have left; look again for those that lost their reservation."""
        decisions: list[Decision] = []
        state = self._state
        gangs = state.core.cluster.gangs
        for waiting in list(state.reserving.values()):
            if len(decisions) >= limit:
                break
            records = [gangs.get(portion.request.id) for portion in waiting.portions]
            victims = sorted({victim for record in records if record is not None for victim in record.victims})
            if victims and None not in records:
                if self._now_ms - waiting.preempted_at_ms >= REMIND_MS:
                    decisions.append(self._preempt(waiting, victims))
                continue
            if len(records) > 1 and not all(self._is_sound(record) for record in records):
                state.give_up(waiting)
            state.unreserve(waiting)
            if state.standing.limits.keeping_back(waiting.gang) is not None:
                # The limit was lowered while it waited for others to leave.
                state.give_up(waiting)
                state.queue.add(waiting)
                continue
            decision = self._decide(waiting)
            if isinstance(decision, HivedWait):
                state.queue.add(waiting)
            else:
                decisions.append(decision)
        return decisions

    def _is_sound(self, record: GangRecord | None) -> bool:
        """Return whether what was reserved is still there and can be used."""
        is_bad = self._state.core.cluster.is_bad_spot
        return record is not None and not any(part is not None and is_bad(part) for part in record.parts)

    def _decide(self, waiting: Waiting, *, may_preempt: bool = True) -> Decision | HivedWait:
        state, gang = self._state, waiting.gang
        try:
            answers = self._ask(waiting)
        except Refused as refused:
            # It was accepted under another configuration; the next one may have what it asks for again.
            return HivedWait(gang.id, Code.TOO_LARGE, refused.message, "a configuration that has what it asks for")
        if isinstance(answers, HivedWait):
            return replace(answers, gang=gang.id)
        victims = {name for answer in answers if isinstance(answer, HivedPreempt) for name in answer.victims}
        if not may_preempt and (victims or any(answer.displaced for answer in answers)):
            # Victims take their time to leave: what it would then run is no longer sure to end in time.
            state.core.roll_back()
            told = "it may pass a gang that waited longer only where it need not wait for others to leave"
            return HivedWait(gang.id, Code.QUOTA_USED, told, "jobs finishing")
        self._commit(waiting)
        state.queue.remove(gang.id)
        if victims:
            state.reserve(waiting)
            return self._preempt(waiting, victims)
        state.hold(Held(gang, waiting.portions, waiting.number, self._now_ms, is_proposed=True))
        return Place(gang.id, self._spots(waiting, answers))

    def _ask(self, waiting: Waiting) -> Answers | HivedWait:
        core, now_ms = self._state.core, self._now_ms
        requests = [portion.request for portion in waiting.portions]
        if len(requests) == 1:
            answer = core.schedule(requests[0], now_ms)
            return answer if isinstance(answer, HivedWait) else (answer,)
        if requests[0].id not in core.cluster.gangs:
            return core.schedule_all(requests, now_ms)
        answers = [core.schedule(request, now_ms) for request in requests]
        return [answer for answer in answers if not isinstance(answer, HivedWait)]

    def _commit(self, waiting: Waiting) -> None:
        core, names = self._state.core, [portion.request.id for portion in waiting.portions]
        if core.proposes_several:
            core.commit_all(self._now_ms)
            self._state.call_together(waiting.gang.id, names)
            return
        for name in names:
            core.commit(name, self._now_ms)

    def _spots(self, waiting: Waiting, answers: Answers) -> tuple[Spot, ...]:
        state, gang = self._state, waiting.gang
        found: dict[int, Spot] = {}
        for portion, answer in zip(waiting.portions, answers, strict=True):
            kind = state.core.cluster.chains[answer.chain].spec.leaf_type
            for member, held in zip(portion.members, answer.spots, strict=True):
                found[member] = spot_for(state.machines.skus, answer.chain, kind, held, gang.asks[member])
        return tuple([found[member] for member in range(len(gang.asks))])

    def _preempt(self, waiting: Waiting, victims: Iterable[str]) -> Preempt:
        waiting.preempted_at_ms = self._now_ms
        named = {self._state.outward(victim): self._why(waiting.gang, victim) for victim in sorted(victims)}
        return Preempt(waiting.gang.id, tuple(sorted(named)), tuple([named[victim] for victim in sorted(named)]))

    def _why(self, gang: Gang, victim: str) -> str:
        """Return why a gang must leave for another, in words its owner understands."""
        record, name = self._state.core.cluster.gangs[victim], gang.job or gang.id
        if record.request.priority >= 0 and record.lazily_preempted_by is None:
            return f"{name} is more urgent and needs these devices of virtual cluster {gang.virtual_cluster}"
        own = "an opportunistic job" if record.request.priority < 0 else "this job, which lost its guarantee,"
        promised = f"its virtual cluster {gang.virtual_cluster} was promised them"
        return f"{name} needs these devices: {promised}, and {own} has no right to them"

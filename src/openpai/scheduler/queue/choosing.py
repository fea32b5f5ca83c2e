"""One round of decisions: who of those that wait gets what is free, whom that costs, and who may pass whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.model import Bind, Code, GangRecord
from openpai.scheduler.cells.model import Preempt as HivedPreempt
from openpai.scheduler.cells.model import Wait as HivedWait
from openpai.scheduler.model import Decision, Gang, Order, Place, Preempt, Spot
from openpai.scheduler.queue.borrowing import borrow, may_borrow, promote
from openpai.scheduler.queue.keeping import (
    AGAIN_MIN_MS,
    ALONE_AFTER,
    CLOSED_AFTER,
    IDLE_SHARE,
    Kept,
    Leaving,
    choose,
)
from openpai.scheduler.queue.lanes import Head, Lane, Waiting
from openpai.scheduler.queue.placement_hint import spot_for
from openpai.scheduler.queue.running import RunningGang
from openpai.scheduler.queue.state import SchedulerState

REMIND_MS: Final = 10_000
"""Victims that have not left by then are named again, in case whoever was to stop them forgot."""

GUEST_QUANTILE: Final = 0.75
"""A gang may start on cells kept for another if three quarters of those like it ran no longer than there is time."""

RETRY: Final = 64
"""Where no cells are kept, they are looked for again when a gang has waited so much of its time longer."""

Answers = Sequence[Bind | HivedPreempt]


class Round:
    """Everything that is decided at one moment."""

    def __init__(self, state: SchedulerState, now_ms: int) -> None:
        self._state = state
        self._now_ms = now_ms
        self._holding: dict[str, Kept] = {}
        """The kept cells that nobody else gets at this moment, by virtual cluster."""
        self._patient: dict[str, list[Waiting]] = {}
        """By virtual cluster, who found no room and has waited long enough to have cells kept."""

    def decide(self, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` decisions, best right first."""
        state = self._state
        state.now_ms = self._now_ms
        state.hear()
        state.running.settle(self._now_ms)
        if state.running.limits.was_eased():
            state.queue.touch()
        state.give_turns()
        self._review_kept()
        decisions = self._take_reserved(limit)
        self._look_through(decisions, limit)
        while len(decisions) < limit and self._take_back_displaced():
            self._look_through(decisions, limit)
        for name, patient in self._patient.items():
            self._keep_for_one(name, patient)
        state.running.settle_use(self._now_ms)
        return tuple(decisions)

    def _look_through(self, decisions: list[Decision], limit: int) -> None:
        state = self._state
        try:
            for head in state.queue.heads(state.order_key, state.core.cluster.freed, state.running.ledger.given):
                if len(decisions) >= limit:
                    break
                decision = self._look_at(head)
                if decision is not None:
                    decisions.append(decision)
            # Whoever waits had the choice, and what is kept is held: what is left promotes those that borrow.
            for name in list(state.lent):
                promote(state, name)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for kept in self._holding.values():
            kept.let_go()
        self._holding.clear()

    def _take_back_displaced(self) -> bool:
        """Let those wait again whose reserved devices went to somebody with more right; return whether there are."""
        state, gangs = self._state, self._state.core.cluster.gangs
        displaced = [
            waiting
            for waiting in state.reserving.values()
            if any(part.request.id not in gangs for part in waiting.requests)
        ]
        for waiting in displaced:
            state.give_up(waiting)
            state.queue.add(waiting)
        return bool(displaced)

    def _look_at(self, head: Head) -> Decision | None:
        state, (lane, waiting) = self._state, head
        gang, cluster = waiting.gang, state.core.cluster
        if gang.priority < 0:
            # Whoever leaves at once when asked may use what is kept meanwhile.
            self._let_go()
        if state.running.limits.keeping_back(gang) is not None:
            return None
        before = cluster.freed.get(lane.group, 0)
        if lane.looked_at != before or lane.answer is None:
            decision = self._decide(waiting)
            if not isinstance(decision, HivedWait):
                return decision
            lane.answer, lane.looked_at = decision, before
        if not lane.group:
            return None
        kept = state.kept.get(lane.group)
        if kept is not None and kept.gang == gang.id:
            self._hold(kept, waiting)
        elif lane.group in self._holding:
            passing = self._pass(lane, waiting, self._holding[lane.group], before)
            if passing is not None:
                return passing
        borrowing = self._borrow(lane, waiting) if may_borrow(waiting) else None
        if borrowing is not None:
            return borrowing
        if lane.answer.code is not Code.TOO_LARGE:
            patient_ms = gang.submitted_at_ms + self._patience_ms(waiting)
            if self._now_ms >= patient_ms:
                self._patient.setdefault(lane.group, []).append(waiting)
            else:
                state.look_again(lane.group, patient_ms)
        return None

    def _waited_ms(self, waiting: Waiting) -> int:
        return self._now_ms - waiting.gang.submitted_at_ms

    def _patience_ms(self, waiting: Waiting) -> int:
        """Return how long a gang waits before cells are kept for it."""
        name = waiting.gang.virtual_cluster
        if self._state.order_of(waiting.gang) is Order.SHORTEST:
            return self._state.passed_max_ms(name)
        patience_ms = self._state.patience_of(name)
        return patience_ms if len(waiting.gang.asks) > 1 else ALONE_AFTER * patience_ms

    def _is_closed(self, waiting: Waiting) -> bool:
        """Return whether nobody new starts any more on cells kept for a gang."""
        patience_ms = self._patience_ms(waiting)
        return len(waiting.gang.asks) == 1 or self._waited_ms(waiting) >= CLOSED_AFTER * patience_ms

    def _hold(self, kept: Kept, waiting: Waiting) -> None:
        if kept.closed_ms is None and not self._is_cheap(kept, waiting):
            return
        self._holding[kept.virtual_cluster] = kept
        kept.hold(self._state.core.cluster)

    def _is_cheap(self, kept: Kept, waiting: Waiting) -> bool:
        """Return whether keeping cells leaves little idle compared with what the gang waited already."""
        idle_ms = kept.idle(self._state.core.cluster) * max(0, kept.free_ms - self._now_ms)
        return idle_ms <= IDLE_SHARE * waiting.devices * self._waited_ms(waiting)

    def _pass(self, lane: Lane, waiting: Waiting, kept: Kept, freed: int) -> Decision | None:
        """Let a gang start on kept cells if it should have left them again by the time they are needed."""
        state, gang = self._state, waiting.gang
        tried = (freed, kept.chosen_ms)
        if kept.closed_ms is not None or lane.tried == tried:
            return None
        length_ms = state.running.run_times.guess(gang, GUEST_QUANTILE)
        if gang.time_limit_ms is not None:
            length_ms = min(gang.time_limit_ms, length_ms or gang.time_limit_ms)
        if length_ms is None or self._now_ms + length_ms > kept.free_ms:
            return None
        lane.tried = tried
        kept.let_go()
        for part in waiting.requests:
            state.core.forget_failure(part.request)
        decision = self._decide(waiting, may_preempt=False)
        kept.hold(state.core.cluster)
        return None if isinstance(decision, HivedWait) else decision

    def _borrow(self, lane: Lane, waiting: Waiting) -> Decision | None:
        state, gang = self._state, waiting.gang
        freed = state.core.cluster.freed[""]
        if lane.borrowed_at == freed:
            return None
        found = borrow(state, waiting, self._now_ms)
        if found is None:
            lane.borrowed_at = freed
            return None
        requests, answer = found
        state.queue.remove(gang.id)
        held = RunningGang(gang, requests, waiting.number, self._now_ms, is_proposed=True, is_lent=True)
        state.hold(held)
        return Place(gang.id, self._spots(waiting, (answer,)))

    def _review_kept(self) -> None:
        """Drop what is kept for gangs that wait no longer, or not at the front, and look again where it is time."""
        state = self._state
        for name, kept in list(state.kept.items()):
            waiting = state.queue.get(kept.gang)
            if waiting is None or not self._may_go_first(waiting, name):
                state.keep(name, None)
        for name, at_ms in list(state.again_ms.items()):
            if self._now_ms >= at_ms:
                del state.again_ms[name]
                state.queue.touch(name)

    def _may_go_first(self, waiting: Waiting, name: str) -> bool:
        gang, state = waiting.gang, self._state
        is_here = gang.virtual_cluster == name and gang.priority >= 0 and state.queue.is_first(waiting)
        return is_here and state.running.limits.keeping_back(gang) is None

    def _keep_for_one(self, name: str, patient: list[Waiting]) -> None:
        """Keep the cells that will be free soonest for the gang that has waited longest, and choose again in time."""
        state = self._state
        kept = state.kept.get(name)
        found = [waiting for waiting in patient if state.queue.get(waiting.gang.id) is waiting]
        if not found:
            return
        # A gang that has cells kept goes on having them, unless somebody waits who is more urgent.
        first = min(
            found,
            key=lambda waiting: (
                -waiting.gang.priority, -waiting.gang.rank, kept is None or kept.gang != waiting.gang.id,
                not self._is_closed(waiting), waiting.gang.submitted_at_ms, waiting.number,
            ),
        )  # fmt: skip
        is_same = kept is not None and kept.gang == first.gang.id
        if kept is not None and is_same and self._now_ms < kept.again_ms:
            state.look_again(name, kept.again_ms)
            return
        retry_ms = state.retry_ms.get(name, 0)
        if kept is None and self._now_ms < retry_ms:
            state.look_again(name, retry_ms)
            return
        state.retry_ms[name] = self._now_ms + max(AGAIN_MIN_MS, self._waited_ms(first) // RETRY)
        if not state.backfilling.is_possible(state.core.cluster, first, state.health):
            state.keep(name, None)
            return
        closed_ms = kept.closed_ms if kept is not None and is_same else None
        if closed_ms is None and self._is_closed(first):
            closed_ms = self._now_ms
        chosen = choose(state.core.cluster, first, self._leaving(name, closed_ms), self._now_ms)
        if chosen is not None:
            chosen.closed_ms = closed_ms
        elif kept is not None and is_same and kept.closed_ms is not None:
            # Closed cells become free however things go; they are only given up for others that do, too.
            chosen = replace(kept, chosen_ms=self._now_ms)
        state.keep(name, chosen)
        state.look_again(name, state.retry_ms[name] if chosen is None else chosen.again_ms)

    def _leaving(self, name: str, closed_ms: int | None) -> list[Leaving]:
        """Return when the gangs of a virtual cluster should leave that were there when the cells were closed."""
        state = self._state
        return [
            Leaving(self._now_ms + state.left_ms(held), held.requests)
            for held in state.running.gangs.values()
            if held.gang.virtual_cluster == name and (closed_ms is None or (held.since_ms or 0) <= closed_ms)
        ]

    def _take_reserved(self, limit: int) -> list[Decision]:
        """Place the gangs whose victims have left; look again for those that lost their reservation."""
        decisions: list[Decision] = []
        state = self._state
        gangs = state.core.cluster.gangs
        for waiting in list(state.reserving.values()):
            if len(decisions) >= limit:
                break
            records = [gangs.get(part.request.id) for part in waiting.requests]
            victims = sorted({victim for record in records if record is not None for victim in record.victims})
            if victims and None not in records:
                # Also after the clock was set back.
                if not 0 <= self._now_ms - waiting.preempted_at_ms < REMIND_MS:
                    decisions.append(self._preempt(waiting, victims))
                continue
            if len(records) > 1 and not all(self._is_sound(record) for record in records):
                state.give_up(waiting)
            state.unreserve(waiting)
            if state.running.limits.keeping_back(waiting.gang) is not None:
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
            message = "it may pass a gang that waited longer only where it need not wait for others to leave"
            return HivedWait(gang.id, Code.QUOTA_USED, message, "jobs finishing")
        self._commit(waiting)
        state.queue.remove(gang.id)
        if victims:
            state.reserve(waiting)
            return self._preempt(waiting, victims)
        state.hold(RunningGang(gang, waiting.requests, waiting.number, self._now_ms, is_proposed=True))
        return Place(gang.id, self._spots(waiting, answers))

    def _ask(self, waiting: Waiting) -> Answers | HivedWait:
        core, now_ms = self._state.core, self._now_ms
        requests = [part.request for part in waiting.requests]
        if len(requests) == 1:
            answer = core.schedule(requests[0], now_ms)
            return answer if isinstance(answer, HivedWait) else (answer,)
        if requests[0].id not in core.cluster.gangs:
            return core.schedule_all(requests, now_ms)
        answers = [core.schedule(request, now_ms) for request in requests]
        return [answer for answer in answers if not isinstance(answer, HivedWait)]

    def _commit(self, waiting: Waiting) -> None:
        core, names = self._state.core, [part.request.id for part in waiting.requests]
        if core.proposes_several:
            core.commit_all(self._now_ms)
            self._state.call_together(waiting.gang.id, names)
            return
        for name in names:
            core.commit(name, self._now_ms)

    def _spots(self, waiting: Waiting, answers: Answers) -> tuple[Spot, ...]:
        state, gang = self._state, waiting.gang
        found: dict[int, Spot] = {}
        for part, answer in zip(waiting.requests, answers, strict=True):
            kind = state.core.cluster.chains[answer.chain].spec.leaf_type
            for member, held in zip(part.members, answer.spots, strict=True):
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
        held = self._state.running.gangs.get(self._state.outward(victim))
        if held is not None and held.is_lent:
            promised = f"its virtual cluster {gang.virtual_cluster} was promised them"
            return f"{name} needs these devices: {promised}, and this job, which may be interrupted, borrowed them"
        own = "an opportunistic job" if record.request.priority < 0 else "this job, which lost its guarantee,"
        promised = f"its virtual cluster {gang.virtual_cluster} was promised them"
        return f"{name} needs these devices: {promised}, and {own} has no right to them"

"""One round of decisions: which waiting gangs start, which running gangs they preempt, and which may pass others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from openpai.protocol.errors import Refused
from openpai.scheduler.cells.decision import devices_within_reach, missing_devices
from openpai.scheduler.cells.model import Bind, Code, GangRecord
from openpai.scheduler.cells.model import Preempt as HivedPreempt
from openpai.scheduler.cells.model import Wait as HivedWait
from openpai.scheduler.model import Gang, Order, Preempt
from openpai.scheduler.queue.backfill import Kept, each_left
from openpai.scheduler.queue.borrowing import borrow, may_borrow, promote
from openpai.scheduler.queue.kept_cells import KeptCells
from openpai.scheduler.queue.moving import make_room, review
from openpai.scheduler.queue.running import RunningGang
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Lane, Waiting

REMIND_MS: Final = 10_000
"""Victims that have not left after this time are preempted again, in case the first decision was lost."""

MOVES_AGAIN_MS: Final = 15 * 60 * 1000
"""How long after a search found no gangs to move for a gang the next one is made."""

Answers = Sequence[Bind | HivedPreempt]
Decision = RunningGang | Preempt
"""A gang that has its spots, or one for which others must leave first."""


class Hopeless:
    """The gangs that found no room before and find none now for sure: nothing was freed, or too little.

    Only a few gangs can start when something is freed; this finds the others in the time of a few comparisons.
    """

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._within_reach: dict[tuple[str, str | None, str | None, int], int] = {}
        self.gangs: list[Waiting] = []
        self._freed: dict[str, int] = {}

    def is_freed_since(self) -> bool:
        """Return whether something was freed for any of them after it was found."""
        freed = self._state.core.cluster.freed
        return any(freed[name] != before for name, before in self._freed.items())

    def found(self, lane: Lane, waiting: Waiting) -> bool:
        """Return whether the first gang of a lane is one of them, with what is free at this moment."""
        state, gang, answer = self._state, waiting.gang, lane.answer
        if answer is None or answer.code is Code.TOO_LARGE or gang.priority < 0 or gang.is_interruptible:
            return False
        name = gang.virtual_cluster
        freed, kept = state.core.cluster.freed[name], state.kept.get(name)
        if lane.looked_at == freed and (kept is None or lane.tried == (freed, kept.chosen_ms)):
            if kept is not None and state.outranks_kept(gang):
                return False
        elif not self._lacks_devices(waiting):
            return False
        # Other cells are withheld for the first of these, and the others may have other ways to start, or not start.
        if (
            (kept is not None and kept.gang == gang.id)
            or name in state.moves.allowed
            or state.running.limits.exceeded(gang) is not None
        ):
            return False
        lane.looked_at = self._freed[name] = freed
        self.gangs.append(waiting)
        return True

    def _lacks_devices(self, waiting: Waiting) -> bool:
        if len(waiting.requests) > 1:
            return False
        cluster, request = self._state.core.cluster, waiting.requests[0]
        key = request.virtual_cluster, request.leaf_type, request.pinned_cell, request.priority
        devices = self._within_reach.get(key)
        if devices is None:
            devices = self._within_reach[key] = devices_within_reach(cluster, request)
        if request.devices <= devices:
            return False
        cluster.watch(request)
        return True


class Round:
    """Makes all decisions of one moment."""

    def __init__(self, state: SchedulerState, now_ms: int) -> None:
        self._state = state
        self._now_ms = now_ms
        self._kept: KeptCells
        """Made once there is something to decide about, which in half of all rounds there is not."""

    def decide(self, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` decisions, the most urgent gang first."""
        state = self._state
        state.now_ms = self._now_ms
        state.sync_nodes()
        state.running.settle(self._now_ms)
        if state.running.limits.take_eased():
            state.queue.touch()
        if state.moves.open:
            review(state, self._now_ms)
        state.update_turns()
        for name in state.look_times.take_due(self._now_ms):
            state.queue.touch(name)
        if not (state.queue.has_changed(state.core.cluster.freed) or state.reserving or state.lent):
            return ()
        self._kept = KeptCells(state, self._now_ms)
        self._kept.review()
        self._update_drains()
        decisions = self._take_reserved(limit) if state.reserving else []
        self._look_through(decisions, limit)
        while state.reserving and len(decisions) < limit and self._take_back_displaced():
            self._look_through(decisions, limit)
        if self._kept.keep():
            # Cells that were kept before are open to all now.
            self._look_through(decisions, limit)
        state.running.settle_use(self._now_ms)
        return tuple(decisions)

    def _update_drains(self) -> None:
        """Choose again which nodes are left to drain, where gangs of whole nodes wait and something has changed."""
        state, queue, drains = self._state, self._state.queue, self._state.drains
        wholes = queue.wholes
        if not wholes and not drains.of:
            return
        names = wholes if drains.of.keys() <= wholes.keys() else {**wholes, **drains.of}
        for name in queue.due_among(names, state.core.cluster.freed):
            if name in wholes and state.orders.get(name, Order.FAIR) is Order.FAIR:
                drains.update(name, self._now_ms, self._all_left_ms, queue.has_smaller)
            else:
                drains.set(name, None)

    def _all_left_ms(self, requests: Sequence[str], latest_ms: int | None = None) -> int | None:
        """Return when all requests with these names have left with an even chance.

        None if some of them do not run, or if that is later than `latest_ms`.
        """
        state, chance, all_left_ms = self._state, each_left(len(requests)), self._now_ms
        for request in requests:
            held = state.running.gangs.get(state.gang_name(request))
            if held is None:
                return None
            all_left_ms = max(all_left_ms, self._now_ms + state.left_ms(held, chance))
            if latest_ms is not None and all_left_ms > latest_ms:
                return None
        return all_left_ms

    def _look_through(self, decisions: list[Decision], limit: int) -> None:
        state, is_freed_since = self._state, False
        try:
            hopeless = Hopeless(state)
            freed, given = state.core.cluster.freed, state.running.ledger.given
            for lane, waiting in state.queue.heads(state.order_key, freed, given, hopeless.found):
                if len(decisions) >= limit:
                    break
                decision = self._look_at(lane, waiting)
                if decision is not None:
                    decisions.append(decision)
            else:
                for waiting in hopeless.gangs:
                    self._kept.note_failure(waiting.gang.virtual_cluster, waiting)
                is_freed_since = hopeless.is_freed_since()
            # Waiting gangs come first and kept cells are held; gangs that borrow get guarantees from the rest.
            for name in sorted(state.lent) if state.lent else ():
                promote(state, name)
        finally:
            if self._kept.held:
                self._kept.release_all()
        if is_freed_since:
            # Another gang takes the place of a larger one, and leaves room for some of them.
            self._look_through(decisions, limit)

    def _take_back_displaced(self) -> bool:
        """Queue gangs again whose reserved devices went to a more urgent gang; return whether there are any."""
        state, gangs = self._state, self._state.core.cluster.gangs
        displaced = [
            waiting
            for waiting in state.reserving.values()
            if any(request.id not in gangs for request in waiting.requests)
        ]
        for waiting in displaced:
            state.give_up(waiting)
            state.put_back(waiting)
        return bool(displaced)

    def _look_at(self, lane: Lane, waiting: Waiting) -> Decision | None:
        state, gang, cluster = self._state, waiting.gang, self._state.core.cluster
        if gang.priority < 0:
            # An opportunistic gang leaves at once when preempted, so it may use kept cells meanwhile.
            self._kept.release_all()
        if state.running.limits.exceeded(gang) is not None:
            return None
        before = cluster.freed.get(lane.group, 0)
        answer = self._answer(lane, waiting, before)
        if not isinstance(answer, HivedWait):
            return answer
        lane.answer, lane.looked_at = answer, before
        if not lane.group:
            return None
        kept = state.kept.get(lane.group)
        if kept is not None and kept.gang == gang.id:
            self._kept.hold(kept, waiting)
        elif lane.group in self._kept.held and answer.code is not Code.TOO_LARGE:
            passing = self._pass(lane, waiting, self._kept.held[lane.group], before)
            if passing is not None:
                return passing
        borrowing = self._borrow(lane, waiting) if may_borrow(waiting) else None
        if borrowing is not None:
            return borrowing
        if gang.virtual_cluster in state.moves.allowed and answer.code is not Code.TOO_LARGE:
            moving = self._make_room(lane, waiting)
            if moving is not None:
                return moving
        if answer.code is not Code.TOO_LARGE:
            self._kept.note_failure(lane.group, waiting)
        return None

    def _answer(self, lane: Lane, waiting: Waiting, freed: int) -> Decision | HivedWait:
        """Decide about a gang, unless too little was freed since the last decision about its lane."""
        state, last = self._state, lane.answer
        if last is not None:
            is_too_large = last.code is Code.TOO_LARGE
            # What others found while cells were withheld from them says nothing about a more urgent gang.
            if lane.looked_at == freed and (is_too_large or not self._outranks_kept(lane, waiting)):
                return last
            if not is_too_large and state.core.still_lacks_devices(waiting.requests):
                return last
        if self._outranks_kept(lane, waiting):
            for request in waiting.requests:
                state.core.forget_failure(request)
        return self._decide(waiting)

    def _outranks_kept(self, lane: Lane, waiting: Waiting) -> bool:
        return lane.group in self._state.kept and self._state.outranks_kept(waiting.gang)

    def _pass(self, lane: Lane, waiting: Waiting, kept: Kept, freed: int) -> Decision | None:
        """Start a gang on kept cells if it should end before they are needed."""
        state = self._state
        tried = (freed, kept.chosen_ms)
        if lane.tried == tried or self._lacks_more(waiting, kept.held_devices) or not self._kept.admits(kept, waiting):
            return None
        lane.tried = tried
        kept.let_go()
        for request in waiting.requests:
            state.core.forget_failure(request)
        decision = self._decide(waiting, may_preempt=False)
        kept.hold(state.core.cluster)
        if isinstance(decision, HivedWait):
            return None
        if kept.closed_ms is not None:
            kept.guests = (*kept.guests, waiting.gang.id)
        return decision

    def _lacks_more(self, waiting: Waiting, devices: int) -> bool:
        """Return whether a gang finds no room for sure even if so many devices more were free."""
        cluster = self._state.core.cluster
        return any(missing_devices(cluster, request) > devices for request in waiting.requests)

    def _borrow(self, lane: Lane, waiting: Waiting) -> Decision | None:
        state, gang = self._state, waiting.gang
        freed = state.core.cluster.freed[""]
        if lane.borrowed_at == freed:
            return None
        request = borrow(state, waiting, self._now_ms)
        if request is None:
            lane.borrowed_at = freed
            return None
        state.queue.remove(gang.id)
        held = RunningGang(gang, (request,), waiting.number, self._now_ms, is_proposed=True, is_lent=True)
        state.hold(held)
        return held

    def _make_room(self, lane: Lane, waiting: Waiting) -> Decision | None:
        """Move other gangs for a gang, unless that was tried a short time ago."""
        state, now_ms = self._state, self._now_ms
        if now_ms < lane.moves_tried_ms + MOVES_AGAIN_MS:
            return None
        held = self._kept.held.pop(lane.group, None)
        is_own = held is not None and held.gang == waiting.gang.id
        if held is not None and is_own:
            held.let_go()
        victims = make_room(state, waiting, now_ms)
        if held is not None and not (is_own and victims is not None):
            self._kept.held[lane.group] = held
            held.hold(state.core.cluster)
        if victims is None:
            lane.moves_tried_ms = now_ms
            state.look_times.add(waiting.gang.virtual_cluster, now_ms + MOVES_AGAIN_MS)
            return None
        state.queue.remove(waiting.gang.id)
        state.reserve(waiting)
        moved = {move.gang: move.lost_ms for move in state.moves.open.values() if move.room_for == waiting.gang.id}
        return replace(self._preempt(waiting, victims), moved=dict(sorted(moved.items())))

    def _take_reserved(self, limit: int) -> list[Decision]:
        """Place the gangs whose victims have left; queue those again that lost their reservation."""
        decisions: list[Decision] = []
        state = self._state
        gangs = state.core.cluster.gangs
        for waiting in list(state.reserving.values()):
            if len(decisions) >= limit:
                break
            records = [gangs.get(request.id) for request in waiting.requests]
            victims = sorted({victim for record in records if record is not None for victim in record.victims})
            if victims and None not in records:
                # A negative time means that the clock was set back.
                if not 0 <= self._now_ms - waiting.preempted_at_ms < REMIND_MS:
                    decisions.append(self._preempt(waiting, victims))
                continue
            if len(records) > 1 and not all(self._is_sound(record) for record in records):
                state.give_up(waiting)
            state.unreserve(waiting)
            if state.running.limits.exceeded(waiting.gang) is not None:
                # The limit was lowered while it waited for others to leave.
                state.give_up(waiting)
                state.put_back(waiting)
                continue
            decision = self._decide(waiting)
            if isinstance(decision, HivedWait):
                state.put_back(waiting)
            else:
                decisions.append(decision)
        return decisions

    def _is_sound(self, record: GangRecord | None) -> bool:
        """Return whether the reserved devices can still be used."""
        is_bad = self._state.core.cluster.is_bad_spot
        return record is not None and not any(part is not None and is_bad(part) for part in record.parts)

    def _decide(self, waiting: Waiting, *, may_preempt: bool = True) -> Decision | HivedWait:
        state, gang = self._state, waiting.gang
        try:
            answers = self._ask(waiting)
        except Refused as refused:
            # It was accepted under another configuration, and a later one may satisfy it.
            return HivedWait(gang.id, Code.TOO_LARGE, refused.message, "a configuration that has what it asks for")
        if isinstance(answers, HivedWait):
            return answers if answers.gang == gang.id else replace(answers, gang=gang.id)
        victims = {name for answer in answers if isinstance(answer, HivedPreempt) for name in answer.victims}
        if not may_preempt and (victims or any(answer.displaced for answer in answers)):
            # It would have to wait until its victims have left, and might then not end in time.
            state.core.roll_back()
            message = "it may pass a job that has waited longer only if no other job must leave for it"
            return HivedWait(gang.id, Code.QUOTA_USED, message, "jobs finishing")
        self._commit(waiting)
        state.queue.remove(gang.id)
        if victims:
            state.reserve(waiting)
            return self._preempt(waiting, victims)
        held = RunningGang(gang, waiting.requests, waiting.number, self._now_ms, is_proposed=True)
        state.hold(held)
        return held

    def _ask(self, waiting: Waiting) -> Answers | HivedWait:
        core, now_ms, requests = self._state.core, self._now_ms, waiting.requests
        if len(requests) == 1:
            answer = core.schedule(requests[0], now_ms)
            return answer if isinstance(answer, HivedWait) else (answer,)
        if requests[0].id not in core.cluster.gangs:
            return core.schedule_all(requests, now_ms)
        answers = [core.schedule(request, now_ms) for request in requests]
        return [answer for answer in answers if not isinstance(answer, HivedWait)]

    def _commit(self, waiting: Waiting) -> None:
        core = self._state.core
        if core.proposes_several:
            core.commit_all(self._now_ms)
            self._state.link_parts(waiting.gang.id, waiting.requests)
            return
        for request in waiting.requests:
            core.commit(request.id, self._now_ms)

    def _preempt(self, waiting: Waiting, victims: Iterable[str]) -> Preempt:
        waiting.preempted_at_ms = self._now_ms
        named = {self._state.gang_name(victim): self._why(waiting.gang, victim) for victim in sorted(victims)}
        return Preempt(waiting.gang.id, tuple(sorted(named)), tuple([named[victim] for victim in sorted(named)]))

    def _why(self, gang: Gang, victim: str) -> str:
        """Return the message to the owner of a victim: which job replaces it, and why it may."""
        record, name = self._state.core.cluster.gangs[victim], gang.job or gang.id
        moved = self._state.moves.move_of(self._state.gang_name(victim))
        if moved is not None and moved.room_for == gang.id:
            return f"moved to make room for {name}; other resources are reserved for it, and it starts there at once"
        if record.request.priority >= 0 and record.lazily_preempted_by is None:
            return f"{name} is more urgent and needs these resources of virtual cluster {gang.virtual_cluster}"
        held = self._state.running.gangs.get(self._state.gang_name(victim))
        if held is not None and held.is_lent:
            promised = f"its virtual cluster {gang.virtual_cluster} was promised them"
            return f"{name} needs these resources: {promised}, and this job, which may be interrupted, borrowed them"
        own = "an opportunistic job" if record.request.priority < 0 else "this job, which lost its guarantee,"
        promised = f"its virtual cluster {gang.virtual_cluster} was promised them"
        return f"{name} needs these resources: {promised}, and {own} has no guarantee for them"

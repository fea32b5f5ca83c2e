"""Keeps cells for gangs that have waited for long: for one gang of each virtual cluster at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from openpai.scheduler.model import Order
from openpai.scheduler.queue.backfill import AGAIN_MIN_MS, IDLE_SHARE, Kept, Leaving, choose
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Waiting

RETRY: Final = 64
"""After a search found no cells to keep, the next one waits until the gang has waited 1/64 of its time longer."""


class KeptCells:
    """The cells that are kept during one round of decisions."""

    def __init__(self, state: SchedulerState, now_ms: int) -> None:
        self._state = state
        self._now_ms = now_ms
        self.held: dict[str, Kept] = {}
        """The kept cells that are withheld from other gangs at this moment, by virtual cluster."""
        self._has_opened = False
        """Whether withheld cells were opened to gangs, some of which this round may have looked at before."""
        self._patient: dict[str, list[Waiting]] = {}
        """The gangs that found no room and have waited long enough for cells to be kept, by virtual cluster."""
        self._patience_ms: dict[str, int] = {}
        """How long gangs of several members wait before cells are kept for them, by virtual cluster."""

    def review(self) -> None:
        """Release the cells of gangs that no longer wait at the front."""
        state = self._state
        for name in state.queue.due_among(state.kept, state.core.cluster.freed) if state.kept else ():
            waiting = state.queue.get(state.kept[name].gang)
            if waiting is None or not self._may_go_first(waiting, name):
                state.keep(name, None)

    def _may_go_first(self, waiting: Waiting, name: str) -> bool:
        gang, state = waiting.gang, self._state
        is_here = gang.virtual_cluster == name and gang.priority >= 0 and state.queue.is_first(waiting)
        return is_here and state.running.limits.exceeded(gang) is None

    def release_all(self) -> None:
        """Offer all kept cells to other gangs."""
        for kept in self.held.values():
            kept.let_go()
        self.held.clear()

    def hold(self, kept: Kept, waiting: Waiting) -> None:
        """Withhold the cells kept for a gang from others, unless that leaves too much idle."""
        cluster = self._state.core.cluster
        idle = kept.idle(cluster)
        kept.count_idle(self._now_ms)
        if kept.closed_ms is None:
            if not self._is_cheap(kept, waiting, idle):
                if kept.is_withheld:
                    kept.is_withheld, self._has_opened = False, True
                    self._state.note_freed(kept.virtual_cluster)
                return
            self._look_again_when_dear(kept, waiting, idle)
        kept.idle_devices, kept.is_withheld = idle, True
        self.held[kept.virtual_cluster] = kept
        kept.hold(cluster)

    def admits(self, kept: Kept, guest: Waiting) -> bool:
        """Return whether it is worth it to let a gang start on kept cells.

        Judged by how long gangs similar to it ran: on average it must use more device time until the cells are needed
        than the gang they are kept for loses because the guest is still there.
        """
        state, gang = self._state, guest.gang
        first, left_ms = state.queue.get(kept.gang), kept.free_ms - self._now_ms
        if first is None or left_ms < 0:
            return False
        if kept.closed_ms is not None and not self._has_time(kept, first, kept.closed_ms):
            return False
        limit_ms = gang.time_limit_ms
        if limit_ms is not None and limit_ms <= left_ms:
            return True
        if state.order_of(first.gang) is Order.SHORTEST:
            return False  # it has been passed for as long as is promised already
        found = state.running.run_times.before_and_after(gang, left_ms, limit_ms)
        return found is not None and found[1] * first.devices <= found[0] * guest.devices

    def _has_time(self, kept: Kept, first: Waiting, closed_ms: int) -> bool:
        """Return whether guests may start on closed cells: for as long as the longest gang of the virtual cluster ran.

        Where only one cell is needed, its devices are idle for a shorter time, and there are no guests.
        """
        return len(first.gang.asks) > 1 and self._now_ms < closed_ms + self._state.patience_of(kept.virtual_cluster)

    def note_failure(self, group: str, waiting: Waiting) -> None:
        """Record that a gang found no room: cells are kept for it when its patience ends."""
        kept, patient = self._state.kept.get(group), self._patient.get(group)
        if kept and patient and patient[0].gang.id == kept.gang and _urgency(patient[0]) <= _urgency(waiting):
            return  # the gang whose cells are kept was considered first, and goes first
        patience_ms = self._patience_ms.get(group)
        if patience_ms is None:
            patience_ms = self._patience_ms[group] = self._state.patience_of(group)
        patient_ms = waiting.gang.submitted_at_ms + self._state.kept_after_ms(waiting, patience_ms)
        if self._now_ms >= patient_ms:
            self._patient.setdefault(group, []).append(waiting)
        else:
            self._state.look_times.add(group, patient_ms)

    def keep(self) -> bool:
        """Keep cells for the most urgent patient gang of each virtual cluster; return whether others were opened."""
        cluster, patient = self._state.core.cluster, self._patient
        if not patient:
            return self._has_opened
        self._patient = {}
        before = cluster.freed[""]
        for name, waiting in patient.items():
            self._keep_for_one(name, waiting)
        return self._has_opened or cluster.freed[""] != before

    def _keep_for_one(self, name: str, patient: list[Waiting]) -> None:
        """Keep cells for the gang that has waited longest; choose them again when that is due."""
        state = self._state
        kept = state.kept.get(name)
        found = [waiting for waiting in patient if state.queue.get(waiting.gang.id) is waiting]
        if not found:
            return
        first = self._first(found, kept) if len(found) > 1 else found[0]
        is_same = kept is not None and kept.gang == first.gang.id
        is_closed = kept is not None and is_same and kept.closed_ms is None and self._is_closed(first)
        if kept is not None and is_same and self._now_ms < kept.again_ms and not is_closed:
            return
        if kept is None and self._now_ms < state.retry_ms.get(name, 0):
            return
        state.retry_ms[name] = self._now_ms + max(AGAIN_MIN_MS, self._waited_ms(first) // RETRY)
        if not state.feasibility.is_possible(state.core.cluster, first, state.health):
            state.keep(name, None)
            return
        closed_ms = kept.closed_ms if kept is not None and is_same else None
        if closed_ms is None and self._is_closed(first):
            closed_ms = self._now_ms
        guests = kept.guests if kept is not None and is_same else ()
        chosen = choose(state.core.cluster, first, self._leaving(name, closed_ms, guests), self._now_ms)
        if chosen is not None:
            chosen.closed_ms = closed_ms
            chosen.guests = tuple([guest for guest in guests if guest in state.running.gangs])
            if kept is not None and is_same:
                chosen.idle_ms, chosen.idle_devices = kept.idle_ms, kept.idle_devices
                chosen.counted_ms, chosen.is_withheld = kept.counted_ms, kept.is_withheld
        elif kept is not None and is_same and kept.closed_ms is not None:
            # Closed cells will become free in any case and are replaced only by other closed cells.
            chosen = replace(kept, chosen_ms=self._now_ms)
        state.keep(name, chosen)
        if chosen is not None and closed_ms is None:
            state.look_times.add(name, first.gang.submitted_at_ms + state.closed_after_ms(first))

    def _first(self, found: list[Waiting], kept: Kept | None) -> Waiting:
        """Return the gang to keep cells for: one keeps its cells unless a more urgent one waits."""
        return min(
            found,
            key=lambda waiting: (
                _urgency(waiting), kept is None or kept.gang != waiting.gang.id,
                not self._is_closed(waiting), waiting.gang.submitted_at_ms, waiting.number,
            ),
        )  # fmt: skip

    def _leaving(self, name: str, closed_ms: int | None, guests: tuple[str, ...]) -> list[Leaving]:
        """Return when each gang that ran before the cells were closed is expected to leave, and each guest."""
        return [
            self._state.leaving(held)
            for held in self._state.running.by_virtual_cluster.get(name, {}).values()
            if closed_ms is None or (held.since_ms or 0) <= closed_ms or held.gang.id in guests
        ]

    def _waited_ms(self, waiting: Waiting) -> int:
        return self._now_ms - waiting.gang.submitted_at_ms

    def _is_closed(self, waiting: Waiting) -> bool:
        """Return whether no other gang may start on the cells kept for a gang."""
        return self._waited_ms(waiting) >= self._state.closed_after_ms(waiting)

    def _is_cheap(self, kept: Kept, waiting: Waiting, idle: int) -> bool:
        """Return whether keeping costs little idle time, past and expected, compared with how long the gang waited."""
        idle_ms = kept.idle_ms + idle * max(0, kept.free_ms - self._now_ms)
        return idle_ms <= IDLE_SHARE * waiting.devices * self._waited_ms(waiting)

    def _look_again_when_dear(self, kept: Kept, waiting: Waiting, idle: int) -> None:
        """Look again when too much has been idle, also if nothing happens in the virtual cluster until then."""
        share = IDLE_SHARE * waiting.devices
        if idle > share:
            left_ms = (share * self._waited_ms(waiting) - kept.idle_ms) / (idle - share)
            self._state.look_times.add(kept.virtual_cluster, max(kept.free_ms, self._now_ms + int(left_ms)) + 1)


def _urgency(waiting: Waiting) -> tuple[int, int]:
    """Return what comes before age: the smaller is the more urgent."""
    return -waiting.gang.priority, -waiting.gang.rank

"""De-fragmentation: moves interruptible gangs so that a gang that waits gets whole cells.

A move is worth it if it loses less device time than the waiting gang is expected to save: the time until the cells that
it needs are free without a move, judged by how long gangs like those on them run, multiplied by its devices. The moved
gang is preempted, other cells of its virtual cluster are reserved for it, and it starts there as soon as it is queued
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from openpai.scheduler.cells.model import GangRequest, Uncountable, shape_of
from openpai.scheduler.cells.moving import SUFFIX, find_moves, may_move, reserve_as, reserve_places, try_moves
from openpai.scheduler.model import Gang
from openpai.scheduler.queue.backfill import choose
from openpai.scheduler.queue.limits import gpus_of
from openpai.scheduler.queue.moves import Move, job_key, must_run_ms
from openpai.scheduler.queue.requests import GangRequests, requests_of
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Waiting

RESTART_MS: Final = 2 * 60 * 1000
"""How long a gang is expected to need to stop, and to start again elsewhere."""

KEPT_MS: Final = 60_000
"""How long cells stay reserved for a gang that has left and is not queued again."""

NO_BOUND: Final = 1 << 62


def make_room(state: SchedulerState, waiting: Waiting, now_ms: int) -> tuple[str, ...] | None:
    """Reserve cells for a gang by moving others; return the gangs that must leave, None if it is not worth it."""
    gang, book = waiting.gang, state.moves
    if len(waiting.requests) != 1:
        return None
    (request,) = waiting.requests
    movable = dict(_movable(state, waiting, now_ms))
    losses = {name: loss for name, (loss, _) in movable.items()}
    core, cluster = state.core, state.core.cluster
    core.roll_back()
    found = find_moves(cluster, request, losses, NO_BOUND, now_ms) if losses else None
    if found is None:
        return None
    found.undo()
    is_allowed = len(found.movers) <= book.left(gang.virtual_cluster, now_ms)
    if not is_allowed or found.loss >= _wait_ms(state, waiting, now_ms) * request.devices:
        return None
    moves = try_moves(cluster, request, found.movers, losses, now_ms)
    if moves is None or moves.placed is None:
        return None
    reserve_places(moves)
    core.propose(moves.placed)
    core.commit(request.id, now_ms)
    for name in moves.movers:
        held = state.running.gangs[name]
        move = Move(
            name, held.gang.virtual_cluster, held.gang.user, gpus_of(held.gang), name + SUFFIX,
            gang.id, gang.job or gang.id, lost_ms=cluster.gangs[name].at_risk_ms(now_ms),
        )  # fmt: skip
        book.begin(job_key(held.gang), move, movable[name][1], now_ms)
        state.link_kept(move)
    return tuple(sorted(cluster.gangs[request.id].victims))


def _movable(state: SchedulerState, waiting: Waiting, now_ms: int) -> Iterable[tuple[str, tuple[int, int]]]:
    """Yield the gangs that may be moved for another: the cost of moving each, and how much work is at risk."""
    running = state.running.by_virtual_cluster.get(waiting.gang.virtual_cluster, {})
    # A job that is no gang ends as a whole if one of its tasks is preempted.
    gangs_of_job = Counter(job_key(held.gang) for held in running.values())
    for name, held in running.items():
        gang = held.gang
        if not gang.is_interruptible or held.is_lent or held.is_proposed or held.left or held.since_ms is None:
            continue
        is_due = now_ms - held.since_ms >= must_run_ms(gang)
        key = job_key(gang)
        if not is_due or gangs_of_job[key] > 1 or key in state.moves.open or key == job_key(waiting.gang):
            continue
        if len(held.requests) == 1 and may_move(state.core.cluster, name, waiting.requests[0]):
            record = state.core.cluster.gangs[name]
            lost_ms = record.leaves * record.at_risk_ms(now_ms)
            yield name, (lost_ms + record.leaves * RESTART_MS, lost_ms)


def _wait_ms(state: SchedulerState, waiting: Waiting, now_ms: int) -> int:
    """Return how long a gang is expected to wait without a move; 0 if that is not known."""
    name = waiting.gang.virtual_cluster
    kept = state.kept.get(name)
    if kept is None or kept.gang != waiting.gang.id:
        running = state.running.by_virtual_cluster.get(name, {}).values()
        kept = choose(state.core.cluster, waiting, map(state.leaving, running), now_ms)
    return 0 if kept is None else max(0, kept.free_ms - now_ms)


def come_back(state: SchedulerState, gang: Gang, number: int) -> bool:
    """Give a moved gang that is queued again what is reserved for it; return whether there is such a thing."""
    key = job_key(gang)
    move = state.moves.open.get(key)
    if move is None or move.left_ms is None:
        return False
    requests = requests_of(gang, state.machines.skus)
    record = state.core.cluster.gangs.get(move.kept)
    if isinstance(requests, Uncountable) or record is None or not _is_like(requests, record.request):
        state.end_move(key)
        return False
    state.core.roll_back()
    reserve_as(state.core.cluster, move.kept, requests[0])
    state.end_move(key)
    state.reserve(Waiting(gang, requests, number, moved_for=move.room_for_job))
    return True


def _is_like(requests: GangRequests, kept: GangRequest) -> bool:
    """Return whether a gang asks for what is reserved, which is of one type of device."""
    (asked, *others) = requests
    is_type = asked.leaf_type in (None, kept.leaf_type)
    return not others and is_type and shape_of(replace(asked, leaf_type=kept.leaf_type)) == shape_of(kept)


def review(state: SchedulerState, now_ms: int) -> None:
    """Release the cells reserved for gangs that have left and were not queued again."""
    for key, move in list(state.moves.open.items()):
        if move.left_ms is not None and not 0 <= now_ms - move.left_ms < KEPT_MS:
            state.end_move(key)

"""The places of jobs in the queue of a virtual cluster, and the ranks that give a job another place.

Ranks sort before what the order of a virtual cluster looks at (use, age, expected run time), so a place given by hand
holds with each order. What goes behind it keeps its rank: jobs that are submitted later queue there as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from openpai.protocol.errors import Refused
from openpai.scheduler.model import Gang, Queued, Wait
from openpai.scheduler.queue import explaining
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Waiting

RANK_STEP: Final = 1000
"""Between the ranks of two places, so that most later changes need a new rank for one job only."""

RANKS_MAX: Final = 500
"""How many jobs may get a new rank at once."""


def queue_of(state: SchedulerState, virtual_cluster: str, limit: int = 0) -> tuple[Queued, ...]:
    """Return the jobs that wait in a virtual cluster, in the order in which they are considered.

    Those that wait for victims to leave come first, and those that cannot be counted in devices last; neither is moved.
    Only the first `limit` say why they wait.
    """
    state.sync_nodes()
    reserving = sorted(state.reserving.values(), key=lambda each: each.number)
    waiting = sorted(_in(state.queue.all(), virtual_cluster), key=state.order_key)
    uncountable = sorted(state.uncountable.values(), key=lambda each: each[1])
    found: dict[str, Queued] = {}
    for each in (*_in(reserving, virtual_cluster), *waiting):
        _count(found, each.gang, is_movable=each.gang.id not in state.reserving)
    for gang, _, _ in uncountable:
        if gang.virtual_cluster == virtual_cluster:
            _count(found, gang, is_movable=False)
    first = [replace(each, wait=_wait(state, each.gang)) for each in list(found.values())[:limit]]
    return (*first, *list(found.values())[limit:])


def _in(waiting: Iterable[Waiting], virtual_cluster: str) -> list[Waiting]:
    return [each for each in waiting if each.gang.virtual_cluster == virtual_cluster]


def _count(found: dict[str, Queued], gang: Gang, *, is_movable: bool) -> None:
    name = gang.job or gang.id
    known = found.get(name)
    found[name] = Queued(name, gang, is_movable) if known is None else replace(known, gangs=known.gangs + 1)


def _wait(state: SchedulerState, gang: Gang) -> Wait | None:
    """Return why a gang waits, without the estimate, which takes a simulation for each."""
    if gang.id in state.reserving:
        return explaining.explain_reserved(state, gang.id, state.now_ms)
    if gang.id in state.uncountable:
        return Wait(gang.id, *explaining.uncountable_reason(state, gang, state.uncountable[gang.id][2]))
    waiting = state.queue.get(gang.id)
    return Wait(gang.id, *explaining.reason(state, waiting)) if waiting is not None else None


def ranks_beside(queue: Sequence[Queued], job: str, other: str, *, is_before: bool) -> Mapping[str, int]:
    """Return the new ranks that put a job directly before or after another one of the same priority, by job.

    Where no rank is free in between, the jobs that go before it get higher ones and keep their order among themselves.
    """
    by_name = {each.job: each for each in queue}
    moved, beside = (_movable(by_name.get(name), name) for name in (job, other))
    if moved is beside:
        raise Refused("ConflictJobError", f"{job} cannot be moved beside itself", "name another job that waits")
    if moved.gang.priority != beside.gang.priority:
        message = f"{job} has priority {moved.gang.priority} and {other} {beside.gang.priority}"
        raise Refused("ConflictJobError", f"{message}; priorities go before places", "change its priority first")
    rest = [
        each for each in queue
        if each.is_movable and each.gang.priority == moved.gang.priority and each is not moved
    ]  # fmt: skip
    place = rest.index(beside) + (0 if is_before else 1)
    ahead, behind = rest[:place], rest[place:]
    if not behind:
        return {job: ahead[-1].gang.rank - RANK_STEP}
    floor = behind[0].gang.rank
    if not ahead or ahead[-1].gang.rank - floor >= 2 * RANK_STEP:
        return {job: floor + RANK_STEP}
    if ahead[-1].gang.rank - floor >= 2:
        return {job: (ahead[-1].gang.rank + floor) // 2}
    return {job: floor + RANK_STEP, **_raised(ahead, floor + RANK_STEP)}


def _movable(found: Queued | None, name: str) -> Queued:
    """Return a job with a place in the queue; raise Refused for one that has none."""
    if found is None:
        message = f"{name} does not wait in the queue of this virtual cluster"
        raise Refused("ConflictJobError", message, "`pai vc queue NAME` shows the jobs that do")
    if not found.is_movable:
        message = f"{name} has no place to change: what it needs is reserved for it already, or it fits nowhere"
        raise Refused("ConflictJobError", message, f"`pai job why {name}` says which")
    return found


def _raised(ahead: Sequence[Queued], floor: int) -> Mapping[str, int]:
    """Return higher ranks for the jobs that must go before `floor`: one for those that have the same rank now."""
    ranks: dict[str, int] = {}
    new_of: dict[int, int] = {}
    for each in reversed(ahead):
        rank = each.gang.rank
        if rank not in new_of:
            if rank > floor:
                break
            floor += RANK_STEP
            new_of[rank] = floor
        ranks[each.job] = new_of[rank]
    if len(ranks) >= RANKS_MAX:
        message = f"{len(ranks)} jobs that go before it would need a new rank, and at most {RANKS_MAX} may get one"
        raise Refused("ConflictJobError", message, "move it to the front or the back, or to a place further ahead")
    return ranks

"""Explains why a gang waits, what would change that, which gangs go first, and when it may start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from openpai.scheduler.cells.model import Code
from openpai.scheduler.cells.wording import ResourceUnit, share_text
from openpai.scheduler.model import Estimate, Gang, Limit, Wait, Why
from openpai.scheduler.queue import capacity
from openpai.scheduler.queue.borrowing import may_borrow
from openpai.scheduler.queue.estimates import GangsAhead, estimate
from openpai.scheduler.queue.lending import lent_from
from openpai.scheduler.queue.limits import gpus_of
from openpai.scheduler.queue.moves import job_key
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Waiting, group_of

AHEAD_MAX: Final = 5
NAMED_MAX: Final = 3

WHY_OF: Final = {
    Code.QUOTA_USED: Why.NOT_ENOUGH_FREE,
    Code.NO_IDLE_DEVICES: Why.NOT_ENOUGH_FREE,
    Code.FRAGMENTED: Why.FRAGMENTED,
    Code.OUTSIDE_TOPOLOGY: Why.FRAGMENTED,
    Code.TOO_LARGE: Why.NO_NODE,
    Code.BAD_HARDWARE: Why.UNHEALTHY_NODES,
}

NEVER: Final = (Why.NO_NODE, Why.NO_VIRTUAL_CLUSTER)
"""A gang that waits for one of these reasons is passed by all others."""

SOON: Final = "nothing; the scheduler decides in a moment"

Reason = tuple[Why, str, str]


def explain(state: SchedulerState, gang: str, now_ms: int) -> Wait | None:
    """Return why a gang waits, and what is lent of its virtual cluster's promise; None when it does not wait."""
    why = _explain(state, gang, now_ms)
    waiting = state.reserving.get(gang) or state.queue.get(gang)
    if why is None or waiting is None or why.code in NEVER:
        return why
    lent = lent_from(state, waiting.gang, state.reserving.get(gang))
    accuracy = state.running.run_times.guesses.of(waiting.gang.virtual_cluster)
    estimate = why.estimate and replace(why.estimate, judged=accuracy.starts, within=accuracy.starts_within)
    return replace(why, lent=lent, is_interruptible=may_borrow(waiting), estimate=estimate)


def _explain(state: SchedulerState, gang: str, now_ms: int) -> Wait | None:
    if gang in state.reserving:
        return explain_reserved(state, gang, now_ms)
    if gang in state.uncountable:
        described, _, message = state.uncountable[gang]
        return never(gang, uncountable_reason(state, described, message))
    waiting = state.queue.get(gang)
    if waiting is None:
        return None
    found = reason(state, waiting)
    return never(gang, found) if found[0] in NEVER else in_queue(state, waiting, found, now_ms)


def never(gang: str, reason: Reason) -> Wait:
    """Return that a gang never fits, for this reason; all others pass it."""
    return Wait(gang, *reason, estimate=Estimate(None, None, "it does not fit"))


def in_queue(state: SchedulerState, waiting: Waiting, reason: Reason, now_ms: int) -> Wait:
    """Return that a gang waits for this reason, with the gangs ahead of it and when it may start."""
    # A gang that never fits, or exceeds a limit, is passed by others and does not count as ahead of them.
    ahead = GangsAhead(state, waiting)
    when = estimate(state, waiting, ahead, now_ms)
    return Wait(waiting.gang.id, *reason, _nearest(ahead), len(ahead) + 1, when)


def uncountable_reason(state: SchedulerState, gang: Gang, message: str) -> Reason:
    """Return why a gang never fits whose request cannot be counted in devices, as `message` says."""
    return without_promise(state, gang) or _too_large(state, gang, message)


def _nearest(ahead: GangsAhead) -> tuple[str, ...]:
    """Return the names of the jobs directly ahead, the nearest first."""
    names: dict[str, None] = {}
    for other in ahead.nearest_first():
        names[job_key(other.gang)] = None
        if len(names) == AHEAD_MAX:
            break
    return tuple(names)


def explain_reserved(state: SchedulerState, gang: str, now_ms: int) -> Wait:
    """Return which jobs have to end before a gang with reserved resources starts."""
    victims: set[str] = set()
    for request in state.reserving[gang].requests:
        record = state.core.cluster.gangs.get(request.id)
        victims |= {state.gang_name(victim) for victim in record.victims} if record is not None else set()
    held = state.running.gangs
    names = sorted({job_key(held[victim].gang) if victim in held else victim for victim in victims})
    moved_for = state.reserving[gang].moved_for
    if moved_for and not names:
        message = f"it was moved to make room for {moved_for}; its other resources are reserved"
        return Wait(gang, Why.NOT_YET_LOOKED_AT, message, SOON, (), 1, Estimate(now_ms, None, "what is reserved"))
    if not names:
        # The last victim has left since the scheduler last decided.
        soon = Estimate(now_ms, None, "what is free now")
        return Wait(gang, Why.NOT_YET_LOOKED_AT, "its resources are free now", SOON, (), 1, soon)
    moved = [move.gang for move in state.moves.open.values() if move.room_for == gang and move.gang in victims]
    message = f"its resources are reserved; it waits for {_some(names)} to leave them"
    if moved:
        those = "which is" if len(names) == 1 else f"{len(moved)} of which are"
        message += f", {those} moved to make room for it"
    soon = Estimate(now_ms, None, "it starts as soon as they have left")
    return Wait(gang, Why.NOT_ENOUGH_FREE, message, "these jobs ending, as they were asked to", (), 1, soon)


def without_promise(state: SchedulerState, gang: Gang) -> Reason | None:
    """Return the reason if its virtual cluster does not exist, or was promised nothing; else None."""
    cluster, name = state.core.cluster, gang.virtual_cluster
    if name not in cluster.shares:
        there = ", ".join(sorted(cluster.shares)) or "none"
        message = f"there is no virtual cluster {name!r}; there are {there}"
        return Why.NO_VIRTUAL_CLUSTER, message, "an administrator creating it, or submitting the job to another"
    if gang.priority >= 0 and not sum(share.size for share in cluster.shares_of(name)):
        message = f"virtual cluster {name!r} was promised nothing"
        return Why.NO_VIRTUAL_CLUSTER, message, "an administrator promising it something, or an opportunistic priority"
    return None


def reason(state: SchedulerState, waiting: Waiting) -> Reason:
    """Return why a gang in the queue waits."""
    gang = waiting.gang
    gone = without_promise(state, gang)
    if gone is not None:
        return gone
    if (limit := state.running.limits.exceeded(gang)) is not None:
        return limit_reason(state, gang, limit)
    lane = state.queue.lane_of(gang.id)
    if lane.answer is None:
        return Why.NOT_YET_LOOKED_AT, "the scheduler has not looked at it yet", SOON
    if lane.answer.code is Code.TOO_LARGE:
        return _too_large(state, gang, lane.answer.message)
    # The answer may be old: much may have been freed, and given to others, since the gang was looked at.
    return reason_now(state, waiting)


def reason_now(state: SchedulerState, waiting: Waiting) -> Reason:
    """Return why a gang cannot start as things are at this moment."""
    answer = state.core.reason_now(waiting.requests)
    if answer is None:
        freed = "what it needs has become free; the scheduler has not looked at it since"
        return _kept_from(state, waiting) or (Why.NOT_YET_LOOKED_AT, freed, SOON)
    message = answer.message + _share(state, waiting) + _out_of_service(state, answer.unhealthy_chain)
    return WHY_OF[answer.code], message, answer.unblock


def _too_large(state: SchedulerState, gang: Gang, message: str) -> Reason:
    refused = capacity.refuse(state.core, state.machines.skus, gang)
    message, remedy = refused if refused is not None else (message, "smaller tasks")
    return Why.NO_NODE, message, remedy


def _share(state: SchedulerState, waiting: Waiting) -> str:
    """Return why a gang takes more than it asks for; empty when it does not."""
    skus, shares = state.machines.skus, state.core.cluster.shares[waiting.gang.virtual_cluster].values()
    message = []
    for request in waiting.requests:
        wanted = request.leaf_type
        kinds = {wanted} if wanted else {share.chain.spec.leaf_type for share in shares}
        kind = kinds.pop() if len(kinds) == 1 else ""
        asks = [waiting.gang.asks[member] for member in request.positions]
        devices = sum(count * leaves for count, leaves in request.members)
        message.append(share_text(asks, devices, ResourceUnit.of(kind, skus.of(kind)), skus.of(kind)))
    return next(filter(None, message), "")


def _kept_from(state: SchedulerState, waiting: Waiting) -> Reason | None:
    """Return the reason if only the cells kept for another gang have room; else None."""
    kept = state.kept.get(group_of(waiting.gang))
    other = state.queue.get(kept.gang) if kept is not None else None
    if other is None or other is waiting:
        return None
    message = f"what is free is kept for {job_key(other.gang)}, which has waited for long in the same virtual cluster"
    code = Why.BEHIND_HIGHER_PRIORITY if other.gang.priority > waiting.gang.priority else Why.BEHIND_OLDER_JOB
    return code, message, "that job starting or leaving"


def _out_of_service(state: SchedulerState, chain: str) -> str:
    """Return the nodes of a chain that are bad or drained, each with the reason if known."""
    message = []
    found = state.core.cluster.chains.get(chain)
    for name in [found.node_cells[index].name for index in sorted(found.bad_nodes)] if found is not None else ():
        node = state.machines.nodes.get(name)
        because = "it is not reported" if node is None else node.message
        message.append(f"{name}, {because}" if because else name)
    return f" (out of service: {_some(message, '; ')})" if message else ""


def _some(names: Sequence[str], between: str = ", ") -> str:
    more = len(names) - NAMED_MAX
    return between.join([*names[:NAMED_MAX], *([f"and {more} more"] if more > 0 else [])])


def limit_reason(state: SchedulerState, gang: Gang, limit: Limit) -> Reason:
    """Return that a limit of its user keeps a gang from running."""
    runs = state.running.limits.running((gang.virtual_cluster, gang.user), limit)
    user = gang.user or "its user"
    gpus = "1 GPU" if limit.gpus == 1 else f"{limit.gpus} GPUs"
    where = f"virtual cluster {limit.virtual_cluster}" if limit.virtual_cluster else "all virtual clusters together"
    message = f"{user} may run {gpus} at a time in {where} and runs {runs}; this needs {gpus_of(gang)}"
    if gpus_of(gang) > (limit.gpus or 0):
        return Why.USER_LIMIT, message, "an administrator raising the limit"
    return Why.USER_LIMIT, message, f"jobs of {user} ending"

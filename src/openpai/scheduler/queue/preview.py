"""Says whether gangs that are not submitted would start now, and why not. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openpai.scheduler.cells.model import Uncountable
from openpai.scheduler.cells.trial import Trial
from openpai.scheduler.model import Gang, Wait, Why
from openpai.scheduler.queue import capacity
from openpai.scheduler.queue.borrowing import as_borrower, may_borrow
from openpai.scheduler.queue.explaining import (
    NEVER,
    Reason,
    in_queue,
    limit_reason,
    never,
    reason_now,
    uncountable_reason,
    without_promise,
)
from openpai.scheduler.queue.limits import gpus_of
from openpai.scheduler.queue.requests import requests_of
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Waiting, group_of


def preview(state: SchedulerState, gangs: Sequence[Gang], now_ms: int) -> Wait | None:
    """Return why the first of these gangs that could not start now would wait, None if all would start.

    They belong to one job, and start one after the other; `more` counts those after the one that waits.
    """
    kept = state.kept.get(group_of(gangs[0])) if gangs else None
    if kept is not None:
        kept.hold(state.core.cluster)
    try:
        with Trial(state.core.cluster) as trial:
            found = _first_that_waits(state, trial, gangs)
    finally:
        if kept is not None:
            kept.let_go()
    if found is None:
        return None
    index, waiting, reason = found
    more = len(gangs) - index - 1
    if waiting is None or reason[0] in NEVER:
        return replace(never(gangs[index].id, reason), more=more)
    if kept is not None and reason[0] is not Why.USER_LIMIT:
        # Without what is kept for another gang it might fit.
        reason = reason_now(state, waiting)
    found_wait = in_queue(state, waiting, reason, now_ms)
    return replace(found_wait, more=more, is_interruptible=may_borrow(waiting))


def _first_that_waits(
    state: SchedulerState, trial: Trial, gangs: Sequence[Gang]
) -> tuple[int, Waiting | None, Reason] | None:
    """Start gangs in the trial; return the place of the first that finds no room, and why."""
    limits = state.running.limits.trial_copy(gangs[0].user if gangs else "")
    for index, gang in enumerate(gangs):
        requests = requests_of(gang, state.machines.skus)
        if isinstance(requests, Uncountable):
            return index, None, uncountable_reason(state, gang, requests.message)
        waiting = state.waiting_of(gang, requests, state.number + 1 + index)
        if (gone := without_promise(state, gang)) is not None:
            return index, waiting, gone
        if (limit := limits.exceeded(gang)) is not None:
            return index, waiting, limit_reason(state, gang, limit)
        before = len(trial.proposals)
        if trial.start_all(requests):
            victims = {victim for proposal in trial.proposals[before:] for victim in proposal.victims}
            if victims:
                return index, waiting, _after(len(victims))
        elif not (may_borrow(waiting) and _borrow(state, trial, waiting)):
            refused = capacity.refuse(state.core, state.machines.skus, gang)
            return index, waiting, (Why.NO_NODE, *refused) if refused is not None else reason_now(state, waiting)
        limits.run((gang.virtual_cluster, gang.user), gpus_of(gang))
    return None


def _borrow(state: SchedulerState, trial: Trial, waiting: Waiting) -> bool:
    request = as_borrower(waiting.requests[0])
    shares = state.core.cluster.shares.get(request.virtual_cluster, {}).values()
    kinds = dict.fromkeys(share.chain.spec.leaf_type for share in shares)
    return any(
        trial.start_all([replace(request, leaf_type=kind)]) for kind in kinds if request.leaf_type in (None, kind)
    )


def _after(victims: int) -> Reason:
    leaves = "1 other job leaves" if victims == 1 else f"{victims} other jobs leave"
    message = f"its resources would be reserved at once; it starts as soon as {leaves} them"
    return Why.NOT_ENOUGH_FREE, message, "these jobs ending, as they would be asked to"

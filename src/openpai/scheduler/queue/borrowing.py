"""Starts interruptible gangs on idle devices of other virtual clusters, until their own has room for them.

Such a gang runs like an opportunistic one: the virtual cluster that was promised the devices can take them back, and
the gang waits again at its old place. As soon as its own virtual cluster has room that no gang waiting there can use,
it is *promoted* where it runs: nothing is restarted, and its devices count towards its own promise from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from openpai.scheduler.cells.model import OPPORTUNISTIC, Bind, GangRequest, State
from openpai.scheduler.model import Gang, Spot
from openpai.scheduler.queue.placement_hint import never_had_guarantee
from openpai.scheduler.queue.requests import GangRequests
from openpai.scheduler.queue.running import RunningGang
from openpai.scheduler.queue.state import SchedulerState
from openpai.scheduler.queue.waiting_queue import Waiting

PROMOTIONS_MAX: Final = 8
"""How many gangs are tried in a virtual cluster each time something is freed there."""


def may_borrow(waiting: Waiting) -> bool:
    """Return whether a gang may start on idle devices of other virtual clusters."""
    gang, requests = waiting.gang, waiting.requests
    return gang.is_interruptible and gang.priority >= 0 and len(requests) == 1 and requests[0].pinned_cell is None


def as_borrower(own: GangRequest) -> GangRequest:
    """Return what a gang asks of the core where it borrows: any idle devices, without a guarantee."""
    return replace(own, priority=OPPORTUNISTIC, is_lazily_preemptible=False)


def was_borrowing(gang: Gang, requests: GangRequests, spots: Iterable[Spot | None]) -> bool:
    """Return whether a gang that runs already borrowed its devices when its placement hints were written."""
    hints = [spot.placement_hint for spot in spots if spot is not None]
    return gang.is_interruptible and gang.priority >= 0 and len(requests) == 1 and never_had_guarantee(hints)


def borrow(state: SchedulerState, waiting: Waiting, now_ms: int) -> GangRequest | None:
    """Place a gang on idle devices promised to others, preempting no gang; None if there is no room."""
    asked = as_borrower(waiting.requests[0])
    shares = state.core.cluster.shares.get(asked.virtual_cluster, {}).values()
    # The number of devices it needs was computed for the types that its virtual cluster has.
    for kind in dict.fromkeys(share.chain.spec.leaf_type for share in shares):
        if asked.leaf_type not in (None, kind):
            continue
        request = replace(asked, leaf_type=kind)
        if isinstance(state.core.place(request, now_ms), Bind):
            state.core.commit(request.id, now_ms)
            return request
    return None


def promote(state: SchedulerState, name: str) -> None:
    """Give borrowing gangs a guarantee for their devices where their virtual cluster has room, oldest first."""
    cluster = state.core.cluster
    lent = state.lent.get(name)
    if not lent or name not in cluster.shares or state.promoted_at.get(name) == cluster.freed.get(name):
        return
    shares = cluster.shares_of(name)
    left = sum(share.size - share.claimed for share in shares)
    tried = 0
    for held in sorted(lent.values(), key=lambda held: (-held.gang.priority, -held.gang.rank, held.number)):
        if tried >= PROMOTIONS_MAX or left <= 0:
            break
        if held.devices() <= left and not held.is_proposed:
            tried += 1
            if _promote(state, held):
                left -= held.devices()
    state.promoted_at[name] = cluster.freed.get(name, 0)


def _promote(state: SchedulerState, held: RunningGang) -> bool:
    (lent,) = held.requests
    record = state.core.cluster.gangs.get(lent.id)
    if record is None or record.state is not State.ALLOCATED:
        return False
    if any(part is not None and part.node_cell.claimed & part.mask for part in record.parts):
        # Another gang has a claim on its devices, or they are kept for a gang that has waited for long.
        return False
    own = replace(lent, priority=held.gang.priority, is_lazily_preemptible=held.gang.is_lazily_preemptible)
    if not state.core.change(own):
        state.core.change(lent)
        return False
    state.running.restate(held, held.gang, (own,))
    state.stop_borrowing(held)
    return True

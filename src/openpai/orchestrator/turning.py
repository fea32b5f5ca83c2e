"""The main pass: records what the backend reported, grants what that frees, and gives the backend its actions.

Ends and the grants that follow them are saved in one transaction, so a device is idle for one commit and no more.
"""

from __future__ import annotations

import asyncio
from typing import Final

from openpai.orchestrator.acting import act
from openpai.orchestrator.dependencies import release_held
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.lemons import save_lemons
from openpai.orchestrator.node_sync import sync_nodes
from openpai.orchestrator.observing import HEARD_PER_PASS, count_freed, remove, understand, waits_for_others
from openpai.orchestrator.placement_hints import save_hints
from openpai.orchestrator.placing import Proposal
from openpai.orchestrator.recording import batch

ACTED_ON_AT_ONCE: Final = 64
"""So many tasks are launched or killed in the turn of the event loop in which their grants were saved."""


async def turn(leader: Leader) -> bool:
    """Carry out one bounded round; return whether there may be more to do at once."""
    leader.nudges.work.clear()
    has_held = await release_held(leader) if leader.active.held_to_check else False
    seen = leader.active.heard[:HEARD_PER_PASS]
    del leader.active.heard[:HEARD_PER_PASS]
    has_heard_more = bool(leader.active.heard)
    count_freed(leader, seen)
    proposal = Proposal()
    try:
        observed = await understand(leader, seen)  # 1: facts, with a diagnosis for each end
        async with batch(leader) as changes:
            await changes.add(observed.updates)  # 2: what they free returns to the scheduler
            await changes.add(await proposal.propose(leader, changes.jobs))  # 3: placements, with grants
            saved = await changes.save()  # 4: ends and grants, in one transaction
    except BaseException:
        leader.active.heard = [*seen, *leader.active.heard]
        proposal.settle(leader, {})
        raise
    proposal.settle(leader, saved)  # 5: the scheduler commits the placements that were saved, and drops the others
    await save_hints(leader)
    if await save_lemons(leader.lemons, leader.settings, leader.clock.now_ms(), leader.epoch, leader.usage):
        await sync_nodes(leader)
    await remove(leader, observed.strangers)
    if sum(map(len, leader.active.to_act.values())) > ACTED_ON_AT_ONCE:
        # A gang of thousands: serve other requests before its launch.
        await asyncio.sleep(0)
    has_more = await act(leader)  # 6: the backend launches, kills and forgets
    # What was heard meanwhile may wait for others, unless these were in this turn.
    has_heard_more = has_heard_more or not waits_for_others(leader, leader.active.heard)
    return has_more or has_held or proposal.has_more or has_heard_more

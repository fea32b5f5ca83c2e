"""The main pass: what was heard is recorded, what that sets free is granted, and the backend is told.

Ends and the grants that follow them are saved in one transaction, so a device is idle for one commit and no more.
"""

from __future__ import annotations

import asyncio

from openpai.orchestrator.acting import act
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.observing import HEARD_PER_PASS, remove, understand
from openpai.orchestrator.placement_hints import save_hints
from openpai.orchestrator.placing import Proposal
from openpai.orchestrator.recording import record


async def turn(leader: Leader) -> bool:
    """Carry out one bounded round; return whether there may be more to do at once."""
    leader.nudges.work.clear()
    seen = leader.active.heard[:HEARD_PER_PASS]
    del leader.active.heard[:HEARD_PER_PASS]
    proposal = Proposal()
    try:
        heard = await understand(leader, seen)
        changed = await record(leader, heard.news, proposal.propose)
    except BaseException:
        leader.active.heard = [*seen, *leader.active.heard]
        proposal.settle(leader, {})
        raise
    proposal.settle(leader, changed)
    await save_hints(leader)
    await remove(leader, heard.strangers)
    # What was saved may have been a gang of thousands: requests have their turn before it is launched.
    await asyncio.sleep(0)
    has_more = await act(leader)
    return has_more or proposal.has_more or bool(leader.active.heard)

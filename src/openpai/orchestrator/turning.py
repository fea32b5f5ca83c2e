"""The main pass: what was heard is recorded, what that sets free is granted, and the backend is told.

Ends and the grants that follow them are saved in one transaction, so a device is idle for one commit and no more.
"""

from __future__ import annotations

import asyncio

from openpai.orchestrator.acting import act
from openpai.orchestrator.observing import HEARD_PER_PASS, remove, understand
from openpai.orchestrator.office import Office
from openpai.orchestrator.placement_hints import save_hints
from openpai.orchestrator.placing import Proposal
from openpai.orchestrator.recording import record


async def turn(office: Office) -> bool:
    """Carry out one bounded round; return whether there may be more to do at once."""
    office.nudges.work.clear()
    seen = office.desk.heard[:HEARD_PER_PASS]
    del office.desk.heard[:HEARD_PER_PASS]
    proposal = Proposal()
    try:
        heard = await understand(office, seen)
        changed = await record(office, heard.news, proposal.propose)
    except BaseException:
        office.desk.heard = [*seen, *office.desk.heard]
        proposal.settle(office, {})
        raise
    proposal.settle(office, changed)
    await save_hints(office)
    await remove(office, heard.strangers)
    # What was saved may have been a gang of thousands: requests have their turn before it is launched.
    await asyncio.sleep(0)
    has_more = await act(office)
    return has_more or proposal.has_more or bool(office.desk.heard)

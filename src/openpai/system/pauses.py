"""Lets everything else go first, in work over thousands of objects that nobody waits for."""

from __future__ import annotations

import asyncio
from typing import Final

_PAUSE_S: Final = 0.005
"""A decision takes a dozen turns of the event loop, and after a pause of one turn each waits for a part of the work."""


async def let_others_go_first() -> None:
    """Pause for as long as a decision takes, with all it waits for."""
    await asyncio.sleep(_PAUSE_S)

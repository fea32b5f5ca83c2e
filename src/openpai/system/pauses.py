"""Lets everything else go first, in work over thousands of objects that nobody waits for."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

_PAUSE_S: Final = 0.005
"""A decision takes a dozen turns of the event loop, and after a pause of one turn each waits for a part of the work."""
_THREAD_S: Final = 0.001


def keep_threads_short() -> None:
    """Let a thread that computes hold the interpreter for a millisecond at a time, not for Python's five.

    The event loop gives it away with each call of the kernel, of which a decision makes dozens, and then waits for it.
    """
    sys.setswitchinterval(_THREAD_S)


async def let_others_go_first() -> None:
    """Pause for as long as a decision takes, with all it waits for."""
    await asyncio.sleep(_PAUSE_S)

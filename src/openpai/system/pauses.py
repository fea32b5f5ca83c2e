"""Lets everything else go first, in work over thousands of objects and in requests that nobody waits for."""

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


class Precedence:
    """Holds back work that can wait while a decision is about to be made, for a moment at most."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._may_go = asyncio.Event()
        self._may_go.set()
        self._end: asyncio.TimerHandle | None = None

    def claim(self) -> None:
        """Hold other work back until `release`, or until the moment is over, which further claims do not prolong."""
        if self._may_go.is_set():
            self._may_go.clear()
            self._end = asyncio.get_running_loop().call_later(self._most_s, self.release)

    def release(self) -> None:
        """Let other work go on."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        self._may_go.set()

    async def give_way(self) -> None:
        """Wait while other work is held back."""
        if not self._may_go.is_set():
            await self._may_go.wait()

"""An event loop whose time is a number: it jumps to the next timer as soon as nothing is left to do.

The server's own loops, sleeps and timeouts run on it unchanged, an hour of them in a fraction of a second, and
always in the same order.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any, Final

START_S: Final = 1_000_000.0
EPOCH_MS: Final = 1_767_225_600_000
"""When the clocks of servers start, in 2026: Kubernetes takes times near 1970 for unknown."""


class Deadlock(Exception):
    """All tasks wait and no event can wake them."""


class _NoWaiting(selectors.SelectSelector):
    """Lets time pass where a real selector would wait for the world."""

    now_s = START_S
    threads = 0
    """How many calls in threads are awaited; time stands still for them."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return nothing, `timeout` later, or what a thread has done, at once."""
        if self.threads:
            return super().select(0 if timeout == 0 else None)
        if timeout is None:
            raise Deadlock("every task waits for something that nobody will do")
        self.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs tasks in virtual time."""

    def __init__(self) -> None:
        self._virtual = _NoWaiting()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._virtual.now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Run a function in a thread, while no time passes: else all loops would live through hours meanwhile."""
        self._virtual.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._forget_thread)
        return future

    def _forget_thread(self, _: object) -> None:
        self._virtual.threads -= 1

    async def settle(self) -> None:
        """Let every task run until it waits for time or for a gate."""
        ready: Any = self._ready  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        while ready:  # noqa: ASYNC110  # there is no event for "nothing is left to do"
            await asyncio.sleep(0)


class VirtualClock:
    """`ports.clock.Clock` over a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.set_ms = 0
        """By how much somebody set this clock."""

    def now_ms(self) -> int:
        """Return the virtual time in milliseconds, as the clock is set."""
        return EPOCH_MS + round(self._loop.time() * 1000) + self.set_ms


class Numbered:
    """`ports.clock.Identities` that counts."""

    def __init__(self) -> None:
        self._count = 0

    def new(self) -> str:
        """Return the next name."""
        self._count += 1
        return f"{self._count:032x}"

"""Carries out many writes to the API server at the same time, but no more than it answers well.

Creations and removals have queues of their own, so that a job of thousands of tasks does not keep another from being
stopped. A write that is waiting costs a small object and no task.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from openpai.kube.connection import backoff_s
from openpai.kube.errors import KubeError
from openpai.system.pauses import Precedence
from openpai.system.supervision import Background, survived

CREATING: Final = 40
ENDING: Final = 16
REMOVING_LEAST: Final = 2
REMOVING_MOST: Final = 16
PAUSE_MAX_S: Final = 15.0
ASIDE_MAX: Final = 1000

_SLOW: Final = 2.0
_FORGOTTEN: Final = 1.002
"""By so much the quickest answer counts as slower with each slow one while least is carried out: the way to the server
may have become longer for good."""

Work = Callable[[], Coroutine[Any, Any, None]]


class Pace:
    """How much may be carried out at a time without making the API server slow for others.

    What it cannot compute at once waits in it, and with it the events that others wait for. So this is more while
    answers take less than twice as long as the quickest, and less while they take longer. Where they take long because
    the server is far away, they do so from the first on.
    """

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most
        self._at_once = float(least)
        self._quickest_s = math.inf

    @property
    def at_once(self) -> int:
        """Return how much may be carried out at a time."""
        return int(self._at_once)

    def note(self, took_s: float) -> None:
        """Take account of how long something took."""
        self._quickest_s = min(took_s, self._quickest_s)
        if took_s <= _SLOW * self._quickest_s:
            self._at_once = min(self._at_once + 1 / self._at_once, self._most)
        elif self._at_once > self._least:
            self._at_once = max(self._at_once - 1 / self._at_once, self._least)
        else:
            self._quickest_s *= _FORGOTTEN


class Writes:
    """A queue of work of which some is carried out at a time, in order."""

    def __init__(self, name: str, at_once: int | Pace, precedence: Precedence | None = None) -> None:
        """Each work gives way to `precedence` before it begins."""
        self._name = name
        self._pace = at_once if isinstance(at_once, Pace) else Pace(at_once, at_once)
        self._precedence = precedence
        self._waiting: deque[Work] = deque()
        self._workers = Background()
        self._aside = 0

    def add(self, work: Work) -> None:
        """Carry out some work when it is its turn."""
        self._waiting.append(work)
        self._work()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Let other work begin while some that is under way waits for something else than the API server.

        So a job that the quota has no room for does not hold all others up.
        """
        makes_room = self._aside < ASIDE_MAX
        self._aside += makes_room
        self._work()
        try:
            yield
        finally:
            self._aside -= makes_room

    @property
    def has_waiting(self) -> bool:
        """Return whether some work waits for its turn."""
        return bool(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Return whether some work is under way or waits."""
        return bool(self._waiting or len(self._workers))

    async def drain(self, patience_s: float) -> None:
        """Wait until everything is carried out, or the patience is over."""
        await self._workers.drain(patience_s)

    async def close(self) -> None:
        """Drop everything that waits, and cancel the rest."""
        self._waiting.clear()
        await self._workers.close()

    def _work(self) -> None:
        if self._waiting and len(self._workers) < self._pace.at_once + self._aside:
            self._workers.start(self._name, self._run())

    async def _run(self) -> None:
        # What was aside and goes on is one more until some other ends.
        while self._waiting and len(self._workers) <= self._pace.at_once + self._aside:
            if self._precedence is not None:
                await self._precedence.give_way()
                if not self._waiting:
                    return
            work = self._waiting.popleft()
            await survived(self._name, work())
            # The pace may have become quicker.
            self._work()


async def until_answered(
    call: Callable[[], Coroutine[Any, Any, None]], stops: Callable[[], bool] = lambda: False
) -> KubeError | None:
    """Repeat a call while the API server does not answer it, or is too busy; return its refusal, or None.

    Ends early, with the last error, when `stops` says so.
    """
    tries = 0
    while True:
        try:
            await call()
        except KubeError as error:
            if not is_passing(error) or stops():
                return error
            await asyncio.sleep(max(backoff_s(tries, PAUSE_MAX_S), error.retry_after_s or 0.0))
            tries += 1
        else:
            return None


def is_passing(error: KubeError) -> bool:
    """Return whether the same request may be carried out a moment later: the server is away, busy or starting."""
    # A server that has just started may not know the rights of its users yet, and a rotated token may be on its way.
    return error.http in (0, 401, 408, 429) or error.http >= 500

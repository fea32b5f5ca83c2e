"""Waits: what is to be done at a time of the wall clock, waited for by a clock that nobody sets.

Times that are written down are the wall clock's: people read them, and they mean the same after a restart. A wait
begins when this server first sees it, takes what the wall clock says is left at that moment, and never longer than
it was meant to be. So a wall clock that is set back delays nothing, and one that is set forward ends nothing early.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Wait(NamedTuple):
    """Something to be done at a time of the wall clock, and how long it waits at most."""

    job: str
    is_limit: bool
    """Whether the job has run for as long as it may then; else something of it tries again."""
    at_ms: int
    longest_ms: int


class Waits:
    """Remembers when each wait is over by a clock that is never set."""

    def __init__(self) -> None:
        self._over_at_ms: dict[Wait, int] = {}

    def left_ms(self, waits: Iterable[Wait], now_ms: int, steady_ms: int) -> dict[Wait, int]:
        """Return how long each wait still takes; those that are not named any more are forgotten."""
        known = self._over_at_ms
        self._over_at_ms = {
            wait: known[wait] if wait in known else steady_ms + min(max(wait.at_ms - now_ms, 0), wait.longest_ms)
            for wait in waits
        }
        return {wait: over_at_ms - steady_ms for wait, over_at_ms in self._over_at_ms.items()}

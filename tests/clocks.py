"""A clock for tests that neither wait nor depend on the time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class HandClock:
    """A clock that stands still until it is moved."""

    at_ms: int = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

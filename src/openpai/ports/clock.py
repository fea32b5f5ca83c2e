"""Where time and identity come from, so that a test can make it Tuesday."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        ...


class Identities(Protocol):
    """Gives out names that were never given before."""

    def new(self) -> str:
        """Return 32 lower-case hexadecimal digits; later names sort after earlier ones."""
        ...

"""The sources of time and of identifiers, which tests replace."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """A wall clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""


class Identities(Protocol):
    """Generates unique identifiers."""

    def new(self) -> str:
        """Return 32 lower-case hexadecimal digits; later identifiers sort after earlier ones."""

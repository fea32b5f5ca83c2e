"""The clock and the identifiers that the running server uses."""

from __future__ import annotations

import secrets
import time


class SystemClock:
    """Reads the system's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


class MonotonicClock:
    """Starts at the system's time and is never set."""

    def __init__(self) -> None:
        self._begins_ms = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000

    def now_ms(self) -> int:
        """Return the system's time at the start plus the time since, in milliseconds."""
        return self._begins_ms + time.monotonic_ns() // 1_000_000


class SystemIdentities:
    """Generates identifiers that begin with the time, so that later ones sort after earlier ones."""

    def __init__(self) -> None:
        self._last = 0

    def new(self) -> str:
        """Return 32 hexadecimal digits: 16 of the time in nanoseconds, never twice the same, and 16 random ones."""
        self._last = max(self._last + 1, time.time_ns())
        return f"{self._last:016x}{secrets.token_hex(8)}"

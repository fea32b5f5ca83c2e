"""Asks the kernel whether a time service sets the clock of this machine."""

from __future__ import annotations

import ctypes
from datetime import UTC, datetime
from typing import Final

BUILT: Final = datetime(2025, 1, 1, tzinfo=UTC)
"""A clock that shows an earlier time is wrong."""
_NOT_SYNCHRONIZED: Final = 5
_TIMEX_BYTES: Final = 256


def is_synchronized() -> bool:
    """Return whether a time service sets the clock; yes where the kernel does not say."""
    ask = getattr(ctypes.CDLL(None), "adjtimex", None)
    # The first field says what to change: nothing.
    return ask is None or ask(ctypes.create_string_buffer(_TIMEX_BYTES)) != _NOT_SYNCHRONIZED

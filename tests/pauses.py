"""How long tests pause before they ask again whether something has happened of which no event tells them."""

from __future__ import annotations

import time
from typing import Final

_LEAST_S: Final = 0.05
_MOST_S: Final = 0.5
_PART: Final = 0.1


class Pauses:
    """Pauses of a tenth of the time that was already waited.

    Each question costs processor time, which whatever is waited for needs, too. Half a minute may well become half a
    second more.
    """

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def next_s(self) -> float:
        """Return the length of the next pause."""
        return min(max(_LEAST_S, (time.monotonic() - self._began_s) * _PART), _MOST_S)

"""How long the logs of one attempt may be searched: a job can write logs that are made to be slow to search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time
from typing import Final, TypeVar

from openpai.diagnosis.diagnosing import MayGoOn

LIMIT_S: Final = 0.25
"""Processor time of the search of one log: a common one takes a hundredth of it."""
LIMIT_OF_MANY_S: Final = 0.003
"""The same after the logs of the attempt have had their time."""
ATTEMPT_S: Final = 0.6
"""Processor time that the logs of an attempt share; after that each is searched for `LIMIT_OF_MANY_S`."""
_PART: Final = 4
"""One log may use this part of what is left."""


_Found = TypeVar("_Found")


@dataclass(slots=True)
class SearchTime:
    """The processor time that the search of the logs of one attempt has taken."""

    attempt: int
    used_s: float = 0.0

    @property
    def limit_s(self) -> float:
        """Return how long the next log may be searched."""
        return max(LIMIT_OF_MANY_S, min(LIMIT_S, (ATTEMPT_S - self.used_s) / _PART))

    def measured(self, search: Callable[[MayGoOn], _Found]) -> _Found:
        """Return what a search finds, which is given whether it may go on."""
        began, limit_s = thread_time(), self.limit_s
        try:
            return search(lambda: thread_time() - began <= limit_s)
        finally:
            self.used_s += thread_time() - began

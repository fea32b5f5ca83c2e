"""The time of day in a line of a log, as the usual loggers write it."""

from __future__ import annotations

import re
from typing import Final

_CLOCK: Final = r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d{1,9}))?"
# ISO 8601 and Python's logging; glog; a time in brackets.
_TIMES: Final = re.compile(rf"(?:\d{{4}}-\d\d-\d\d[T _]|\b[IWEF]\d{{4}} |\[){_CLOCK}")
_SEARCHED: Final = 120
"""Characters at the beginning of a line in which a time is searched."""


def time_of_day(line: str) -> float | None:
    """Return the seconds since midnight that a line says it was written; None if it says nothing."""
    found = _TIMES.search(line[:_SEARCHED])
    if found is None:
        return None
    hours, minutes, seconds, fraction = found.groups()
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")

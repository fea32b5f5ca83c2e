"""Durations as people write them: one rule for every option that takes one.

A duration is one or more numbers with units, as in `30s`, `10m`, `2h` or `1d12h`. What a bare number means depends
on the option: Slurm's users expect minutes for a time limit, and seconds for a timeout.
"""

from __future__ import annotations

import re
from typing import Final

from openpai.protocol.errors import InvalidParameters

SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
UNIT_NAMES: Final = {"s": "seconds", "m": "minutes"}
FORMS: Final = "30s, 10m, 2h or 1d12h"
LONGEST_S: Final = 36_525 * 86_400
_NUMBER: Final = r"\d{1,12}(?:\.\d{1,3})?"
_BARE: Final = re.compile(_NUMBER, re.ASCII)
_PART: Final = re.compile(rf"({_NUMBER})([smhdw])", re.ASCII)


def seconds(given: str, option: str, *, bare: str = "") -> float:
    """Return a duration in seconds; raise Refused for anything else, naming the option.

    `bare` is the unit of a number without one; if it is empty, such a number is refused.
    """
    text = given.strip()
    if bare and _BARE.fullmatch(text):
        text += bare
    parts = _PART.findall(text)
    units = [unit for _, unit in parts]
    if not parts or "".join(count + unit for count, unit in parts) != text or len(units) != len(set(units)):
        a_number = f"; a bare number is {UNIT_NAMES[bare]}" if bare else ""
        raise InvalidParameters(f"{option} {given[:80]!r} is not a duration", f"write it like {FORMS}{a_number}")
    total = sum(float(count) * SECONDS[unit] for count, unit in parts)
    if total > LONGEST_S:
        raise InvalidParameters(f"{option} {given[:80]!r} is longer than a hundred years", f"write it like {FORMS}")
    return total


def whole_seconds(given: str, option: str, *, bare: str = "", least: int = 1) -> int:
    """Return a duration in whole seconds, `least` or more; see `seconds`."""
    total = round(seconds(given, option, bare=bare))
    if total < least:
        raise InvalidParameters(f"{option} {given[:80]!r} is too short", "give one second or more")
    return total

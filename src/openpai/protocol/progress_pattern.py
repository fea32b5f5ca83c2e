"""The pattern with which a job finds its progress in its log: `extras.progress.pattern`.

Its named groups are `step`, `total`, and metrics with any other name. Patterns are RE2's, whose time is bounded
whatever the pattern and the log are.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

PATTERN_MAX: Final = 500
METRICS_MAX: Final = 20
_MEMORY_MAX: Final = 1 << 20
"""For one pattern, so that bounded repetitions in each other are refused."""
EXAMPLE: Final = r"such as step (?P<step>\d+)/(?P<total>\d+) loss=(?P<loss>[\d.]+)"


class InvalidPattern(ValueError):
    """A pattern that cannot be used; the message says why."""


def progress_pattern(extras: Mapping[str, Any]) -> str:
    """Return the pattern with which a job's log is searched for its progress; empty for none."""
    wanted = extras.get("progress")
    pattern = wanted.get("pattern") if isinstance(wanted, Mapping) else None
    return pattern if isinstance(pattern, str) else ""


@functools.lru_cache(maxsize=1000)
def compiled(pattern: str) -> Any:
    """Return RE2's form of a pattern; raise InvalidPattern for one that cannot be used."""
    # Only here: few job files have a pattern, and the library takes a while to load.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.max_mem = _MEMORY_MAX
    try:
        expression = re2.compile(pattern.encode(), options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it is not one of RE2"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(f"cannot be used: {text}") from None
    names = expression.groupindex
    if not any(name in ("step", b"step") for name in names):
        raise InvalidPattern("has no group named step")
    if len(names) > METRICS_MAX + 2:
        raise InvalidPattern(f"has {len(names)} named groups, more than step, total and {METRICS_MAX} metrics")
    return expression

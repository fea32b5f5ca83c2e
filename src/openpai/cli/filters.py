"""Filters of jobs: the words of the terminal, and the names that the API has for them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from openpai.cli.durations import FORMS, seconds
from openpai.cli.formatting import split
from openpai.cli.options import option
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.wire.states import STATES

API_NAME: Final = {
    "user": "username",
    "vc": "vc",
    "state": "state",
    "keyword": "keyword",
    "tag": "tagsContain",
    "no-tag": "tagsNotContain",
    "sweep": "sweep",
    "priority": "jobPriority",
    "since": "submittedFrom",
    "before": "submittedTo",
}
EVERYBODY: Final = "*"
KNOWN: Final = {"state": STATES, "priority": ("crit", "prod", "test", "oppo", "default")}
Where = Annotated[
    list[str] | None,
    option(
        "--where KEY=VALUE",
        f"Jobs that match instead of names; yours, unless user=NAMES or user=*. Keys: {', '.join(API_NAME)}.",
    ),
]


def conditions(given: Sequence[str]) -> dict[str, Any]:
    """Return conditions written as KEY=VALUE with the API's names; raise Refused for an unknown one."""
    where: dict[str, Any] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or key not in API_NAME or not value:
            known = ", ".join(API_NAME)
            raise InvalidParameters(f"{one!r} is not a condition", f"write KEY=VALUE; the keys are {known}")
        where[API_NAME[key]] = meaning(key, value)
    return where


def meaning(key: str, value: str) -> str | int:
    """Return a value as the API takes it: times in milliseconds, states in capitals; raise Refused for a wrong one."""
    if key in ("since", "before"):
        return moment_ms(value, time.time())
    if key not in KNOWN:
        return value
    # A misspelt word would match nothing, without a reason.
    given = [word.upper() if key == "state" else word for word in split([value])]
    if strange := next((word for word in given if word not in KNOWN[key]), None):
        raise InvalidParameters(f"{strange!r} is not a {key}", f"choose from: {', '.join(KNOWN[key])}")
    return ",".join(given)


def moment_ms(message: str, now_s: float) -> int:
    """Return a time in milliseconds: `7d` or `1d12h` ago, or a date such as 2026-01-31 or 2026-01-31T08:00."""
    with contextlib.suppress(Refused):
        return max(0, int((now_s - seconds(message, "")) * 1000))
    try:
        return max(0, int(datetime.fromisoformat(message.strip()).astimezone().timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise InvalidParameters(
            f"{message[:80]!r} is not a time", f"write it like {FORMS} ago, or 2026-01-31"
        ) from None

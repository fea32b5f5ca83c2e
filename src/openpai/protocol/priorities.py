"""How urgent a job is: the names people use and the numbers the scheduler compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PRIORITY_OF: Final[dict[str, int]] = {"crit": 120, "prod": 100, "test": 10, "oppo": -1}
CLASS_DEFAULT: Final = "test"


def asked_class(extras: Mapping[str, Any]) -> str | None:
    """Return the priority class a job's extras ask for, None when they name no known one."""
    hived = extras.get("hivedScheduler")
    asked = hived.get("jobPriorityClass") if isinstance(hived, Mapping) else None
    return asked if isinstance(asked, str) and asked in PRIORITY_OF else None


def priority_class(extras: Mapping[str, Any]) -> str:
    """Return the priority class a job runs with: the one its extras ask for, or `test`."""
    return asked_class(extras) or CLASS_DEFAULT


def priority(extras: Mapping[str, Any]) -> int:
    """Return the scheduler's number for the priority class a job's extras ask for: crit is highest, oppo lowest."""
    return PRIORITY_OF[priority_class(extras)]

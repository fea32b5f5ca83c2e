"""What the user name of an SSH connection names: the account that logs in, and the task that it reaches.

`ann+train` is the only running task of ann's job `train`; `ann+train+worker+1` is the task `worker/1`; and
`root+ann~train` is how the account root reaches a job of ann. The parts have no `+` themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PART: Final = re.compile(r"[\w.~-]{1,255}", re.ASCII)
_INDEX: Final = re.compile(r"[0-9]{1,9}")
_SEPARATOR: Final = "+"
FORM: Final = "USER+JOB or USER+JOB+ROLE+INDEX"


@dataclass(frozen=True, slots=True)
class Destination:
    """The account of a connection, and the task that it names."""

    account: str
    job: str = ""
    """`job` for a job of the account's own, or `owner~job`; empty if none was named."""
    role: str | None = None
    """None for the only running task."""
    index: int = 0


def read_destination(name: str) -> Destination | None:
    """Return what a user name of SSH means, None for one of another form."""
    account, *parts = name.split(_SEPARATOR)
    if len(parts) > 3 or not all(_PART.fullmatch(part) for part in (account, *parts)):
        return None
    job, role, index = (*parts, *("", "", "")[len(parts) :])
    if index and not _INDEX.fullmatch(index):
        return None
    return Destination(account, job, role or None, int(index or 0))


def user_name(account: str, owner: str, job: str, role: str | None = None, index: int = 0) -> str:
    """Return the user name with which an account reaches a task of a job."""
    parts = [account, job if owner == account else f"{owner}~{job}"]
    return _SEPARATOR.join(parts if role is None else [*parts, role, str(index)])

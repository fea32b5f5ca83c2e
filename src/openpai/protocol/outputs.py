"""The results of a job: `extras.outputs` names the files in a task's working directory that are worth keeping.

An entry is a path, or a pattern with `*`, `?` and `**`, which stands for directories of any depth. A directory stands
for all files below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

OUTPUTS_MAX: Final = 100
OUTPUT_LENGTH_MAX: Final = 1000
STARS_MAX: Final = 64
"""The limit on the stars of all patterns together: what is compared with a hostile name takes time by their number."""
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def outputs_of(extras: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the entries of `extras.outputs`; empty if the job names none."""
    given = extras.get("outputs")
    return tuple([entry for entry in given if isinstance(entry, str)]) if isinstance(given, list) else ()


def stars_in(entries: Iterable[object]) -> int:
    """Return how many stars the patterns have together."""
    return sum(entry.count("*") for entry in entries if isinstance(entry, str))


def output_fault(entry: str) -> str:
    """Return what is wrong with an entry; empty if nothing is."""
    if _UNFIT.search(entry):
        return "has a control character"
    if entry.startswith("/"):
        return "is an absolute path"
    parts = entry.split("/")
    if ".." in parts:
        return "leads out of the working directory"
    return "" if set(parts) - {"", "."} else "names no file"

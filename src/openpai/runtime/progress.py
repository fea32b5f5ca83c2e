"""What a task reports about its progress: a line in the file that PAI_PROGRESS_FILE names.

The last line counts, so that a program may write the file again or append to it. It is an object of JSON with `step`,
`total` and `metrics`, or words that a shell can write: `echo "120/1000 loss=0.3" > "$PAI_PROGRESS_FILE"`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PROGRESS_FILE: Final = "progress"
PROGRESS_VARIABLE: Final = "PAI_PROGRESS_FILE"
TAIL_BYTES: Final = 4096
"""How much of the end of the file is read; a longer line does not count."""
METRICS_MAX: Final = 20
_NAME: Final = re.compile(r"[A-Za-z_][\w./-]{0,39}", re.ASCII)
_STEP: Final = re.compile(r"(\d[\d.]{0,15})(?:/(\d[\d.]{0,15}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a task is."""

    step: float
    total: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


def read_progress(text: str) -> Progress | None:
    """Return what the last whole line of a text reports; None if that is nothing."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    line = lines[-1].strip()
    return progress_of(_of_json(line) if line.startswith("{") else _of_words(line))


def progress_of(found: Mapping[str, Any]) -> Progress | None:
    """Return the progress that fields by name describe: `step`, `total`, `metrics`, and others, which are metrics."""
    fields = dict(found)
    step, total = _number(fields.pop("step", None)), _number(fields.pop("total", None))
    if step is None or step < 0:
        return None
    nested = fields.pop("metrics", {})
    given = nested.items() if isinstance(nested, Mapping) else ()
    return Progress(step, total if total is not None and total > 0 else None, _metrics([*given, *fields.items()]))


def _of_json(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return dict(found) if isinstance(found, dict) else {}


def _of_words(line: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for word in line.split():
        name, equals, value = word.partition("=")
        if equals:
            fields[name] = value
        elif "step" not in fields and (found := _STEP.fullmatch(word)) is not None:
            fields["step"] = found[1]
            if found[2] is not None:
                fields["total"] = found[2]
    return fields


def _metrics(given: Iterable[tuple[Any, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in given:
        number = _number(value)
        if len(found) < METRICS_MAX and isinstance(name, str) and _NAME.fullmatch(name) and number is not None:
            found[name] = number
    return found


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None

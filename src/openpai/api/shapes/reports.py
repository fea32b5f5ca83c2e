"""Reports of use as documents: hours added up by day, user, group and virtual cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from openpai.api.answers import csv_of
from openpai.api.bodies import invalid
from openpai.ports.usage import UseRow

NAMES: Final = {"day": "day", "user": "user", "group": "group", "vc": "virtualCluster"}
_SUMS: Final = (
    "gpuHours", "cpuHours", "memoryGbHours", "taskAttempts", "gpuHoursBorrowed", "gpuHoursLent", "jobsMoved",
    "gpuHoursMoved", "gpuHoursIdle", "gpuHoursFailed", "gpuHoursPreempted", "gpuHoursWasted",
)  # fmt: skip
_COUNTS: Final = ("taskAttempts", "jobsMoved")
_DIGITS: Final = 6
_FIRST_DAY: Final = datetime(1970, 1, 1, tzinfo=UTC)

GroupsOf = Callable[[UseRow], Sequence[str]]


def dimensions(by: Iterable[str]) -> tuple[str, ...]:
    """Return the dimensions to sum by, from names and comma lists of them, each once and in the given order."""
    words = dict.fromkeys(word.strip() for text in by for word in text.split(",") if word.strip())
    strange = [word for word in words if word not in NAMES]
    if strange:
        raise invalid(f"by: {strange[0]!r} is none of {', '.join(NAMES)}")
    return tuple(words)


def moment(text: str | None, name: str, default_ms: int) -> int:
    """Return a time given in milliseconds or as a day, YYYY-MM-DD in UTC."""
    if text is None:
        return default_ms
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    try:
        text.encode("ascii")  # `strptime` accepts the digits of other scripts
        return int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        raise invalid(f"{name}: give milliseconds since 1970, or a day such as 2026-01-31") from None


def day(at_ms: int) -> str:
    """Return the UTC day of a time; empty for a time outside the calendar."""
    try:
        return (_FIRST_DAY + timedelta(milliseconds=at_ms)).date().isoformat()
    except OverflowError:
        return ""


def added_up(rows: Iterable[UseRow], by: Sequence[str], groups: GroupsOf) -> list[dict[str, Any]]:
    """Return the sums, sorted. The use of a user in several groups counts in each of them."""
    sums: dict[tuple[str, ...], list[float]] = {}
    is_of_users = "user" in by or "group" in by
    for row in rows:
        if is_of_users and not row.user:
            continue  # what a virtual cluster lent
        known = {"day": row.day, "user": row.user, "vc": row.virtual_cluster}
        for group in groups(row) if "group" in by else ("",):
            key = tuple({**known, "group": group}[word] for word in by)
            _add(sums.setdefault(key, [0.0] * len(_SUMS)), row)
    named = [NAMES[word] for word in by]
    return [{**dict(zip(named, key, strict=True)), **_document(sums[key])} for key in sorted(sums)]


def total(rows: Iterable[UseRow]) -> dict[str, Any]:
    """Return the total use, counting each hour once."""
    sums = [0.0] * len(_SUMS)
    for row in rows:
        _add(sums, row)
    return _document(sums)


def report_csv(entries: Sequence[Mapping[str, Any]], by: Sequence[str], in_all: Mapping[str, Any]) -> str:
    """Return a report as CSV; its last row is the total."""
    heads = [*(NAMES[word] for word in by), *_SUMS]
    last = {**({NAMES[by[0]]: "total"} if by else {}), **in_all}
    return csv_of(heads, [[entry.get(head) for head in heads] for entry in (*entries, last)])


def _add(sums: list[float], row: UseRow) -> None:
    amounts = (
        row.gpu_hours, row.cpu_hours, row.memory_gb_hours, row.task_attempts, row.gpu_hours_borrowed,
        row.gpu_hours_lent, row.jobs_moved, row.gpu_hours_moved, row.gpu_hours_idle, row.gpu_hours_failed,
        row.gpu_hours_preempted, row.gpu_hours_idle + row.gpu_hours_failed + row.gpu_hours_preempted,
    )  # fmt: skip
    for place, amount in enumerate(amounts):
        sums[place] += amount


def _document(sums: Sequence[float]) -> dict[str, Any]:
    found: dict[str, Any] = {name: round(amount, _DIGITS) for name, amount in zip(_SUMS, sums, strict=True)}
    return found | {name: int(found[name]) for name in _COUNTS}

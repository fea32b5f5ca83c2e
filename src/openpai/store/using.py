"""Counting what was held: hours of GPUs, CPUs and memory, by day, user and virtual cluster.

A task attempt holds what it was granted until it ends. The database adds up all attempts that began on the same day
and ended on the same day, which leaves a few rows even of a million attempts; what lies between the first and the
last day is whole days, and needs no more than the sum. Jobs that are deleted leave their sums behind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from openpai.ports.usage import UseRow
from openpai.store.schema import past_use, task_attempts

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_MB_PER_GB: Final = 1024
_FIRST_DAY: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Sums of milliseconds of many megabytes do not fit into the whole numbers of a database; a float holds them exactly
# far beyond what a cluster can use.
_HELD: Final = ("gpus", "cpus", "memory_mb")

Whose = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Period:
    """From when to when, for whom and where; nothing named means all."""

    from_ms: int
    to_ms: int
    users: Sequence[str] = ()
    virtual_clusters: Sequence[str] = ()


def held(connection: sa.Connection, period: Period) -> tuple[UseRow, ...]:
    """Return what was held in a period, what is held now and what deleted jobs held included."""
    sums: defaultdict[tuple[int, Whose], list[float]] = defaultdict(lambda: [0.0] * 4)
    slopes: defaultdict[Whose, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0] * 3))
    for row in connection.execute(_by_first_and_last_day(period)):
        whose = (row.owner, row.virtual_cluster)
        _add(sums[row.first, whose], (row.head_gpus, row.head_cpus, row.head_memory_mb, row.attempts))
        if row.last > row.first:
            _add(sums[row.last, whose], (row.tail_gpus, row.tail_cpus, row.tail_memory_mb))
            whole = (row.gpus, row.cpus, row.memory_mb)
            _add(slopes[whose][row.first + 1], whole)
            _add(slopes[whose][row.last], [-amount for amount in whole])
    for whose, steps in slopes.items():
        for day, amounts in _whole_days(steps):
            _add(sums[day, whose], amounts)
    for row in connection.execute(_of_deleted_jobs(period)):
        deleted = (row.gpu_ms, row.cpu_ms, row.memory_mb_ms, row.task_attempts)
        _add(sums[row.day, (row.owner, row.virtual_cluster)], deleted)
    return tuple(_row(day, whose, sums[day, whose]) for day, whose in sorted(sums))


def keep_use(connection: sa.Connection, ids: Sequence[str]) -> None:
    """Remember what these jobs used, as they are about to be deleted: nobody gets hours back by deleting a job."""
    query = sa.select(sa.func.max(task_attempts.c.ended_at_ms)).where(task_attempts.c.job.in_(ids))
    until_ms = (connection.execute(query).scalar() or 0) + 1
    for use in _held_by(connection, ids, until_ms):
        key = (past_use.c.day == use[0], past_use.c.owner == use[1][0], past_use.c.virtual_cluster == use[1][1])
        amounts = dict(zip(_PAST, use[2], strict=True))
        more = {name: past_use.c[name] + amount for name, amount in amounts.items()}
        if connection.execute(sa.update(past_use).where(*key).values(more)).rowcount == 0:
            of = {"day": use[0], "owner": use[1][0], "virtual_cluster": use[1][1]}
            connection.execute(past_use.insert(), of | amounts)


_PAST: Final = ("gpu_ms", "cpu_ms", "memory_mb_ms", "task_attempts")


def _held_by(connection: sa.Connection, ids: Sequence[str], until_ms: int) -> list[tuple[int, Whose, list[float]]]:
    columns = (task_attempts.c.granted_at_ms, task_attempts.c.ended_at_ms, *(task_attempts.c[name] for name in _HELD))
    query = sa.select(task_attempts.c.owner, task_attempts.c.virtual_cluster, *columns).where(
        task_attempts.c.job.in_(ids), task_attempts.c.granted_at_ms.is_not(None)
    )
    sums: defaultdict[tuple[int, Whose], list[float]] = defaultdict(lambda: [0.0] * 4)
    for row in connection.execute(query):
        start, end = row.granted_at_ms, max(row.ended_at_ms or until_ms, row.granted_at_ms)
        amounts = [row.gpus or 0, row.cpus or 0, row.memory_mb or 0]
        for day in range(start // DAY_MS, max(end - 1, start) // DAY_MS + 1):
            held_ms = min(end, (day + 1) * DAY_MS) - max(start, day * DAY_MS)
            begins = 1.0 if day == start // DAY_MS else 0.0
            _add(sums[day, (row.owner, row.virtual_cluster)], [*(amount * held_ms for amount in amounts), begins])
    return [(day, whose, amounts) for (day, whose), amounts in sums.items()]


def _by_first_and_last_day(period: Period) -> sa.Select[Any]:
    """Return the query for the sums of all attempts with the same first and last day, owner and virtual cluster."""
    granted, ended = task_attempts.c.granted_at_ms, task_attempts.c.ended_at_ms
    start = sa.case((granted < period.from_ms, period.from_ms), else_=granted)
    end = sa.case((sa.or_(ended.is_(None), ended > period.to_ms), period.to_ms), else_=ended)
    spans = (
        sa.select(
            task_attempts.c.owner,
            task_attempts.c.virtual_cluster,
            start.label("start"),
            # A clock that was set back between grant and end makes no negative hours.
            sa.case((end < start, start), else_=end).label("end"),
            *(sa.func.coalesce(task_attempts.c[name], 0).label(name) for name in _HELD),
        )
        .where(granted < period.to_ms, sa.or_(ended > period.from_ms, ended.is_(None)))
        .where(*_whose(task_attempts, period))
        .subquery()
    )
    first = spans.c.start // DAY_MS
    last = sa.case((spans.c.end > spans.c.start, spans.c.end - 1), else_=spans.c.start) // DAY_MS
    until = sa.case((last > first, (first + 1) * DAY_MS), else_=spans.c.end)
    head, tail = until - spans.c.start, sa.case((last > first, spans.c.end - last * DAY_MS), else_=0)
    return sa.select(
        first.label("first"),
        last.label("last"),
        spans.c.owner,
        spans.c.virtual_cluster,
        sa.func.count().label("attempts"),
        *(_sum(spans.c[name] * head).label(f"head_{name}") for name in _HELD),
        *(_sum(spans.c[name] * tail).label(f"tail_{name}") for name in _HELD),
        *(_sum(spans.c[name]).label(name) for name in _HELD),
    ).group_by("first", "last", spans.c.owner, spans.c.virtual_cluster)


def _of_deleted_jobs(period: Period) -> sa.Select[Any]:
    first, last = period.from_ms // DAY_MS, (period.to_ms - 1) // DAY_MS
    return sa.select(past_use).where(past_use.c.day.between(first, last), *_whose(past_use, period))


def _whose(table: sa.Table, period: Period) -> list[sa.ColumnElement[bool]]:
    asked = ((table.c.owner, period.users), (table.c.virtual_cluster, period.virtual_clusters))
    return [column.in_(names) for column, names in asked if names]


def _sum(amount: sa.ColumnElement[Any]) -> sa.ColumnElement[float]:
    return sa.func.sum(sa.cast(amount, sa.Double))


def _whole_days(steps: dict[int, list[float]]) -> list[tuple[int, list[float]]]:
    """Return what was held all day long on each day, from the days on which it changed."""
    days = sorted(steps)
    now = [0.0] * 3
    found = []
    for day, following in zip(days, [*days[1:], days[-1]], strict=True):
        _add(now, steps[day])
        found += [(each, [amount * DAY_MS for amount in now]) for each in range(day, following) if any(now)]
    return found


def _add(sums: list[float], amounts: Sequence[float]) -> None:
    for place, amount in enumerate(amounts):
        sums[place] += amount


def _row(day: int, whose: Whose, sums: Sequence[float]) -> UseRow:
    gpu_ms, cpu_ms, memory_mb_ms, attempts = sums
    name = (_FIRST_DAY + timedelta(days=day)).date().isoformat()
    hours = (gpu_ms / _HOUR_MS, cpu_ms / _HOUR_MS, memory_mb_ms / _MB_PER_GB / _HOUR_MS)
    return UseRow(name, whose[0], whose[1], *hours, int(attempts))

"""Adds up use: hours of GPUs, CPUs and memory, by day, user and virtual cluster.

A task attempt holds its grant until it ends. The database adds up attempts that started and ended on one day, day by
day, and attempts that ran over midnight by their first and last day, which leaves a few rows even of a million
attempts; the days in between are whole, so the sum is enough. When a job is deleted, its sums are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from openpai.ports.usage import LentUse, UseRow
from openpai.store.schema import lent_use, past_use, task_attempts

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_MB_PER_GB: Final = 1024
_FIRST_DAY: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Sums of milliseconds of many megabytes do not fit into the integers of a database; a float holds them exactly
# far beyond what a cluster can use.
_HELD: Final = ("gpus", "cpus", "memory_mb")
_granted: Final = task_attempts.c.granted_at_ms
_ended: Final = task_attempts.c.ended_at_ms

Whose = tuple[str, str]
# By day, so that no long list is sorted, which would block other requests.
Days = defaultdict[int, defaultdict[Whose, list[float]]]


@dataclass(frozen=True, slots=True)
class Period:
    """A period, and optionally one user and one virtual cluster."""

    from_ms: int
    to_ms: int
    users: Sequence[str] = ()
    virtual_clusters: Sequence[str] = ()


def held(connection: sa.Connection, period: Period) -> tuple[UseRow, ...]:
    """Return the use in a period, with that of running and of deleted jobs."""
    sums: Days = defaultdict(lambda: defaultdict(lambda: [0.0] * (4 + len(_LENT))))
    slopes: defaultdict[Whose, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0] * 3))
    # Day by day: sorting many short lists is much faster than sorting a long one.
    within_a_day = _within_a_day(period)
    for day in range(period.from_ms // DAY_MS, (period.to_ms - 1) // DAY_MS + 1):
        start_ms, end_ms = max(period.from_ms, day * DAY_MS), min(period.to_ms, (day + 1) * DAY_MS)
        for row in connection.execute(within_a_day, {"start_ms": start_ms, "end_ms": end_ms}):
            amounts = (row.gpus or 0, row.cpus or 0, row.memory_mb or 0, row.attempts)
            _add(sums[day][row.owner, row.virtual_cluster], amounts)
    for row in connection.execute(_over_days(period)):
        whose = (row.owner, row.virtual_cluster)
        _add(sums[row.first][whose], (row.head_gpus, row.head_cpus, row.head_memory_mb, row.attempts))
        if row.last > row.first:
            _add(sums[row.last][whose], (row.tail_gpus, row.tail_cpus, row.tail_memory_mb))
            all_day = (row.gpus, row.cpus, row.memory_mb)
            _add(slopes[whose][row.first + 1], all_day)
            _add(slopes[whose][row.last], [-amount for amount in all_day])
    for whose, steps in slopes.items():
        for day, whole in _whole_days(steps):
            _add(sums[day][whose], whole)
    for row in connection.execute(_by_day(past_use, period)):
        deleted = (row.gpu_ms, row.cpu_ms, row.memory_mb_ms, row.task_attempts)
        _add(sums[row.day][row.owner, row.virtual_cluster], deleted)
    for row in connection.execute(_by_day(lent_use, period)):
        lent = (getattr(row, name) for name in _LENT)
        _add(sums[row.day][row.owner, row.virtual_cluster], (0, 0, 0, 0, *lent))
    return tuple(_row(day, whose, sums[day][whose]) for day in sorted(sums) for whose in sorted(sums[day]))


def keep_use(connection: sa.Connection, ids: Sequence[str]) -> None:
    """Keep the sums of these jobs, which are about to be deleted: deleting a job returns no hours."""
    for (day, (owner, virtual_cluster)), sums in _held_by(connection, ids).items():
        of = {"day": day, "owner": owner, "virtual_cluster": virtual_cluster}
        _add_to(connection, past_use, of, dict(zip(_PAST, sums, strict=True)))


def add_lent_use(connection: sa.Connection, rows: Sequence[LentUse], at_ms: int) -> None:
    """Add GPU time without a guarantee, and moves, to the day of `at_ms`."""
    for row in rows:
        of = {"day": at_ms // DAY_MS, "owner": row.user, "virtual_cluster": row.virtual_cluster}
        _add_to(connection, lent_use, of, {name: getattr(row, name) for name in _LENT})


def _add_to(connection: sa.Connection, table: sa.Table, of: Mapping[str, Any], amounts: Mapping[str, float]) -> None:
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    # One statement: two servers that add the first row of a day must not hinder each other.
    insert = dialect.insert(table).values({**of, **amounts})
    more = {name: table.c[name] + insert.excluded[name] for name in amounts}
    connection.execute(insert.on_conflict_do_update(index_elements=list(of), set_=more))


_PAST: Final = ("gpu_ms", "cpu_ms", "memory_mb_ms", "task_attempts")
_LENT: Final = (
    "borrowed_gpu_ms", "lent_gpu_ms", "jobs_moved", "moved_gpu_ms", "idle_gpu_ms", "failed_gpu_ms", "preempted_gpu_ms",
)  # fmt: skip


def _held_by(connection: sa.Connection, ids: Sequence[str]) -> dict[tuple[int, Whose], list[float]]:
    columns = (_granted, _ended, *(task_attempts.c[name] for name in _HELD))
    query = sa.select(task_attempts.c.owner, task_attempts.c.virtual_cluster, *columns).where(
        task_attempts.c.job.in_(ids), _granted.is_not(None)
    )
    sums: defaultdict[tuple[int, Whose], list[float]] = defaultdict(lambda: [0.0] * 4)
    for row in connection.execute(query):
        start, end = row.granted_at_ms, max(row.ended_at_ms or 0, row.granted_at_ms)
        amounts = [row.gpus or 0, row.cpus or 0, row.memory_mb or 0]
        for day in range(start // DAY_MS, max(end - 1, start) // DAY_MS + 1):
            held_ms = min(end, (day + 1) * DAY_MS) - max(start, day * DAY_MS)
            begins = 1.0 if day == start // DAY_MS else 0.0
            _add(sums[day, (row.owner, row.virtual_cluster)], [*(amount * held_ms for amount in amounts), begins])
    return sums


def _within_a_day(period: Period) -> sa.Select[Any]:
    """Return the query for attempts from `start_ms` to `end_ms` of one day, added up by owner and virtual cluster."""
    start_ms: sa.BindParameter[int] = sa.bindparam("start_ms")
    end_ms: sa.BindParameter[int] = sa.bindparam("end_ms")
    # A clock that was set back between grant and end must not cause negative hours.
    held_ms = sa.case((_ended > _granted, _ended - _granted), else_=0)
    return (
        sa.select(
            task_attempts.c.owner,
            task_attempts.c.virtual_cluster,
            *(_sum(task_attempts.c[name] * held_ms).label(name) for name in _HELD),
            sa.func.count().label("attempts"),
        )
        .where(_ended > start_ms, _ended <= end_ms, _granted >= start_ms, _granted < period.to_ms)
        .where(*_whose(task_attempts, period))
        .group_by(task_attempts.c.owner, task_attempts.c.virtual_cluster)
    )


def _over_days(period: Period) -> sa.Select[Any]:
    """Return the query for all other attempts, added up by first and last day, owner and virtual cluster."""
    start = sa.case((_granted < period.from_ms, period.from_ms), else_=_granted)
    end = sa.case((sa.or_(_ended.is_(None), _ended > period.to_ms), period.to_ms), else_=_ended)
    began_earlier = sa.or_(_granted < period.from_ms, _granted < (_ended - 1) // DAY_MS * DAY_MS)
    spans = (
        sa.select(
            task_attempts.c.owner,
            task_attempts.c.virtual_cluster,
            start.label("start"),
            end.label("end"),
            *(sa.func.coalesce(task_attempts.c[name], 0).label(name) for name in _HELD),
        )
        .where(_granted < period.to_ms, sa.or_(_ended > period.from_ms, _ended.is_(None)))
        .where(sa.or_(_ended.is_(None), _ended > period.to_ms, began_earlier))
        .where(*_whose(task_attempts, period))
        .subquery()
    )
    first, last = spans.c.start // DAY_MS, (spans.c.end - 1) // DAY_MS
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


def _by_day(table: sa.Table, period: Period) -> sa.Select[Any]:
    """Return the query for the rows of a table of whole days: of deleted jobs, or of use without a guarantee."""
    first, last = period.from_ms // DAY_MS, (period.to_ms - 1) // DAY_MS
    return sa.select(table).where(table.c.day.between(first, last), *_whose(table, period))


def _whose(table: sa.Table, period: Period) -> list[sa.ColumnElement[bool]]:
    filters = ((table.c.owner, period.users), (table.c.virtual_cluster, period.virtual_clusters))
    return [column.in_(names) for column, names in filters if names]


def _sum(amount: sa.ColumnElement[Any]) -> sa.ColumnElement[float]:
    return sa.func.sum(sa.cast(amount, sa.Double))


def _whole_days(steps: dict[int, list[float]]) -> list[tuple[int, list[float]]]:
    """Return the use on whole days, from the days on which it changed."""
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
    gpu_ms, cpu_ms, memory_mb_ms, attempts, borrowed_ms, lent_ms, moves, *lost_ms = sums
    name = (_FIRST_DAY + timedelta(days=day)).date().isoformat()
    hours = (gpu_ms / _HOUR_MS, cpu_ms / _HOUR_MS, memory_mb_ms / _MB_PER_GB / _HOUR_MS)
    lent = (borrowed_ms / _HOUR_MS, lent_ms / _HOUR_MS)
    return UseRow(
        name, whose[0], whose[1], *hours, int(attempts), *lent, int(moves), *(each / _HOUR_MS for each in lost_ms)
    )

"""Answering questions about jobs: lists with every filter, details, attempts, events and tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.lifecycle.model import AttemptKey, TaskId
from openpai.ports.store import EventRow, JobAttemptRow, JobFilter, JobPage, JobRow, TaskAttemptRow
from openpai.store import rows
from openpai.store.database import Database
from openpai.store.schema import events, job_attempts, jobs, tags, task_attempts

_LISTED: Final = tuple(column for column in jobs.columns if column.name not in ("plan", "spec", "config", "sealed"))
_RETRIES: Final = jobs.c.retries_counted + jobs.c.retries_free
_ORDERS: Final[Mapping[str, Any]] = {
    "jobName": jobs.c.name,
    "submissionTime": jobs.c.submitted_at_ms,
    "username": jobs.c.owner,
    "vc": jobs.c.virtual_cluster,
    "retries": _RETRIES,
    "totalTaskNumber": jobs.c.tasks_total,
    "totalGpuNumber": jobs.c.gpus_total,
    "state": jobs.c.phase,
    "completionTime": jobs.c.ended_at_ms,
    "jobPriority": jobs.c.priority_class,
}


class SqlJobQueries:
    """`ports.store.JobQueries` over SQLite or PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._position = sa.func.instr if database.is_sqlite else sa.func.strpos

    async def jobs(self, where: JobFilter, *, count: bool) -> JobPage:
        """Return one page of jobs; see `JobQueries.jobs`."""
        condition = _condition(where, self._position)
        query = sa.select(*_LISTED).where(condition).order_by(*_order(where)).offset(where.offset).limit(where.limit)
        counting = sa.select(sa.func.count()).select_from(jobs).where(condition)

        def work(connection: sa.Connection) -> JobPage:
            found = connection.execute(query).mappings().all()
            tagged = _tags(connection, [row["id"] for row in found])
            total = connection.execute(counting).scalar_one() if count else None
            return JobPage(tuple(_job_row(row, tagged.get(row["id"], ())) for row in found), total)

        return await self._database.read(work)

    async def job(self, user: str, name: str) -> JobRow | None:
        """Return one job; see `JobQueries.job`."""
        query = sa.select(*_LISTED).where(jobs.c.owner == user, jobs.c.name == name, jobs.c.archive_key == "")

        def work(connection: sa.Connection) -> JobRow | None:
            row = connection.execute(query).mappings().first()
            return _job_row(row, _tags(connection, [row["id"]]).get(row["id"], ())) if row else None

        return await self._database.read(work)

    async def config(self, job: str) -> str | None:
        """Return the masked job file; see `JobQueries.config`."""
        query = sa.select(jobs.c.config).where(jobs.c.id == job)
        return await self._database.read(lambda connection: connection.execute(query).scalar())

    async def spec_text(self, job: str) -> str | None:
        """Return the specification; see `JobQueries.spec_text`."""
        query = sa.select(jobs.c.spec).where(jobs.c.id == job)
        return await self._database.read(lambda connection: connection.execute(query).scalar())

    async def job_attempts(self, job: str) -> tuple[JobAttemptRow, ...]:
        """Return the finished attempts of a job; see `JobQueries.job_attempts`."""
        query = sa.select(job_attempts).where(job_attempts.c.job == job).order_by(job_attempts.c.attempt)
        found = await self._database.read(lambda connection: connection.execute(query).mappings().all())
        return tuple(_attempt_row(row) for row in found)

    async def task_attempts(self, job: str, job_attempt: int, task: TaskId | None = None) -> tuple[TaskAttemptRow, ...]:
        """Return every task attempt of one job attempt; see `JobQueries.task_attempts`."""
        t = task_attempts.c
        query = sa.select(task_attempts).where(t.job == job, t.job_attempt == job_attempt)
        if task is not None:
            query = query.where(t.role == task.role, t.task_index == task.index)
        query = query.order_by(t.role, t.task_index, t.attempt)
        found = await self._database.read(lambda connection: connection.execute(query).mappings().all())
        return tuple(_task_row(dict(row)) for row in found)

    async def events(self, job: str, kind: str | None = None) -> tuple[EventRow, ...]:
        """Return a job's events; see `JobQueries.events`."""
        query = sa.select(events).where(events.c.job == job).order_by(events.c.id.desc())
        if kind is not None:
            query = query.where(events.c.is_warning == (kind == "Warning"))
        found = await self._database.read(lambda connection: connection.execute(query).mappings().all())
        return tuple(EventRow(row["id"], rows.event_from(dict(row))) for row in found)

    async def set_tag(self, job: str, tag: str) -> None:
        """Put a tag on a job; see `JobQueries.set_tag`."""

        def work(connection: sa.Connection) -> None:
            try:
                with connection.begin_nested():
                    connection.execute(tags.insert(), {"job": job, "tag": tag})
            except exc.IntegrityError:
                return

        await self._database.write(work)

    async def remove_tag(self, job: str, tag: str) -> bool:
        """Take a tag off a job; see `JobQueries.remove_tag`."""
        gone = sa.delete(tags).where(tags.c.job == job, tags.c.tag == tag)
        return await self._database.write(lambda connection: connection.execute(gone).rowcount > 0)


def _condition(where: JobFilter, position: Any) -> sa.ColumnElement[bool]:
    parts: list[sa.ColumnElement[bool]] = [jobs.c.archive_key != "" if where.is_archived else jobs.c.archive_key == ""]
    if where.users:
        parts.append(jobs.c.owner.in_(where.users))
    if where.virtual_clusters:
        parts.append(jobs.c.virtual_cluster.in_(where.virtual_clusters))
    if where.phases:
        parts.append(jobs.c.phase.in_(where.phases))
    if where.priority_classes:
        named = [name for name in where.priority_classes if name is not None]
        either: list[sa.ColumnElement[bool]] = [jobs.c.priority_class.in_(named)]
        if None in where.priority_classes:
            either.append(jobs.c.priority_class.is_(None))
        parts.append(sa.or_(*either))
    if where.keyword:
        # These functions tell capitals from small letters on both databases; LIKE does not on SQLite.
        names = (jobs.c.owner, jobs.c.name, jobs.c.virtual_cluster)
        parts.append(sa.or_(*(position(name, where.keyword) > 0 for name in names)))
    if where.tags_any:
        parts.append(jobs.c.id.in_(sa.select(tags.c.job).where(tags.c.tag.in_(where.tags_any))))
    if where.tags_none:
        parts.append(jobs.c.id.not_in(sa.select(tags.c.job).where(tags.c.tag.in_(where.tags_none))))
    return sa.and_(*parts)


def _order(where: JobFilter) -> tuple[Any, ...]:
    column = _ORDERS.get(where.order, jobs.c.submitted_at_ms)
    first = column.asc() if where.is_ascending else column.desc()
    if column.nullable if isinstance(column, sa.Column) else False:
        first = first.nulls_last() if where.is_ascending else first.nulls_first()
    return (first, jobs.c.id.asc() if where.is_ascending else jobs.c.id.desc())


def _tags(connection: sa.Connection, ids: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for start in range(0, len(ids), 500):
        query = sa.select(tags).where(tags.c.job.in_(ids[start : start + 500])).order_by(tags.c.job, tags.c.tag)
        for row in connection.execute(query):
            found[row.job] = (*found.get(row.job, ()), row.tag)
    return found


def _job_row(row: Any, tagged: tuple[str, ...]) -> JobRow:
    values = dict(row)
    for internal in ("version", "priority", "time_limit_ms", "checkpoint_at_ms", "archive_key"):
        del values[internal]
    values["user"] = values.pop("owner")
    values["outcome"] = rows.outcome_from(values["outcome"])
    return JobRow(**values, tags=tagged)


def _attempt_row(row: Any) -> JobAttemptRow:
    outcome = rows.outcome_from(row["outcome"])
    if outcome is None:
        raise ValueError(f"attempt {row['attempt']} of job {row['job']} has no outcome")
    return JobAttemptRow(row["attempt"], outcome, row["created_at_ms"], row["started_at_ms"], row["ended_at_ms"])


def _task_row(row: rows.Row) -> TaskAttemptRow:
    task = rows.task_from(row)
    return TaskAttemptRow(
        key=AttemptKey(row["job"], row["job_attempt"], task.id.role, task.id.index, task.attempt),
        phase=task.phase.value,
        retries_counted=task.retries.counted,
        retries_free=task.retries.free,
        slot=rows.slot_from(row),
        granted_at_ms=task.granted_at_ms,
        started_at_ms=task.started_at_ms,
        ended_at_ms=task.ended_at_ms,
        retry_at_ms=task.retry_at_ms,
        report=task.report,
        diagnosis=task.diagnosis,
    )

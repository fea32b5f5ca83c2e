"""Queries about jobs (lists, details, attempts, events), and changes of tags, archiving and deleting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.lifecycle.model import JOB_FINAL, AttemptKey, TaskId
from openpai.ports.queries import (
    ChangedJob,
    Changes,
    Cursor,
    EventRow,
    JobAttemptRow,
    JobFilter,
    JobPage,
    JobRow,
    TaskAttemptRow,
)
from openpai.protocol.errors import Refused
from openpai.protocol.job import JobSpec
from openpai.store import job_lists, rows
from openpai.store.accounting import keep_use
from openpai.store.database import Database
from openpai.store.schema import events, idempotency, inbox, job_attempts, job_details, jobs, tags, task_attempts
from openpai.store.sweep_lines import choose_line, sweep_of
from openpai.store.totals import Counted, Totals

T = TypeVar("T")

_FINAL: Final = tuple(phase.value for phase in JOB_FINAL)
_SAME: Final = tuple(jobs.c[field.name] for field in fields(JobRow) if field.name not in ("user", "outcome", "tags"))
_SHOWN: Final = sa.select(*_SAME, jobs.c.owner, job_details.c.outcome).join(job_details, job_details.c.job == jobs.c.id)
_IDS_AT_ONCE: Final = 500
FEW_EVENTS: Final = 100
"""The events of a job with fewer of them are read without a thread."""
OWNERS_MAX: Final = 500
"""With more of them it is faster to compare the name of each job's owner."""
# Built once: building a statement takes longer than executing it.
_OF: Final[sa.BindParameter[str]] = sa.bindparam("of_job")
_ONE_NAMED: Final = _SHOWN.where(
    jobs.c.owner == sa.bindparam("of_owner"), jobs.c.name == sa.bindparam("of_name"), jobs.c.archive_key == ""
)
_ONE: Final = _SHOWN.where(jobs.c.id == _OF)
_MANY: Final = _SHOWN.where(jobs.c.id.in_(sa.bindparam("of_jobs", expanding=True)))
_TAGS: Final = (
    sa.select(tags).where(tags.c.job.in_(sa.bindparam("of_jobs", expanding=True))).order_by(tags.c.job, tags.c.tag)
)
_CONFIG: Final = sa.select(job_details.c.config).where(job_details.c.job == _OF)
_SPEC: Final = sa.select(job_details.c.spec).where(job_details.c.job == _OF)
_ATTEMPTS: Final = sa.select(job_attempts).where(job_attempts.c.job == _OF).order_by(job_attempts.c.attempt)
_TASKS: Final = (
    sa.select(task_attempts)
    .where(task_attempts.c.job == _OF, task_attempts.c.job_attempt == sa.bindparam("of_attempt"))
    .order_by(task_attempts.c.role, task_attempts.c.task_index, task_attempts.c.attempt)
)
_TASK: Final = _TASKS.where(
    task_attempts.c.role == sa.bindparam("of_role"), task_attempts.c.task_index == sa.bindparam("of_index")
)
_EVENTS: Final = sa.select(events).where(events.c.job == _OF).order_by(events.c.id.desc())
_NEWEST_EVENT: Final = sa.select(sa.func.coalesce(sa.func.max(events.c.id), 0))
_CHANGED: Final = (
    sa.select(events.c.id, jobs.c.owner, jobs.c.name, jobs.c.virtual_cluster, jobs.c.submitted_at_ms, jobs.c.is_private)
    .join(jobs, jobs.c.id == events.c.job)
    .where(events.c.id > sa.bindparam("of_event"))
    .order_by(events.c.id)
    .limit(sa.bindparam("of_limit"))
)
# Deleted jobs share rows of hours, which two servers must not create at the same time.
_HOURS: Final = "hours of deleted jobs"
_OF_JOB: Final = (job_details, job_attempts, task_attempts, events, tags, idempotency, inbox)


class SqlJobQueries:
    """`ports.store.JobQueries` over SQLite or PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._manner = job_lists.OF_SQLITE if database.is_sqlite else job_lists.OF_POSTGRESQL
        self._totals = Totals()

    async def jobs(self, where: JobFilter, *, count: bool) -> JobPage:
        matching = job_lists.condition(where, self._manner, await self._owners_holding(where.keyword))
        if count and not job_lists.is_newest_first(where):
            if where.keyword:
                return await self._page_of_selection(where, matching)
            # Both read the whole index, so neither waits for the other.
            page, total = await asyncio.gather(self._page(where, matching), self._total(where, matching))
            return replace(page, total=total)
        page = await self._page(where, matching)
        if not count:
            return page
        is_all = page.end is None and where.after is None and (page.jobs or where.offset == 0) and where.limit > 0
        total = where.offset + len(page.jobs) if is_all else await self._total(where, matching)
        return replace(page, total=total)

    async def _owners_holding(self, word: str) -> list[str] | None:
        """Return the owners whose name contains a word, so that SQLite compares less for every job."""
        if not word or not self._database.is_sqlite:
            return None
        of = {"word": word}
        owners = await self._database.read(lambda connection: connection.scalars(job_lists.OWNERS_HOLDING, of).all())
        return list(owners) if len(owners) <= OWNERS_MAX else None

    async def _page(self, where: JobFilter, matching: job_lists.Condition) -> JobPage:
        of = job_lists.of_jobs(where)
        query = _paged(sa.select(of.id, of.key.label("key")).where(matching), where, of)
        look = self._database.read_inline if job_lists.is_short(where) else self._database.read
        return await look(lambda connection: _read_page(connection, query, where))

    async def _page_of_selection(self, where: JobFilter, matching: job_lists.Condition) -> JobPage:
        """Return a page with its total from one search, since searching names is most of the work."""
        of = job_lists.of_jobs(where)
        found = sa.select(of.id, of.key.label("key")).where(matching).cte("found")
        query = _paged(sa.select(found), where, job_lists.Listed(found.c.key, found.c.id))
        total = sa.select(sa.func.count()).select_from(found).scalar_subquery()
        query = query.add_columns(total.label("total"))

        def work(connection: sa.Connection) -> JobPage:
            page = _read_page(connection, query, where)
            # After the last row, no row carries the total.
            return page if page.total is not None else replace(page, total=_count(connection, matching))

        return await self._database.read(work)

    async def _total(self, where: JobFilter, matching: job_lists.Condition) -> int:
        query = job_lists.counting(where, matching, self._manner)
        # SQLite counts in this process, whose waiting for a processor is no cost of the count.
        clock = time.thread_time if self._database.is_sqlite else time.monotonic

        def work(connection: sa.Connection) -> Counted:
            began_s = clock()
            total = connection.execute(query).scalar_one()
            return Counted(total, clock() - began_s)

        return await self._totals.of(job_lists.selection(where), lambda: self._database.read(work))

    async def job(self, user: str, name: str) -> JobRow | None:
        return await self._one(_ONE_NAMED, {"of_owner": user, "of_name": name})

    async def job_of_id(self, job: str) -> JobRow | None:
        return await self._one(_ONE, {"of_job": job})

    async def _one(self, query: sa.Select[Any], of: Mapping[str, str]) -> JobRow | None:
        def work(connection: sa.Connection) -> JobRow | None:
            row = connection.execute(query, of).mappings().first()
            return _job_row(row, _tags(connection, [row["id"]]).get(row["id"], ())) if row else None

        return await self._database.read_inline(work)

    async def running(self) -> tuple[tuple[JobRow, TaskAttemptRow], ...]:
        t = task_attempts.c
        current = sa.and_(t.job == jobs.c.id, t.job_attempt == jobs.c.attempt)
        holds = sa.and_(t.node.is_not(None), t.ended_at_ms.is_(None))
        query = sa.select(task_attempts).join(jobs, current).where(jobs.c.phase.in_(job_lists.ACTIVE), holds)
        query = query.order_by(t.job, t.role, t.task_index)

        def work(connection: sa.Connection) -> tuple[tuple[JobRow, TaskAttemptRow], ...]:
            found = [_task_row(row) for row in _plain(connection, query, {})]
            ids = list(dict.fromkeys(row.key.job for row in found))
            rows_by_id = {row.id: row for row in _shown(connection, ids)}
            return tuple((rows_by_id[row.key.job], row) for row in found)

        return await self._database.read(work)

    async def config(self, job: str) -> str | None:
        return await self._database.read_inline(
            lambda connection: connection.execute(_CONFIG, {"of_job": job}).scalar()
        )

    async def spec(self, job: str) -> JobSpec | None:
        text = await self._database.read_inline(lambda connection: connection.execute(_SPEC, {"of_job": job}).scalar())
        return rows.spec_from(text) if text is not None else None

    async def job_attempts(self, job: str) -> tuple[JobAttemptRow, ...]:
        return tuple(_attempt_row(row) for row in await self._all(_ATTEMPTS, {"of_job": job}))

    async def task_attempts(self, job: str, job_attempt: int, task: TaskId | None = None) -> tuple[TaskAttemptRow, ...]:
        of: dict[str, Any] = {"of_job": job, "of_attempt": job_attempt}
        if task is None:
            # There may be thousands, and building values of them takes longer than reading them.
            return await self._database.read(lambda connection: tuple(map(_task_row, _plain(connection, _TASKS, of))))
        found = await self._all(_TASK, of | {"of_role": task.role, "of_index": task.index})
        return tuple(_task_row(dict(row)) for row in found)

    async def events(self, job: str, kind: str | None = None, *, reason: str | None = None) -> tuple[EventRow, ...]:
        query = _EVENTS if kind is None else _EVENTS.where(events.c.is_warning == (kind == "Warning"))
        if reason is not None:
            query = query.where(events.c.reason == reason)

        def work(connection: sa.Connection) -> tuple[EventRow, ...]:
            found = _plain(connection, query, {"of_job": job})
            return tuple(EventRow(row["id"], rows.event_from(row)) for row in found)

        few = await self._all(query.limit(FEW_EVENTS), {"of_job": job})
        if len(few) < FEW_EVENTS:
            return tuple(EventRow(row["id"], rows.event_from(dict(row))) for row in few)
        # Each of thousands of tasks has several.
        return await self._database.read(work)

    async def changes(self, after: int, limit: int) -> Changes:
        def work(connection: sa.Connection) -> Changes:
            newest = connection.execute(_NEWEST_EVENT).scalar_one()
            # Most looks find nothing.
            found = connection.execute(_CHANGED, {"of_event": after, "of_limit": limit}) if newest > after else ()
            return Changes(newest, tuple(ChangedJob(*row) for row in found))

        return await self._database.read_inline(work)

    async def _all(self, query: sa.Select[Any], of: Mapping[str, Any]) -> Sequence[sa.RowMapping]:
        return await self._database.read_inline(lambda connection: connection.execute(query, of).mappings().all())

    async def set_tag(self, job: str, tag: str) -> None:
        def work(connection: sa.Connection) -> None:
            try:
                with connection.begin_nested():
                    connection.execute(tags.insert(), {"job": job, "tag": tag})
                    connection.execute(sa.update(jobs).where(jobs.c.id == job).values(is_tagged=True))
            except exc.IntegrityError:
                return

        await self._database.write(work)

    async def remove_tag(self, job: str, tag: str) -> bool:
        gone = sa.delete(tags).where(tags.c.job == job, tags.c.tag == tag)
        rest = sa.exists().where(tags.c.job == jobs.c.id)

        def work(connection: sa.Connection) -> bool:
            was_there = connection.execute(gone).rowcount > 0
            if was_there:
                connection.execute(sa.update(jobs).where(jobs.c.id == job).values(is_tagged=rest))
            return was_there

        return await self._database.write(work)

    async def archive(self, job: str, at_ms: int) -> bool:
        away = sa.update(jobs).where(jobs.c.id == job, jobs.c.phase.in_(_FINAL))
        away = away.values(archive_key=jobs.c.id, archived_at_ms=sa.func.coalesce(jobs.c.archived_at_ms, at_ms))

        def work(connection: sa.Connection) -> bool:
            is_done = connection.execute(away).rowcount > 0
            choose_line(connection, sweep_of(connection, job))
            return is_done

        return await self._database.write(work)

    async def unarchive(self, job: str) -> None:
        back = sa.update(jobs).where(jobs.c.id == job).values(archive_key="", archived_at_ms=None)

        def work(connection: sa.Connection) -> None:
            try:
                with connection.begin_nested():
                    connection.execute(back)
                choose_line(connection, sweep_of(connection, job))
            except exc.IntegrityError as error:
                message = "another job has the name of this one now"
                raise Refused("ConflictJobError", message, "archive or delete that one first") from error

        await self._database.write(work)

    async def attempt_keys(self, job: str) -> tuple[AttemptKey, ...]:
        t = task_attempts.c
        query = sa.select(t.job, t.job_attempt, t.role, t.task_index, t.attempt).where(t.job == job)
        return await self._database.read(
            lambda connection: tuple(AttemptKey(*row) for row in connection.execute(query))
        )

    async def delete(self, job: str) -> bool:
        is_final = sa.select(jobs.c.id).where(jobs.c.id == job, jobs.c.phase.in_(_FINAL)).with_for_update()

        def work(connection: sa.Connection) -> bool:
            if connection.execute(is_final).first() is None:
                return False
            keep_use(connection, [job])
            sweep = sweep_of(connection, job)
            for table in _OF_JOB:
                connection.execute(sa.delete(table).where(table.c.job == job))
            connection.execute(sa.delete(jobs).where(jobs.c.id == job))
            choose_line(connection, sweep)
            return True

        # A job with thousands of tasks has tens of thousands of rows.
        return await self._database.write(work, _HOURS, is_long=True)


def _paged(query: sa.Select[Any], where: JobFilter, of: job_lists.Listed) -> sa.Select[Any]:
    if where.after is not None:
        query = query.where(job_lists.after(where, where.after, of))
    # One more than the page shows whether there is a next page.
    return query.order_by(*job_lists.order(where, of)).offset(where.offset).limit(where.limit + 1)


def _read_page(connection: sa.Connection, query: sa.Select[Any], where: JobFilter) -> JobPage:
    found = connection.execute(query).mappings().all()
    ids = [row["id"] for row in found[: where.limit]]
    rows_by_id = {row.id: row for row in _shown(connection, ids)}
    is_more = len(found) > where.limit > 0
    end = Cursor(found[where.limit - 1]["key"], ids[-1]) if is_more else None
    total = found[0].get("total") if found else None
    return JobPage(tuple(rows_by_id[id_] for id_ in ids if id_ in rows_by_id), total, end)


def _count(connection: sa.Connection, matching: job_lists.Condition) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(jobs).where(matching)).scalar_one())


def _shown(connection: sa.Connection, ids: Sequence[str]) -> list[JobRow]:
    found: list[JobRow] = []
    for start in range(0, len(ids), _IDS_AT_ONCE):
        some = list(ids[start : start + _IDS_AT_ONCE])
        tagged = _tags(connection, some)
        shown = connection.execute(_MANY, {"of_jobs": some}).mappings()
        found += [_job_row(row, tagged.get(row["id"], ())) for row in shown]
    return found


def _tags(connection: sa.Connection, ids: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for row in connection.execute(_TAGS, {"of_jobs": ids}):
        found[row.job] = (*found.get(row.job, ()), row.tag)
    return found


def _job_row(row: Any, tagged: tuple[str, ...]) -> JobRow:
    same = {column.name: row[column.name] for column in _SAME} | {"phase": rows.phase_from(row).value}
    return JobRow(**same, user=row["owner"], outcome=rows.outcome_from(row["outcome"]), tags=tagged)


def _plain(connection: sa.Connection, query: sa.Select[Any], of: Mapping[str, Any]) -> Iterator[rows.Row]:
    """Yield the rows of a query as plain dictionaries, which are faster than the library's rows."""
    found = connection.execute(query, of)
    names = tuple(found.keys())
    return (dict(zip(names, row, strict=True)) for row in found)


def _attempt_row(row: Any) -> JobAttemptRow:
    outcome = rows.outcome_from(row["outcome"])
    if outcome is None:
        raise ValueError(f"attempt {row['attempt']} of job {row['job']} has no outcome")
    return JobAttemptRow(row["attempt"], outcome, row["created_at_ms"], row["started_at_ms"], row["ended_at_ms"])


def _task_row(row: rows.Row) -> TaskAttemptRow:
    return TaskAttemptRow(
        key=AttemptKey(row["job"], row["job_attempt"], row["role"], row["task_index"], row["attempt"]),
        phase=row["phase"],
        retries_counted=row["retries_counted"],
        retries_free=row["retries_free"],
        slot=rows.slot_from(row),
        granted_at_ms=row["granted_at_ms"],
        started_at_ms=row["started_at_ms"],
        ended_at_ms=row["ended_at_ms"],
        retry_at_ms=row["retry_at_ms"],
        report=rows.report_from(row["report"]),
        diagnosis=rows.diagnosis_from(row["diagnosis"]),
    )

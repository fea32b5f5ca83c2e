"""Stores jobs: submissions, changes, grants and the inbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql, sqlite

from openpai.lifecycle.model import JOB_FINAL, JobPhase
from openpai.ports.store import AlreadySubmitted, Change, JobRecord, NewJob, Saved
from openpai.ports.usage import BeyondQuota
from openpai.protocol.errors import Refused, Unavailable
from openpai.store import rows
from openpai.store.accounting import add_lent_use
from openpai.store.budgets import over_budget
from openpai.store.database import Database
from openpai.store.forgetting import forget_older, forget_where
from openpai.store.leases import SqlLeases
from openpai.store.locks import StaleJob, check_lease, newest_epoch, quota_lock, update_jobs
from openpai.store.lost_work import lost_work
from openpai.store.prepared import Prepared, undone_on_failure
from openpai.store.quotas import beyond, count_ends, ends_of
from openpai.store.schema import (
    audit,
    events,
    grants,
    idempotency,
    inbox,
    job_attempts,
    job_details,
    jobs,
    tags,
    task_attempts,
)
from openpai.store.usage import audit_columns

_FEW: Final = 20
_ACTIVE: Final = tuple(phase.value for phase in JobPhase if phase not in JOB_FINAL)
# Built once: building a statement takes longer than executing it.
_ADD_JOB: Final = jobs.insert()
_ADD_DETAILS: Final = job_details.insert()
_ADD_EVENT: Final = Prepared(events.insert())
_ADD_AUDIT: Final = audit.insert()
_ADD_TAG: Final = tags.insert()
_ADD_NEWS: Final = Prepared(inbox.insert())
# As text: the leader asks every second, and preparing a statement takes several times as long as this look.
_HAS_NEWS: Final = "SELECT id FROM inbox LIMIT 1"
_ADD_GRANT: Final = Prepared(grants.insert())
_TASK_KEY: Final = ("job", "job_attempt", "role", "task_index", "attempt")

_WHOLE: Final = sa.select(jobs, job_details).join(job_details, job_details.c.job == jobs.c.id)
_UPDATE_OUTCOME: Final = Prepared(
    sa.update(job_details).where(job_details.c.job == sa.bindparam("of_id")).values(outcome=sa.bindparam("new_outcome"))
)
_RELEASE: Final = Prepared(
    sa.delete(grants).where(
        grants.c.node == sa.bindparam("of_node"),
        grants.c.device == sa.bindparam("of_device"),
        grants.c.grant_number == sa.bindparam("of_grant"),
    )
)


ROWS_AT_ONCE: Final = 500
"""A save of more rows would block the event loop too long: it runs in a thread."""


class SqlJobStore(SqlLeases):
    """`ports.store.JobStore` over SQLite or PostgreSQL."""

    def __init__(self, database: Database, steady_ms: Callable[[], int] | None = None) -> None:
        super().__init__(database, steady_ms)
        dialect: Any = sqlite if database.is_sqlite else postgresql
        self._upsert_task = _upsert(dialect, task_attempts, _TASK_KEY)
        self._upsert_attempt = _upsert(dialect, job_attempts, ("job", "attempt"))
        self._count_ends = Prepared(count_ends(dialect))

    async def add_job(self, new: NewJob, epoch: int | None) -> None:
        await self.add_jobs([new], epoch)

    async def add_jobs(self, new: Sequence[NewJob], epoch: int | None) -> None:
        first = new[0]
        columns = [{**rows.new_job_columns(one), **({"is_tagged": True} if one.tags else {})} for one in new]
        details = [rows.detail_columns(one) for one in new]
        begun = [rows.event_columns(one.event) for one in new]
        tagged = [{"job": one.record.job.id, "tag": tag} for one in new for tag in one.tags]
        audited = [audit_columns(one.audit, target=one.record.full_name) for one in new if one.audit is not None]
        owner = first.record.user

        def work(connection: sa.Connection) -> BeyondQuota | None:
            if first.idempotency_key:
                known = connection.execute(_submitted(owner, first.idempotency_key)).first()
                if known is not None:
                    raise AlreadySubmitted(known.job, known.name)
            refused = beyond(connection, owner, first.quotas, first.record.job.submitted_at_ms, len(new))
            if refused is None and any(one.gpus_total for one in new):
                job = first.record
                refused = over_budget(connection, owner, job.virtual_cluster, job.job.submitted_at_ms)
            if refused is not None:
                return refused
            if first.idempotency_key:
                _claim_key(connection, first)
            try:
                connection.execute(_ADD_JOB, columns)
            except exc.IntegrityError as error:
                raise _name_taken(new) from error
            connection.execute(_ADD_DETAILS, details)
            _ADD_EVENT.execute(connection, begun)
            if tagged:
                connection.execute(_ADD_TAG, tagged)
            if audited:
                connection.execute(_ADD_AUDIT, audited)
            # If this server no longer leads, the leader must learn of the jobs.
            if epoch is None or newest_epoch(connection) != epoch:
                _ADD_NEWS.execute(connection, [{"job": one.record.job.id} for one in new])
            return None

        # Raised outside `work`: inside, it would undo other submissions of the group and run each alone.
        refused = await self._database.write(work, quota_lock(owner, first.quotas))
        if refused is not None:
            raise refused

    async def submitted(self, user: str, idempotency_key: str) -> tuple[str, str] | None:
        query = _submitted(user, idempotency_key)
        found = await self._database.read_inline(lambda connection: connection.execute(query).first())
        return None if found is None else (found.job, found.name)

    async def forget_keys(self, before_ms: int) -> int:
        return await forget_where(self._database, idempotency.c.key, idempotency.c.at_ms < before_ms)

    async def forget_events(self, before_ms: int) -> int:
        return await forget_older(self._database, events, before_ms)

    async def load(self, job: str) -> JobRecord | None:
        def work(connection: sa.Connection) -> JobRecord | None:
            row = connection.execute(_WHOLE.where(jobs.c.id == job)).mappings().first()
            if row is None:
                return None
            where = (task_attempts.c.job == job) & (task_attempts.c.job_attempt == row["attempt"])
            attempts = connection.execute(sa.select(task_attempts).where(where)).mappings().all()
            return rows.record_from(dict(row), [dict(attempt) for attempt in attempts])

        size = sa.select(jobs.c.tasks_total).where(jobs.c.id == job)
        tasks = await self._database.read_inline(lambda connection: connection.execute(size).scalar())
        look = self._database.read_inline if (tasks or 0) <= ROWS_AT_ONCE else self._database.read
        return await look(work)

    async def phases(self, ids: Sequence[str]) -> Mapping[str, JobPhase]:
        if not ids:
            return {}
        query = sa.select(jobs.c.id, jobs.c.phase, jobs.c.retry_at_ms)

        def work(connection: sa.Connection) -> Mapping[str, JobPhase]:
            found: dict[str, JobPhase] = {}
            for start in range(0, len(ids), ROWS_AT_ONCE):
                some = query.where(jobs.c.id.in_(ids[start : start + ROWS_AT_ONCE]))
                found |= {row["id"]: rows.phase_from(dict(row)) for row in connection.execute(some).mappings()}
            return found

        look = self._database.read_inline if len(ids) <= _FEW else self._database.read
        return await look(work)

    async def find(self, user: str, name: str) -> str | None:
        query = sa.select(jobs.c.id).where(jobs.c.owner == user, jobs.c.name == name, jobs.c.archive_key == "")
        return await self._database.read_inline(lambda connection: connection.execute(query).scalar())

    async def active(self) -> tuple[JobRecord, ...]:
        is_active = jobs.c.phase.in_(_ACTIVE)
        query = _WHOLE.where(is_active).order_by(jobs.c.submitted_at_ms, jobs.c.id)
        current = sa.and_(task_attempts.c.job == jobs.c.id, task_attempts.c.job_attempt == jobs.c.attempt)
        attempts_query = sa.select(task_attempts).join(jobs, current).where(is_active)

        def work(connection: sa.Connection) -> tuple[JobRecord, ...]:
            attempts: dict[str, list[rows.Row]] = {}
            for row in _rows(connection.execute(attempts_query)):
                attempts.setdefault(row["job"], []).append(row)
            found = _rows(connection.execute(query))
            return tuple([rows.record_from(row, attempts.get(row["id"], ())) for row in found])

        return await self._database.read(work)

    async def save(self, changes: Sequence[Change], epoch: int | None, *, notify: bool = False) -> tuple[Saved, ...]:
        def work(connection: sa.Connection) -> tuple[Saved, ...]:
            if epoch is not None:
                check_lease(connection, epoch)
            for change in changes:
                if change.before.job.is_final and not change.after.job.is_final:
                    _check_room(connection, change)
            try:
                with undone_on_failure(connection):
                    self._write(connection, changes, notify=notify)
            except (StaleJob, exc.IntegrityError):
                if len(changes) > 1:
                    return tuple(self._save_alone(connection, change, notify=notify) for change in changes)
                return (self._save_alone(connection, changes[0], notify=notify),)
            return (Saved.YES,) * len(changes)

        # Only the command to restart a job carries quotas, and commands are saved one by one.
        locks = [quota_lock(change.before.user, change.quotas) for change in changes if change.quotas]
        size = sum(len(one.tasks) + len(one.granted) + len(one.released) + len(one.events) for one in changes)
        return await self._database.write(work, locks[0] if locks else "", is_long=size > ROWS_AT_ONCE)

    async def take_inbox(self, limit: int, epoch: int) -> tuple[str, ...]:
        def work(connection: sa.Connection) -> tuple[str, ...]:
            check_lease(connection, epoch)
            query = sa.select(inbox.c.id, inbox.c.job).order_by(inbox.c.id).limit(limit)
            found = connection.execute(query).all()
            if found:
                connection.execute(sa.delete(inbox).where(inbox.c.id.in_([row.id for row in found])))
            return tuple(dict.fromkeys(row.job for row in found))

        waiting = await self._database.read_inline(lambda connection: connection.exec_driver_sql(_HAS_NEWS).first())
        return await self._database.write(work) if waiting else ()

    def _save_alone(self, connection: sa.Connection, change: Change, *, notify: bool) -> Saved:
        try:
            with undone_on_failure(connection):
                self._write(connection, [change], notify=notify)
        except StaleJob:
            return Saved.STALE
        except exc.IntegrityError:
            return Saved.DEVICE_TAKEN
        return Saved.YES

    def _write(self, connection: sa.Connection, changes: Sequence[Change], *, notify: bool) -> None:
        updates = [
            {
                **rows.job_columns(change.after),
                "of_id": change.after.job.id,
                "of_version": change.before.version,
            }
            for change in changes
        ]
        update_jobs(connection, updates)
        _UPDATE_OUTCOME.execute(
            connection,
            [
                {"of_id": change.after.job.id, "new_outcome": rows.outcome_text(change.after.job.outcome)}
                for change in changes
                if change.after.job.outcome != change.before.job.outcome
            ],
        )
        for change in changes:
            if change.after.job.plan is not change.before.job.plan:
                of_job, of_details = rows.rescaled_columns(change.after)
                id_ = change.after.job.id
                connection.execute(sa.update(jobs).where(jobs.c.id == id_).values(of_job))
                connection.execute(sa.update(job_details).where(job_details.c.job == id_).values(of_details))
        released = [
            {"of_node": node, "of_device": device, "of_grant": grant}
            for change in changes
            for node, device, grant in change.released
        ]
        _RELEASE.execute(connection, released)
        _ADD_GRANT.execute(
            connection,
            [
                {"node": node, "device": device, "grant_number": number, "job": change.after.job.id}
                for change in changes
                for node, device, number in change.granted
            ],
        )
        self._upsert_task.execute(
            connection,
            [
                rows.task_columns(change.after, change.job_attempt, task, slot)
                for change in changes
                for task, slot in change.tasks
            ],
        )
        self._count_ends.execute(connection, ends_of(changes))
        for lost, at_ms in lost_work(connection, changes):
            add_lent_use(connection, [lost], at_ms)
        self._upsert_attempt.execute(connection, [_ended_columns(change) for change in changes if change.ended])
        _ADD_EVENT.execute(connection, [rows.event_columns(e) for change in changes for e in change.events])
        if notify:
            _ADD_NEWS.execute(connection, [{"job": change.after.job.id} for change in changes])


def _rows(found: sa.CursorResult[Any]) -> Iterator[rows.Row]:
    """Yield rows as dictionaries, in half the time that their mappings take."""
    names = tuple(found.keys())
    for row in found:
        yield dict(zip(names, row, strict=True))


def _check_room(connection: sa.Connection, change: Change) -> None:
    """Raise BeyondQuota for a final job that is to run again without room for it."""
    of, now_ms = change.before, change.after.job.attempt_at_ms or 0
    refused = beyond(connection, of.user, change.quotas, now_ms)
    if refused is None and of.spec.gpus_total:
        refused = over_budget(connection, of.user, of.virtual_cluster, now_ms)
    if refused is not None:
        raise refused


def _name_taken(new: Sequence[NewJob]) -> Refused:
    name, user = new[0].record.name, new[0].record.user
    if len(new) == 1:
        message = f"{user} already has a job named {name!r}"
        return Refused(
            "ConflictJobError", message, f"archive the old one: `pai job archive {name}`, or choose another name"
        )
    message = f"{user} already has a job of one of the names {name} to {new[-1].record.name}"
    return Refused("ConflictJobError", message, "archive the old ones, or choose another name for the sweep")


def _claim_key(connection: sa.Connection, new: NewJob) -> None:
    job = new.record
    mine = {
        "owner": job.user,
        "key": new.idempotency_key,
        "job": job.job.id,
        "name": job.name,
        "at_ms": job.job.submitted_at_ms,
    }
    try:
        connection.execute(idempotency.insert(), mine)
    except exc.IntegrityError as error:
        # Another server has just stored the key; a repeated request finds it.
        raise Unavailable(f"job {job.name} is being submitted under this key by another server") from error


def _submitted(user: str, key: str) -> sa.Select[Any]:
    return sa.select(idempotency.c.job, idempotency.c.name).where(idempotency.c.owner == user, idempotency.c.key == key)


def _upsert(dialect: Any, table: sa.Table, key: Sequence[str]) -> Prepared:
    insert = dialect.insert(table)
    rest = {column.name: insert.excluded[column.name] for column in table.columns if column.name not in key}
    return Prepared(insert.on_conflict_do_update(index_elements=list(key), set_=rest))


def _ended_columns(change: Change) -> dict[str, Any]:
    ended = change.ended
    if ended is None:
        raise ValueError("no attempt ended in this change")
    return {
        "job": ended.id,
        "attempt": ended.attempt,
        "outcome": rows.outcome_text(ended.outcome),
        "created_at_ms": ended.attempt_at_ms or ended.submitted_at_ms,
        "started_at_ms": ended.attempt_started_at_ms,
        "ended_at_ms": ended.attempt_ended_at_ms,
    }

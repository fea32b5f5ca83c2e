"""Stores quotas and the audit log, and answers queries about use."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from openpai.access.budgets import Budget, BudgetState, Kind
from openpai.access.budgets import Period as BudgetPeriod
from openpai.access.quotas import Quota
from openpai.lifecycle.model import JOB_FINAL
from openpai.ports.usage import LIMITS, AuditEntry, AuditFilter, AuditRow, BudgetUse, LentUse, RunTimeRow, UseRow
from openpai.store.accounting import Period, add_lent_use, held
from openpai.store.budgets import all_budgets, budgets_of, delete_budget, hours_of, write_budget, write_state
from openpai.store.database import Stored
from openpai.store.forgetting import forget_older
from openpai.store.locks import check_lease
from openpai.store.quotas import gpu_hours, gpus_held, unfinished
from openpai.store.schema import audit, jobs, quotas

# Made once: the leader asks in each round over the nodes.
_QUOTAS: Final = sa.select(quotas).order_by(quotas.c.virtual_cluster, quotas.c.owner)
_WORDS: Final = ("actor", "action", "target", "owner", "via", "address")


class SqlUsageStore(Stored):
    """`ports.usage.UsageStore` over SQLite or PostgreSQL."""

    async def quotas(self) -> tuple[Quota, ...]:
        found = await self._database.read(lambda connection: connection.execute(_QUOTAS).mappings().all())
        return tuple(
            Quota(row["virtual_cluster"], row["owner"], **{name: row[name] for name in LIMITS}) for row in found
        )

    async def set_quota(self, quota: Quota, limits: Collection[str] = LIMITS) -> None:
        dialect: Any = sqlite if self._database.is_sqlite else postgresql
        columns: dict[str, Any] = {"virtual_cluster": quota.virtual_cluster, "owner": quota.user}
        columns |= {name: getattr(quota, name) for name in LIMITS}
        insert = dialect.insert(quotas).values(columns)
        # One statement, so that a concurrent change of another limit is not lost.
        key, there = ["virtual_cluster", "owner"], {name: columns[name] for name in limits}
        if there:
            statement = insert.on_conflict_do_update(index_elements=key, set_=there)
        else:
            statement = insert.on_conflict_do_nothing(index_elements=key)
        await self._database.write(lambda connection: connection.execute(statement))

    async def remove_quota(self, virtual_cluster: str, user: str) -> bool:
        gone = sa.delete(quotas).where(quotas.c.virtual_cluster == virtual_cluster, quotas.c.owner == user)
        return await self._database.write(lambda connection: connection.execute(gone).rowcount > 0)

    async def unfinished(self, user: str) -> Mapping[str, int]:
        return await self._database.read(lambda connection: unfinished(connection, user))

    async def gpus_held(self, user: str) -> Mapping[str, int]:
        return await self._database.read(lambda connection: gpus_held(connection, user))

    async def gpu_hours_this_month(self, user: str, now_ms: int) -> Mapping[str, float]:
        return await self._database.read(lambda connection: gpu_hours(connection, user, now_ms))

    async def budgets(self, now_ms: int) -> tuple[BudgetUse, ...]:
        return await self._database.read(lambda connection: _used(connection, all_budgets(connection), now_ms))

    async def budgets_of(self, user: str, virtual_clusters: Sequence[str], now_ms: int) -> tuple[BudgetUse, ...]:
        return await self._database.read(
            lambda connection: _used(connection, budgets_of(connection, user, virtual_clusters), now_ms)
        )

    async def set_budget(self, budget: Budget) -> None:
        await self._database.write(lambda connection: write_budget(connection, budget))

    async def remove_budget(self, kind: Kind, name: str, period: BudgetPeriod) -> bool:
        return await self._database.write(lambda connection: delete_budget(connection, kind, name, period))

    async def set_budget_state(self, budget: Budget, state: BudgetState, epoch: int | None) -> None:
        def work(connection: sa.Connection) -> None:
            if epoch is not None:
                check_lease(connection, epoch)
            write_state(connection, budget, state)

        await self._database.write(work)

    async def use(
        self, from_ms: int, to_ms: int, *, users: Sequence[str] = (), virtual_clusters: Sequence[str] = ()
    ) -> tuple[UseRow, ...]:
        period = Period(from_ms, to_ms, users, virtual_clusters)
        return await self._database.read(lambda connection: held(connection, period))

    async def add_lent_use(self, rows: Sequence[LentUse], at_ms: int, epoch: int | None) -> None:
        def work(connection: sa.Connection) -> None:
            if epoch is not None:
                check_lease(connection, epoch)
            add_lent_use(connection, rows, at_ms)

        await self._database.write(work)

    async def run_times(self, limit: int) -> tuple[RunTimeRow, ...]:
        columns = (
            jobs.c.owner, jobs.c.name, jobs.c.virtual_cluster, jobs.c.gpus_total, jobs.c.submitted_at_ms,
            jobs.c.attempt_started_at_ms, jobs.c.attempt_ended_at_ms,
        )  # fmt: skip
        # One phase at a time: each reads an index from its end.
        queries = [
            sa.select(*columns)
            .where(jobs.c.phase == phase.value, jobs.c.attempt_started_at_ms.is_not(None))
            .order_by(jobs.c.submitted_at_ms.desc())
            .limit(limit)
            for phase in sorted(JOB_FINAL)
        ]

        def work(connection: sa.Connection) -> tuple[RunTimeRow, ...]:
            found = [tuple(row) for query in queries for row in connection.execute(query) if row[6] is not None]
            newest = sorted(found, key=lambda row: -row[4])[:limit]
            return tuple(
                RunTimeRow(row[0], row[1], row[2], row[3], row[4], max(0, row[6] - row[5]))
                for row in sorted(newest, key=lambda row: row[6])
            )

        return await self._database.read(work)

    async def note(self, entry: AuditEntry) -> None:
        columns = audit_columns(entry)
        await self._database.write(lambda connection: connection.execute(audit.insert(), columns))

    async def audit(self, where: AuditFilter) -> tuple[AuditRow, ...]:
        query = sa.select(audit).where(*_condition(where)).order_by(audit.c.id.desc()).limit(where.limit)
        queries = [query]
        if where.concerning:
            # Each condition reads an index; one condition with "or" would read the whole table.
            queries = [query.where(column == where.concerning) for column in (audit.c.actor, audit.c.owner)]

        def work(connection: sa.Connection) -> tuple[AuditRow, ...]:
            found = {row["id"]: row for each in queries for row in connection.execute(each).mappings()}
            return tuple(_entry(found[id_]) for id_ in sorted(found, reverse=True)[: where.limit])

        return await self._database.read(work)

    async def forget_audit(self, before_ms: int) -> int:
        return await forget_older(self._database, audit, before_ms)


def _used(connection: sa.Connection, found: Iterable[Budget], now_ms: int) -> tuple[BudgetUse, ...]:
    return tuple(BudgetUse(budget, hours_of(connection, budget, now_ms)) for budget in found)


def audit_columns(entry: AuditEntry, *, target: str = "") -> dict[str, Any]:
    """Return an audit entry as a row, about `target` if it names none; long texts of guests are cut."""
    entry = replace(entry, target=entry.target or target)
    columns: dict[str, Any] = {name: _fitting(name, getattr(entry, name)) for name in _WORDS}
    detail = json.dumps(dict(entry.detail), ensure_ascii=True)
    return columns | {"at_ms": entry.at_ms, "status": entry.status, "detail": detail}


def _fitting(name: str, text: str) -> str:
    length = audit.c[name].type.length  # type: ignore[attr-defined]  # all of them are strings
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:length]


def _condition(where: AuditFilter) -> Iterable[sa.ColumnElement[bool]]:
    if where.actors:
        yield audit.c.actor.in_(where.actors)
    if where.actions:
        yield audit.c.action.in_(where.actions)
    if where.target:
        yield audit.c.target == where.target
    if where.from_ms is not None:
        yield audit.c.at_ms >= where.from_ms
    if where.to_ms is not None:
        yield audit.c.at_ms < where.to_ms
    if where.before_id is not None:
        yield audit.c.id < where.before_id


def _entry(row: Any) -> AuditRow:
    words = {name: row[name] for name in _WORDS}
    return AuditRow(
        row["id"], AuditEntry(row["at_ms"], **words, status=row["status"], detail=json.loads(row["detail"]))
    )

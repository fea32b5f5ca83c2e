"""Stores budgets, adds up their use, and checks them in the transaction that adds or starts a job.

The use of a period is the sum of the months that `store.quotas` counts as task attempts end, and of what runs. No other
submission changes it, so no lock is needed: hours are used by running, not by submitting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from openpai.access.budgets import Budget, BudgetState, Kind, Period, Stops, began_ms
from openpai.ports.usage import OverBudget
from openpai.store.schema import budgets, memberships, month_use, task_attempts

_HOUR_MS = 3_600_000
_ALL: Final = sa.select(budgets).order_by(budgets.c.kind, budgets.c.name, budgets.c.period)
# Made once: every submission asks, and making this statement takes several times longer than executing it.
_OF_USER: Final = sa.select(budgets).where(
    sa.or_(
        sa.and_(budgets.c.kind == Kind.USER.value, budgets.c.name == sa.bindparam("of_user")),
        sa.and_(
            budgets.c.kind == Kind.GROUP.value,
            budgets.c.name.in_(
                sa.select(memberships.c.group_name).where(memberships.c.member == sa.bindparam("of_user"))
            ),
        ),
        sa.and_(budgets.c.kind == Kind.VC.value, budgets.c.name.in_(sa.bindparam("of_clusters", expanding=True))),
    )
)


def all_budgets(connection: sa.Connection) -> tuple[Budget, ...]:
    """Return every budget, by kind, name and period."""
    return tuple(_budget(dict(row)) for row in connection.execute(_ALL).mappings())


def budgets_of(connection: sa.Connection, user: str, virtual_clusters: Sequence[str]) -> tuple[Budget, ...]:
    """Return the budgets of a user, of their groups, and of virtual clusters."""
    values = {"of_user": user, "of_clusters": list(virtual_clusters)}
    found = [_budget(dict(row)) for row in connection.execute(_OF_USER, values).mappings()]
    return tuple(sorted(found, key=lambda budget: budget.key))


def hours_of(connection: sa.Connection, budget: Budget, now_ms: int) -> float:
    """Return the GPU hours used since the period of a budget began, those of running jobs until now."""
    since_ms = began_ms(budget.period, now_ms)
    ended = sa.select(month_use.c.gpu_ms).where(month_use.c.month_ms >= since_ms, _whose(month_use, budget))
    attempts = task_attempts.c
    # With their type: a small number, as 0, would make this a calculation of 32 bits in PostgreSQL.
    first, now = sa.literal(since_ms, sa.BigInteger), sa.literal(now_ms, sa.BigInteger)
    since = sa.case((attempts.granted_at_ms < first, first), else_=attempts.granted_at_ms)
    running = sa.select(sa.cast(attempts.gpus * (now - since), sa.BigInteger).label("gpu_ms")).where(
        attempts.ended_at_ms.is_(None), attempts.granted_at_ms < now_ms, attempts.gpus > 0,
        _whose(task_attempts, budget),
    )  # fmt: skip
    # One statement: between two, an attempt that just ended would be missing from both.
    both = sa.union_all(ended, running).subquery()
    total = connection.execute(sa.select(sa.func.sum(sa.cast(both.c.gpu_ms, sa.Double)))).scalar()
    return float(total or 0) / _HOUR_MS


def over_budget(connection: sa.Connection, owner: str, virtual_cluster: str, now_ms: int) -> OverBudget | None:
    """Return a used-up budget of a job, None if all have hours left."""
    for budget in budgets_of(connection, owner, [virtual_cluster]):
        hours = hours_of(connection, budget, now_ms)
        if hours >= budget.gpu_hours:
            return OverBudget(budget, hours, now_ms)
    return None


def write_budget(connection: sa.Connection, budget: Budget) -> None:
    """Add or replace a budget; what was done about it in this period stays known."""
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    there = {
        "gpu_hours": budget.gpu_hours,
        "warn_at": json.dumps(budget.warn_at),
        "stops": budget.stops.value,
        "notice_minutes": budget.notice_minutes,
        "contact": budget.contact,
    }
    columns = {**_key(budget), **there, "since_ms": 0, "warned": 0.0, "used_up_at_ms": None}
    insert = dialect.insert(budgets).values(columns)
    connection.execute(insert.on_conflict_do_update(index_elements=list(_key(budget)), set_=there))


def delete_budget(connection: sa.Connection, kind: Kind, name: str, period: Period) -> bool:
    """Delete a budget; return whether there was one."""
    columns = budgets.c
    gone = sa.delete(budgets).where(columns.kind == kind.value, columns.name == name, columns.period == period.value)
    return connection.execute(gone).rowcount > 0


def write_state(connection: sa.Connection, budget: Budget, state: BudgetState) -> None:
    """Record what was done about a budget."""
    columns = budgets.c
    key = [columns[name] == value for name, value in _key(budget).items()]
    values = {"since_ms": state.since_ms, "warned": state.warned, "used_up_at_ms": state.used_up_at_ms}
    connection.execute(sa.update(budgets).where(*key).values(values))


def _key(budget: Budget) -> dict[str, str]:
    return dict(zip(("kind", "name", "period"), budget.key, strict=True))


def _whose(table: sa.Table, budget: Budget) -> sa.ColumnElement[bool]:
    if budget.kind is Kind.VC:
        return table.c.virtual_cluster == budget.name
    if budget.kind is Kind.USER:
        return table.c.owner == budget.name
    members = sa.select(memberships.c.member).where(memberships.c.group_name == budget.name)
    return table.c.owner.in_(members)


def _budget(row: Mapping[str, Any]) -> Budget:
    state = BudgetState(row["since_ms"], row["warned"], row["used_up_at_ms"])
    return Budget(
        Kind(row["kind"]), row["name"], Period(row["period"]), row["gpu_hours"], tuple(json.loads(row["warn_at"])),
        Stops(row["stops"]), row["notice_minutes"], row["contact"], state,
    )  # fmt: skip

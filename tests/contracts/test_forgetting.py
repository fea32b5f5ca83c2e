"""Old rows go in small steps, in SQLite and in PostgreSQL, and nothing that is needed goes with them."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from openpai.alerts.states import State
from openpai.store.alerts import SqlAlertStore
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.schema import alert_actions, alerts, idempotency, notices


async def _add(database: Database, table: sa.Table, *rows: dict[str, Any]) -> None:
    texts = {column.name: "" for column in table.columns if not column.nullable and isinstance(column.type, sa.String)}
    await database.write(lambda connection: connection.execute(table.insert(), [texts | row for row in rows]))


async def _left(database: Database, column: sa.Column[Any]) -> list[Any]:
    return await database.read(lambda connection: sorted(connection.scalars(sa.select(column))))


@pytest.fixture
def steps(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each write deleted, with steps of two."""
    monkeypatch.setattr("openpai.store.forgetting.ROWS_AT_ONCE", 2)
    found: list[int] = []
    write = database.write

    async def noted(work: Any, *more: Any, **others: Any) -> Any:
        result = await write(work, *more, **others)
        found.append(result)
        return result

    monkeypatch.setattr(database, "write", noted, raising=False)
    return found


async def test_old_keys_go_in_steps_and_those_of_other_users_stay(database: Database, steps: list[int]) -> None:
    old = [{"owner": "ann", "key": f"k{number}", "at_ms": number} for number in range(5)]
    await _add(database, idempotency, *old, {"owner": "bob", "key": "k1", "at_ms": 9})
    steps.clear()
    assert await SqlJobStore(database).forget_keys(5) == 5
    assert steps == [2, 2, 1]
    assert await _left(database, idempotency.c.owner) == ["bob"]


async def test_alerts_that_are_over_go_and_what_is_under_way_stays(database: Database, steps: list[int]) -> None:
    over, firing = State.RESOLVED.value, State.FIRING.value
    await _add(
        database, alerts,
        *({"id": f"a{number}", "state": over, "since_ms": 1, "resolved_at_ms": 2} for number in range(3)),
        {"id": "new", "state": over, "since_ms": 1, "resolved_at_ms": 9},
    )  # fmt: skip
    await _add(database, alerts, {"id": "fires", "state": firing, "since_ms": 1})
    states = ("done", "failed", "planned", "started")
    await _add(database, alert_actions, *({"key": state, "state": state, "at_ms": 1} for state in states))
    some = {"created_at_ms": 1, "next_at_ms": 1, "tries": 0}
    await _add(database, notices, *({"key": state, "state": state, **some} for state in ("sent", "waiting")))
    steps.clear()
    assert await SqlAlertStore(database).forget(5) == 6
    assert max(steps) == 2
    assert await _left(database, alerts.c.id) == ["fires", "new"]
    assert await _left(database, alert_actions.c.key) == ["planned", "started"]
    assert await _left(database, notices.c.key) == ["waiting"]

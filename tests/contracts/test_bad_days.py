"""The store while the database is busy, lost or back again: no wrong answer is given, nothing is done twice."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from openpai.app.health import DatabaseHealth
from openpai.protocol.errors import Unavailable
from openpai.store import sqlite_transactions
from openpai.store.database import Database
from openpai.store.schema import lease

ROW = {"name": "one", "holder": "h", "epoch": 1, "until_ms": 0, "url": ""}


def adding(name: str) -> Any:
    return lambda connection: connection.execute(lease.insert(), {**ROW, "name": name})


async def names(database: Database) -> list[str]:
    found = await database.read(lambda connection: connection.execute(sa.select(lease.c.name)).scalars().all())
    return sorted(found)


@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_a_file_that_another_process_holds_can_still_be_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_transactions, "BUSY_TIMEOUT_S", 300.0)
    other = sqlite3.connect(str(database.url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = [asyncio.create_task(database.write(adding(name))) for name in ("one", "two")]
    assert await names(database) == []
    assert not any(task.done() for task in writing)
    other.rollback()
    await asyncio.gather(*writing)
    assert await names(database) == ["one", "two"]
    other.close()


@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_reading_over_a_connection_that_wrote_waits_for_no_other_process(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_transactions, "BUSY_TIMEOUT_S", 0.1)
    # It has one connection.
    database = Database(database_url, inline=True)
    await database.write(adding("one"))
    other = sqlite3.connect(str(database.url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert await names(database) == ["one"]
    other.close()
    database.close()


async def test_statements_look_for_no_listeners(database: Database) -> None:
    await database.write(adding("one"))
    # With one listener on an engine, each statement looks for those of every kind, which is a third of a short one.
    assert not database.engine._has_events
    assert not database.engine.dialect._has_events


@pytest.mark.parametrize("database_kind", ["sqlite"])
async def test_a_file_that_stays_locked_is_waited_for_once_by_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_transactions, "BUSY_TIMEOUT_S", 0.1)
    tries: list[str] = []
    sa.event.listen(database.engine, "handle_error", lambda context: tries.append(str(context.original_exception)))
    other = sqlite3.connect(str(database.url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with capture_logs() as logs:
        for _ in range(2):
            message = await asyncio.gather(*(database.write(adding(f"{n}")) for n in range(20)), return_exceptions=True)
            assert {str(error) for error in message} == {"the database does not answer"}
        assert await names(database) == []
        other.rollback()
        await database.write(adding("one"))
        await database.write(adding("two"))
    other.close()
    assert [(entry["event"], entry.get("reason")) for entry in logs] == [
        ("the database cannot be written", "database is locked"),
        ("the database can be written again", None),
    ]
    # At once, and then with patience.
    assert tries == ["database is locked"] * 2 * 2


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_what_may_have_been_written_is_not_written_again(database: Database) -> None:
    """The connection breaks after the commit and before its answer: its success is unknown, so it is not reported."""
    runs: list[str] = []
    cuts: list[str] = []

    def cut(connection: sa.Connection) -> None:
        if cuts:
            return
        cuts.append("cut")
        raw: Any = connection.connection.dbapi_connection
        raw.commit()
        raw.execute("SELECT 1")
        with psycopg.connect(database.url.set(drivername="postgresql").render_as_string(), autocommit=True) as killer:
            killer.execute("SELECT pg_terminate_backend(%s)", [raw.info.backend_pid])

    def counted(name: str) -> Any:
        def work(connection: sa.Connection) -> None:
            runs.append(name)
            adding(name)(connection)

        return work

    sa.event.listen(database.engine, "commit", cut)
    answers = await asyncio.gather(*(database.write(counted(name)) for name in ("one", "two")), return_exceptions=True)
    assert [(type(answer), str(answer)) for answer in answers] == [(Unavailable, "the database does not answer")] * 2
    assert (runs, await names(database)) == (["one", "two"], ["one", "two"])
    # The next one finds a new connection.
    await database.write(adding("three"))


async def test_a_ping_reports_whether_the_database_answers(database: Database) -> None:
    database_health = DatabaseHealth(database, fresh_s=0)
    await database_health.check()
    await database.write(lambda connection: connection.execute(sa.text("UPDATE alembic_version SET version_num = 'x'")))
    with pytest.raises(Unavailable, match="another version of openpai"):
        await database_health.check()
    await database.write(lambda connection: connection.execute(sa.text("DROP TABLE alembic_version")))
    with pytest.raises(Unavailable, match="the database does not answer"):
        await database_health.check()


async def test_however_many_ask_the_database_is_asked_once(database: Database) -> None:
    asked: list[str] = []
    sa.event.listen(database.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    database_health = DatabaseHealth(database, fresh_s=600)
    await asyncio.gather(*(database_health.check() for _ in range(50)))
    await database_health.check()
    assert len([statement for statement in asked if "alembic_version" in statement]) == 1

"""`pai admin rotate-key` beside a server elsewhere: whether that leads is observed, not derived from clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.app import keys
from openpai.app.datadir import DataDir
from openpai.protocol.errors import Refused
from openpai.store.database import Database
from openpai.store.schema import lease
from tests.newest import fill

LONG_AGO_MS = 1_000_000


@pytest.fixture
def led(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database whose leader is elsewhere, on a machine whose clock is decades behind."""
    database = Database(f"sqlite:///{tmp_path / 'pai.db'}", inline=True)
    fill(database)
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        row = {"name": "leader", "holder": "there:/d/1-a", "epoch": 1, "until_ms": LONG_AGO_MS}
        connection.execute(lease.insert(), row)
    return database


def test_one_that_renews_its_lease_is_not_overlooked(
    led: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def renew(_: float) -> None:
        with led.engine.connect().execution_options(writes=True) as connection, connection.begin():
            connection.execute(lease.update().values(until_ms=lease.c.until_ms + 5000))

    monkeypatch.setattr(keys.time, "sleep", renew)
    with pytest.raises(Refused, match="there:/d/1-a uses the same database"):
        keys._refuse_servers(led, DataDir(tmp_path, None))


def test_one_that_does_not_is_gone(led: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "LEASE_S", 0.3)
    keys._refuse_servers(led, DataDir(tmp_path, None))

"""A server answers with the logs that it has, and asks the leader for those that come into another directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from openpai.app.clock import SystemClock, SystemIdentities
from openpai.app.log_places import LogPlaces
from openpai.backends.kubernetes.log_files import AttemptLog
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.commands import PlatformCommands
from openpai.ports.platform import NotLeading
from openpai.ports.store import LEASE_MS
from openpai.store.cluster_settings import SqlSettingsStore
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.vault import Vault
from tests.newest import fill

KEY = AttemptKey("job", 0, "worker", 0, 0)
LEADER = "http://127.0.0.1:1"


def places(database: Database, root: Path) -> LogPlaces:
    root.mkdir(exist_ok=True)
    clock, store, settings = SystemClock(), SqlJobStore(database), SqlSettingsStore(database)
    commands = PlatformCommands(
        store, Vault(Fernet.generate_key().decode()), clock, SystemIdentities(), settings=settings
    )
    return LogPlaces(root, store, settings, commands, clock)


async def is_elsewhere(asked: LogPlaces) -> bool:
    try:
        await asked.require(KEY)
    except NotLeading as error:
        return error.url == LEADER
    return False


def test_a_log_is_asked_for_where_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        database = Database("sqlite://", inline=True)
        fill(database)
        leads, shares, apart = (places(database, tmp_path / name) for name in ("one", "one", "two"))
        assert not await is_elsewhere(apart)
        epoch = await SqlJobStore(database).lease("h", 1_000, LEASE_MS, LEADER)
        assert epoch is not None
        await leads.announce(epoch)
        assert [await is_elsewhere(one) for one in (shares, apart)] == [False, True]
        # Of the time in which this server led, it has some logs completely, and the beginnings of others.
        mine = AttemptLog(tmp_path / "two", KEY)
        mine.open()
        mine.save()
        assert await is_elsewhere(apart)
        mine.complete()
        assert not await is_elsewhere(apart)
        # With no leader, what is here is the answer.
        await SqlJobStore(database).release_lease("h")
        (tmp_path / "two" / KEY.path() / "shipped").unlink()
        assert not await is_elsewhere(apart)

    asyncio.run(story())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"complete": false}'])
def test_a_damaged_cursor_is_no_complete_log(tmp_path: Path, text: str) -> None:
    asked = places(Database("sqlite://", inline=True), tmp_path / "logs")
    directory = tmp_path / "logs" / KEY.path()
    directory.mkdir()
    (directory / "shipped").write_text(text)
    assert not asked._is_complete(KEY)

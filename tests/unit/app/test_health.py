"""Readiness names each part that is missing, and why."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from openpai.app.health import Readiness
from openpai.orchestrator.leader import Leader
from openpai.protocol.errors import Unavailable
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from tests.newest import fill

ALL_WELL = {"database": "", "disk": "", "leader": "", "backend": ""}


class Nodes:
    """A backend with a given number of nodes."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0

    async def nodes(self) -> tuple[Any, ...]:
        self.asked += 1
        return (object(),) * self.count


def room_for_all() -> None:
    return None


def no_room() -> None:
    raise Unavailable("the platform's disk is almost full")


def leading(backend: Nodes) -> Leader:
    return cast("Leader", SimpleNamespace(backend=backend))


def opened(root: Path) -> Database:
    database = Database(f"sqlite:///{root / 'pai.db'}")
    fill(database)
    return database


async def test_each_part_that_is_missing_is_named(tmp_path: Path) -> None:
    database = opened(tmp_path)
    steady_ms = 0
    store = SqlJobStore(database, lambda: steady_ms)
    assert await Readiness(database, store, room_for_all, lambda: leading(Nodes(1))).check() == ALL_WELL
    bad = await Readiness(database, store, no_room, lambda: leading(Nodes(0))).check()
    assert bad == {
        "database": "", "disk": "the platform's disk is almost full", "leader": "",
        "backend": "the backend has no nodes",
    }  # fmt: skip
    without = await Readiness(database, store, room_for_all, lambda: None).check()
    assert without["leader"].startswith("no server runs the jobs")
    await store.lease("there/1", 0, 100, "http://there")
    assert not any((await Readiness(database, store, room_for_all, lambda: None).check()).values())
    # A leader whose lease has run out does not count.
    steady_ms = 20_000
    assert (await Readiness(database, store, room_for_all, lambda: None).check())["leader"]
    (tmp_path / "pai.db").unlink()
    gone = await Readiness(database, store, room_for_all, lambda: leading(Nodes(1))).check()
    assert "removed or replaced" in gone["database"]
    database.close()


async def test_frequent_checks_share_one_run(tmp_path: Path) -> None:
    database, backend = opened(tmp_path), Nodes(1)
    readiness = Readiness(database, SqlJobStore(database), room_for_all, lambda: leading(backend))
    for _ in range(20):
        await readiness.check()
    assert backend.asked == 1
    database.close()

"""When what is kept no longer is removed, and that one failure leaves nothing else for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from openpai.app import loops
from openpai.app.housekeeping import DAY_MS, KEYS_KEPT_MS, Housekeeping, limits_of, pause_s
from openpai.app.settings import Settings
from openpai.protocol.errors import Unavailable
from openpai.system.supervision import failures
from tests.clocks import HandClock

NOW_MS = 1_700_000_000_000


class Kept:
    """Notes what is forgotten; as each of the places that are asked."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.errors: dict[str, Exception] = {}

    def __getattr__(self, name: str) -> Callable[..., Awaitable[int]]:
        async def forget(before_ms: int = NOW_MS) -> int:
            self.done.append((name, NOW_MS - before_ms))
            if name in self.errors:
                raise self.errors[name]
            return 0

        return forget


def housekeeping(kept: Any, **settings: Any) -> Housekeeping:
    return Housekeeping(
        Settings(Path("/data"), **settings), HandClock(), kept, kept, kept, logs=kept, others=(kept.one, kept.two)
    )


async def test_everything_is_removed_by_its_own_age_and_nothing_that_is_kept_for_ever() -> None:
    kept = Kept()
    assert await housekeeping(kept, event_retention_days=2.0, audit_retention_days=0.0).clean_up() == 3600
    assert kept.done == [
        ("forget_keys", KEYS_KEPT_MS), ("forget_events", 2 * DAY_MS), ("forget", 90 * DAY_MS),
        ("run_once", 0), ("one", 0), ("two", 0),
    ]  # fmt: skip


async def test_what_cannot_be_removed_keeps_nothing_else() -> None:
    kept, before = Kept(), failures().get("remove what is kept no longer", 0)
    kept.errors = {"forget_events": OSError("disk"), "one": KeyError("x")}
    await housekeeping(kept).clean_up()
    assert [name for name, _ in kept.done][-3:] == ["run_once", "one", "two"]
    assert failures()["remove what is kept no longer"] == before + 2
    kept.errors = {"forget_keys": Unavailable("the database is away")}
    with pytest.raises(Unavailable):
        await housekeeping(kept).clean_up()


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 3600),
        ({"log_retention_days": 0.0005}, 60),
        ({"work_retention_hours": 1.0}, 1800),
        ({"log_retention_days": 0.0, "work_retention_hours": 0.0}, 3600),
    ],
)
def test_passes_are_as_frequent_as_the_shortest_limit_asks_for(settings: dict[str, Any], seconds: float) -> None:
    assert pause_s(Settings(Path("/data"), **settings)) == seconds


def test_the_limit_on_one_log_holds_for_what_is_over() -> None:
    assert limits_of(Settings(Path("/data"), log_max_mb=4)).attempt_bytes_max == 4 << 20


async def test_a_server_that_begins_to_lead_removes_soon_and_then_as_often_as_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise asyncio.CancelledError

    async def passing(_: object, work: Awaitable[float | None]) -> float | None:
        return await work

    async def clean_up() -> float | None:
        return 1800.0 if len(waits) == 1 else None

    monkeypatch.setattr("openpai.app.loops.asyncio.sleep", sleep)
    monkeypatch.setattr(loops, "_guarded", passing)
    with pytest.raises(asyncio.CancelledError):
        await loops._clean_up(cast("Any", None), clean_up)
    assert waits == [60, 1800, 60]

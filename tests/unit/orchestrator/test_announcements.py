"""Announcements as rules: what may be announced, how many, for how long, and by several administrators at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from openpai.orchestrator.announcements import (
    KEPT_MS,
    MOST,
    Announcement,
    announce,
    announcements,
    remove_announcement,
)
from openpai.ports.cluster_settings import Setting
from openpai.protocol.errors import Refused

ONE = Announcement("a", "closed on Monday", "info", 0, None, "ann")


class Settings:
    """One document with its version, as every implementation of the port keeps it; others may be faster."""

    def __init__(self, faster: int = 0) -> None:
        self.found: Setting | None = None
        self.faster = faster

    async def setting(self, name: str) -> Setting | None:
        return self.found

    async def set_setting(self, name: str, body: Mapping[str, Any], *, version: int | None = None, **_: Any) -> Setting:
        if self.faster:
            self.faster -= 1
            raise Refused("ConflictSettingError", "another was faster")
        assert version == (self.found.version if self.found else 0)
        self.found = Setting(name, body, version + 1, 0, "ann")
        return self.found


class At:
    """A clock that stands."""

    def __init__(self, ms: int = 10) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms


def run(*calls: Any) -> list[Any]:
    async def all_of_them() -> list[Any]:
        return [await call for call in calls]

    return asyncio.run(all_of_them())


def test_announcements_are_added_removed_and_left_out_long_after_their_end() -> None:
    settings: Any = Settings()
    run(announce(settings, At(), ONE), announce(settings, At(), replace(ONE, id="b", to_ms=20)))
    assert [one.id for one in run(announcements(settings, At(20 + KEPT_MS - 1)))[0]] == ["a", "b"]
    assert [one.id for one in run(announcements(settings, At(20 + KEPT_MS)))[0]] == ["a"]
    run(remove_announcement(settings, At(), "a", "bob"))
    assert [one.id for one in run(announcements(settings, At()))[0]] == ["b"]
    with pytest.raises(Refused, match="no announcement 'a'"):
        run(remove_announcement(settings, At(), "a", "bob"))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (replace(ONE, text=""), "says nothing"),
        (replace(ONE, to_ms=10), "would be over"),
        (replace(ONE, from_ms=50, to_ms=50), "would be over"),
    ],
)
def test_what_nobody_would_read_is_refused(made: Announcement, message: str) -> None:
    with pytest.raises(Refused, match=message):
        run(announce(Settings(), At(), made))  # type: ignore[arg-type]


def test_there_is_a_limit_and_a_faster_administrator_costs_nothing() -> None:
    settings: Any = Settings(faster=9)
    run(*(announce(settings, At(), replace(ONE, id=str(at))) for at in range(MOST)))
    with pytest.raises(Refused, match=f"there are {MOST} announcements already"):
        run(announce(settings, At(), ONE))
    settings.faster = 10
    with pytest.raises(Refused, match="another was faster"):
        run(remove_announcement(settings, At(), "0", "ann"))


def test_an_announcement_is_shown_from_its_beginning_to_its_end() -> None:
    made = replace(ONE, from_ms=10, to_ms=20)
    assert [made.is_shown(at) for at in (9, 10, 19, 20)] == [False, True, True, False]
    assert [made.is_over(at) for at in (19, 20)] == [False, True]

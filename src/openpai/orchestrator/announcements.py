"""Announcements: what administrators want all users to read for a time, as a setting that any server may change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final, Literal

from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import ANNOUNCEMENTS, SettingsStore
from openpai.protocol.errors import InvalidParameters, Refused

MOST: Final = 50
KEPT_MS: Final = 30 * 86_400_000
"""How long announcements that are over can be seen by administrators."""
_RACES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Announcement:
    """A text that all users read, from a time on and until another one."""

    id: str
    text: str
    level: Literal["info", "warning", "critical"]
    from_ms: int
    to_ms: int | None
    """None: until it is removed."""
    by: str

    def is_over(self, now_ms: int) -> bool:
        """Return whether its time has passed."""
        return self.to_ms is not None and self.to_ms <= now_ms

    def is_shown(self, now_ms: int) -> bool:
        """Return whether users read it now."""
        return self.from_ms <= now_ms and not self.is_over(now_ms)


Rows = list[Announcement]


async def announcements(settings: SettingsStore, clock: Clock) -> Rows:
    """Return the announcements, the oldest first, without those that have been over for long."""
    return (await _stored(settings, clock))[0]


async def announce(settings: SettingsStore, clock: Clock, made: Announcement) -> None:
    """Add an announcement; raise Refused for one that says nothing, that nobody would see, or that is too many."""
    if not made.text:
        raise InvalidParameters("the announcement says nothing", "write a text")
    if made.to_ms is not None and made.to_ms <= max(made.from_ms, clock.now_ms()):
        message = "the announcement would be over before anyone sees it"
        raise InvalidParameters(message, "give a later `toTime`, or none")
    await _change(settings, clock, made.by, lambda known: [*known, made])


async def remove_announcement(settings: SettingsStore, clock: Clock, id_: str, by: str) -> None:
    """Remove an announcement; raise Refused NoAnnouncementError if there is none."""

    def without(known: Rows) -> Rows:
        left = [each for each in known if each.id != id_]
        if len(left) == len(known):
            raise Refused("NoAnnouncementError", f"there is no announcement {id_!r}", "`pai announcement list --all`")
        return left

    await _change(settings, clock, by, without)


async def _stored(settings: SettingsStore, clock: Clock) -> tuple[Rows, int]:
    """Return the announcements and the version of their setting."""
    setting = await settings.setting(ANNOUNCEMENTS)
    known = [Announcement(**row) for row in (setting.body["announcements"] if setting is not None else ())]
    oldest_ms = clock.now_ms() - KEPT_MS
    return [each for each in known if not each.is_over(oldest_ms)], setting.version if setting is not None else 0


async def _change(settings: SettingsStore, clock: Clock, by: str, change: Callable[[Rows], Rows]) -> None:
    for left in reversed(range(_RACES_MAX)):
        known, version = await _stored(settings, clock)
        rows = change(known)
        if len(rows) > max(MOST, len(known)):
            raise InvalidParameters(f"there are {MOST} announcements already", "remove one first")
        body = {"announcements": [asdict(row) for row in rows]}
        try:
            await settings.set_setting(ANNOUNCEMENTS, body, by=by, at_ms=clock.now_ms(), version=version)
        except Refused as error:
            # Another administrator was faster.
            if error.code != "ConflictSettingError" or not left:
                raise
        else:
            return

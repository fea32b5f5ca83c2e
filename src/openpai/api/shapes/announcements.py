"""Announcements as documents."""

from __future__ import annotations

from openpai.orchestrator.announcements import Announcement
from openpai.wire import announcements as wire


def announcement(one: Announcement, now_ms: int) -> wire.Announcement:
    """Return the document of an announcement."""
    return {
        "id": one.id,
        "text": one.text,
        "level": one.level,
        "fromTime": one.from_ms,
        "toTime": one.to_ms,
        "by": one.by,
        "state": "over" if one.is_over(now_ms) else "shown" if one.is_shown(now_ms) else "waiting",
    }

"""Announcements as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openpai.wire import announcements as wire


def announcement(row: Mapping[str, Any], now_ms: int) -> wire.Announcement:
    """Return the document of an announcement as it is stored."""
    from_ms, to_ms = row["from_ms"], row["to_ms"]
    is_over = to_ms is not None and to_ms <= now_ms
    return {
        "id": row["id"],
        "text": row["text"],
        "level": row["level"],
        "fromTime": from_ms,
        "toTime": to_ms,
        "by": row["by"],
        "state": "over" if is_over else "waiting" if from_ms > now_ms else "shown",
    }

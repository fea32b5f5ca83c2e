"""A job's history in OpenPAI's shape of an event."""

from __future__ import annotations

from openpai.api.shapes.exits import Document
from openpai.ports.store import EventRow


def event(row: EventRow) -> Document:
    """Return one event; it happened once, so its first and last time are the same."""
    told = row.event
    key = told.key
    return {
        "uid": str(row.id),
        "frameworkName": told.job,
        "podUid": key.path() if key else None,
        "taskroleName": key.role if key else None,
        "taskName": f"{key.role}-{key.index}" if key else None,
        "taskIndex": key.index if key else None,
        "type": "Warning" if told.is_warning else "Normal",
        "reason": told.reason,
        "message": told.message,
        "firstTimestamp": told.at_ms,
        "lastTimestamp": told.at_ms,
        "count": 1,
        "sourceComponent": "openpai",
        "sourceHost": told.node,
    }

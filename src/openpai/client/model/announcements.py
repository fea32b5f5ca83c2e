"""Announcements."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model import reading as field
from openpai.client.model.reading import Answer, Document


@dataclass(frozen=True, slots=True)
class Announcement(Answer):
    """What administrators tell all users for a time."""

    id: str = field.text("id")
    text: str = field.text("text")
    level: str = field.text("level")
    """`info`, `warning` or `critical`."""
    from_ms: int = field.amount("fromTime")
    to_ms: int | None = field.number("toTime")
    """None: until it is removed."""
    by: str = field.text("by")
    state: str = field.text("state")
    """`waiting`, `shown` or `over`."""
    document: Document = field.whole()

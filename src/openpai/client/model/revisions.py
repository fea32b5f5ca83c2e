"""What answers about things that administrators edit have in common, such as exit specs and alert rules."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, Document, amount, flag, number, text, whole


@dataclass(frozen=True, slots=True)
class Revised(Answer):
    """The last change of something that the platform comes with or an administrator added."""

    changed_by: str = text("changedBy")
    changed_at_ms: int | None = number("changedTime")
    is_outdated: bool = flag("outdated")
    """Whether the bundled one is newer than the change."""
    revision: int = amount("revision")
    """That of its last change; 0 if it was never changed."""


@dataclass(frozen=True, slots=True)
class Revision(Answer):
    """One change."""

    revision: int = amount("revision")
    name: str = text("name")
    at_ms: int | None = number("time")
    user: str = text("user")
    action: str = text("action")
    reason: str = text("reason")
    document: Document = whole()

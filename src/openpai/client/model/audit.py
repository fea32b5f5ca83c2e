"""The audit log."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, Document, amount, number, parts, text, whole


@dataclass(frozen=True, slots=True)
class AuditEntry(Answer):
    """One request that changed something, or tried to."""

    id: int = amount("id")
    at_ms: int | None = number("time")
    actor: str = text("actor")
    action: str = text("action")
    target: str = text("target")
    owner: str = text("owner")
    via: str = text("via")
    address: str = text("address")
    status: int = amount("status")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class AuditPage(Answer):
    """A page of entries, newest first, and the beginning of the next page."""

    entries: tuple[AuditEntry, ...] = parts(AuditEntry, "entries", is_needed=True)
    next: int | None = number("next")
    document: Document = whole()

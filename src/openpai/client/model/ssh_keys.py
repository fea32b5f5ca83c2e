"""Public SSH keys of users."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, Document, amount, number, text, whole


@dataclass(frozen=True, slots=True)
class SshKey(Answer):
    """A public SSH key of a user."""

    id: str = text("id")
    title: str = text("title")
    type: str = text("type")
    bits: int = amount("bits")
    fingerprint: str = text("fingerprint")
    key: str = text("key")
    added_at_ms: int | None = number("addedTime")
    document: Document = whole()

"""Channels of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import Answer, Document, mapping, number, text, texts, whole


@dataclass(frozen=True, slots=True)
class AlertChannel(Answer):
    """A way by which messages leave the platform."""

    name: str = text("name")
    kind: str = text("kind")
    data: Mapping[str, Any] = mapping("data")
    secrets: tuple[str, ...] = texts("secrets")
    changed_by: str = text("changedBy")
    changed_at_ms: int | None = number("changedTime")
    document: Document = whole()

"""Applications of jobs: servers in their tasks that browsers reach."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model import reading as field
from openpai.client.model.reading import Answer, Document


@dataclass(frozen=True, slots=True)
class Application(Answer):
    """A server in a task of a job."""

    name: str = field.text("name")
    title: str = field.text("title")
    role: str = field.text("taskRoleName")
    index: int = field.amount("taskIndex")
    state: str = field.text("state")
    """waiting, starting, ready or gone."""
    used_at_ms: int | None = field.number("usedTime")
    """When it was used last, while it runs."""
    stops_at_ms: int | None = field.number("stopTime")
    """When its job is stopped unless it is used; None if it is not."""


@dataclass(frozen=True, slots=True)
class ApplicationTicket(Answer):
    """An address that opens an application in one browser, once."""

    uri: str = field.text("uri")
    expires_at_ms: int | None = field.number("expiresAt")
    document: Document = field.whole()

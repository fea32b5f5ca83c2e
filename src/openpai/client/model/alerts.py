"""Alerts."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, Document, text, whole


@dataclass(frozen=True, slots=True)
class Alert(Answer):
    """Something that needs attention."""

    name: str = text("labels.alertname")
    severity: str = text("labels.severity")
    summary: str = text("annotations.summary", "annotations.description")
    about: str = text("labels.job_name", "labels.node_name", "labels.instance")
    """The job or the node it is about."""
    since: str = text("startsAt")
    """ISO 8601."""
    document: Document = whole()

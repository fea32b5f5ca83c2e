"""Alerts, silences, what alerts did, and subscriptions."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, Document, amount, flag, number, real, text, texts, whole


@dataclass(frozen=True, slots=True)
class Alert(Answer):
    """Something that needs attention."""

    name: str = text("labels.alertname")
    severity: str = text("labels.severity")
    summary: str = text("annotations.summary", "annotations.description")
    next: str = text("annotations.next")
    about: str = text("labels.job_name", "labels.node_name", "labels.instance", "labels.vc_name", "labels.storage")
    """The job, the node or what else it is about."""
    since: str = text("startsAt")
    """ISO 8601."""
    fingerprint: str = text("fingerprint")
    silenced_by: tuple[str, ...] = texts("status.silencedBy")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Silence(Answer):
    """Alerts that fit all matchers neither notify nor act until it ends."""

    id: str = text("id")
    matchers: tuple[str, ...] = texts("matchers")
    from_ms: int | None = number("fromTime")
    to_ms: int | None = number("toTime")
    user: str = text("user")
    comment: str = text("comment")
    is_active: bool = flag("active")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class AlertAction(Answer):
    """Something that an alert did."""

    at_ms: int | None = number("time")
    rule: str = text("rule")
    action: str = text("action")
    target: str = text("target")
    state: str = text("state")
    """planned, started, done, failed, limited or dry."""
    detail: str = text("detail")
    fingerprint: str = text("fingerprint")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class AlertMessage(Answer):
    """A message of the outbox."""

    id: int = amount("id")
    channel: str = text("channel")
    subject: str = text("subject")
    state: str = text("state")
    """waiting, sent or given_up."""
    tries: int = amount("tries")
    created_at_ms: int | None = number("createdTime")
    next_at_ms: int | None = number("nextTime")
    error: str = text("error")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Subscription(Answer):
    """What a user hears of their own jobs."""

    on: tuple[str, ...] = texts("on")
    waiting_minutes: float = real("waitingMinutes")
    url: str = text("url")
    shape: str = text("shape")
    problem: str = text("problem")
    document: Document = whole()

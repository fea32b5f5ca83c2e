"""Alerts in the shape of Alertmanager's first API, and their silences, actions and messages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from openpai.alerts.series import as_labels
from openpai.alerts.silences import Silence, silenced_by
from openpai.alerts.states import Alert
from openpai.orchestrator.present_alerts import PresentAlert
from openpai.ports.alerts import ActionRow, Notice
from openpai.protocol.times import iso_time
from openpai.wire import alerts as wire


def of_present(
    found: PresentAlert, began: Mapping[tuple[str, ...], int], now_ms: int, silences: Sequence[Silence] = ()
) -> wire.Alert:
    """Return an alert in Alertmanager's shape; `began` has the times since which rules see the same."""
    labels = {"alertname": found.name, "severity": found.severity, **dict(found.labels)}
    mark = hashlib.sha256(repr(sorted(labels.items())).encode()).hexdigest()[:16]
    since_ms = began.get(about(labels), now_ms) if found.since_ms is None else found.since_ms
    return _document(
        labels, {"summary": found.summary}, since_ms, mark, silenced_by(as_labels(labels), silences, now_ms)
    )


def of_rule(found: Alert, now_ms: int, silences: Sequence[Silence]) -> wire.Alert:
    """Return an alert of a rule in Alertmanager's shape."""
    texts: wire.AlertAnnotations = {"summary": found.annotations.get("summary", "")}
    if found.annotations.get("next"):
        texts["next"] = found.annotations["next"]
    since_ms = found.fired_at_ms or found.since_ms
    silent = silenced_by(found.labels, silences, now_ms)
    return _document(dict(found.labels), texts, since_ms, found.fingerprint, silent)


def about(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return what an alert is about: two alerts about the same are shown once."""
    return tuple(labels.get(name, "") for name in ("alertname", "job_name", "node_name", "minor_number"))


def _document(
    labels: Mapping[str, str], texts: wire.AlertAnnotations, since_ms: int, mark: str, silent: Sequence[str]
) -> wire.Alert:
    return {
        "labels": labels,
        "annotations": texts,
        "startsAt": iso_time(since_ms),
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "status": {"state": "suppressed" if silent else "active", "silencedBy": list(silent), "inhibitedBy": []},
        "receivers": [],
        "fingerprint": mark,
    }


def silence(found: Silence, now_ms: int) -> wire.Silence:
    """Return a silence."""
    return {
        "id": found.id,
        "matchers": [str(each) for each in found.matchers],
        "fromTime": found.from_ms,
        "toTime": found.to_ms,
        "user": found.by,
        "comment": found.comment,
        "active": found.holds(now_ms),
    }


def action(row: ActionRow) -> wire.AlertAction:
    """Return something that an alert did."""
    return {
        "time": row.at_ms,
        "rule": row.rule,
        "action": str(row.action),
        "target": row.target,
        "state": cast("Any", row.state),
        "detail": row.detail,
        "fingerprint": row.alert.partition("-")[0],
    }


def message(notice: Notice) -> wire.AlertMessage:
    """Return a message of the outbox, without its text."""
    return {
        "id": notice.id,
        "channel": notice.channel,
        "subject": notice.message.subject,
        "state": cast("Any", notice.state),
        "tries": notice.tries,
        "createdTime": notice.created_at_ms,
        "nextTime": notice.next_at_ms,
        "error": notice.error,
    }

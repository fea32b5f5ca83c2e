"""Alerts in the shape of Alertmanager's first API, made of the current state of nodes and jobs.

Names and severities are those of OpenPAI's alert rules where it has such a rule, so that readers of its alerts keep
working.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from openpai.alerts.series import as_labels
from openpai.alerts.silences import Silence, silenced_by
from openpai.alerts.states import Alert as StoredAlert
from openpai.api.shapes.job_events import iso_time
from openpai.lifecycle.model import JobPhase
from openpai.ports.alerts import ActionRow, Notice
from openpai.ports.platform import NodeView
from openpai.ports.queries import JobRow
from openpai.wire import alerts as wire

PENDING_MS: Final = 30 * 60_000
"""How long a job may wait before there is an alert."""
STUCK_MS: Final = 30 * 60_000
"""How long a job may take from its grant to its first running task, or from a stop to its end."""
WATCHED: Final = (JobPhase.QUEUED.value, JobPhase.STARTING.value, JobPhase.ENDING.value)


@dataclass(frozen=True, slots=True)
class Alert:
    """One problem."""

    name: str
    severity: str
    labels: tuple[tuple[str, str], ...]
    summary: str
    since_ms: int | None = None
    """When it began, if that is known."""

    @property
    def owner(self) -> str:
        """Return the owner of the job it is about; empty for alerts about the cluster."""
        return dict(self.labels).get("username", "")


def alerts(nodes: Sequence[NodeView], jobs: Iterable[JobRow], now_ms: int) -> tuple[Alert, ...]:
    """Return all problems of these nodes and jobs at this time."""
    found = [alert for node in nodes for alert in _of_node(node)]
    return (*found, *(alert for job in jobs for alert in _of_job(job, now_ms)))


def _of_node(node: NodeView) -> Iterator[Alert]:
    about = (("node_name", node.name), ("instance", node.address))
    if not node.is_healthy:
        message = node.message or "it does not answer"
        yield Alert("NodeNotReady", "error", about, f"node {node.name} is not ready: {message}")
    if node.is_drained:
        because = f": {node.drained_because}" if node.drained_because else ""
        yield Alert("NodeDrained", "info", about, f"node {node.name} is drained and takes nothing new{because}")
    because = f": {node.bad_because}" if node.bad_because else ""
    for device in node.bad_devices:
        labels = (*about, ("minor_number", str(device)))
        yield Alert("NodeGpuBad", "error", labels, f"GPU {device} of node {node.name} is bad and is not used{because}")


def _of_job(job: JobRow, now_ms: int) -> Iterator[Alert]:
    name = f"{job.user}~{job.name}"
    about = (("job_name", name), ("username", job.user), ("vc_name", job.virtual_cluster))
    # A job that is retried has waited since the retry; a job that never ran, since it was submitted.
    since_ms = job.attempt_at_ms or job.submitted_at_ms
    minutes = (now_ms - since_ms) // 60_000
    if job.phase == JobPhase.QUEUED and now_ms - since_ms >= PENDING_MS:
        message = f"job {name} has been waiting in {job.virtual_cluster} for {minutes} minutes; its page says why"
        yield Alert("PaiJobPending", "warn", about, message, since_ms + PENDING_MS)
    if job.phase == JobPhase.STARTING and now_ms - since_ms >= STUCK_MS:
        message = f"job {name} was placed {minutes} minutes ago and none of its tasks runs yet"
        yield Alert("PaiJobStarting", "warn", about, message, since_ms + STUCK_MS)
    ended_ms = job.attempt_ended_at_ms
    if job.phase == JobPhase.ENDING and ended_ms is not None and now_ms - ended_ms >= STUCK_MS:
        message = f"job {name} has been ending for {(now_ms - ended_ms) // 60_000} minutes and still holds its nodes"
        yield Alert("PaiJobsZombie", "info", about, message, ended_ms + STUCK_MS)


def alert(found: Alert, now_ms: int, silences: Sequence[Silence] = ()) -> wire.Alert:
    """Return an alert in Alertmanager's shape."""
    labels = {"alertname": found.name, "severity": found.severity, **dict(found.labels)}
    mark = hashlib.sha256(repr(sorted(labels.items())).encode()).hexdigest()[:16]
    since_ms = now_ms if found.since_ms is None else found.since_ms
    return _document(
        labels, {"summary": found.summary}, since_ms, mark, silenced_by(as_labels(labels), silences, now_ms)
    )


def of_rule(found: StoredAlert, now_ms: int, silences: Sequence[Silence]) -> wire.Alert:
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

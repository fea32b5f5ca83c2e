"""Alerts that need attention now: those that follow from the state of nodes and jobs, and those of rules that fire.

Names and severities are those of OpenPAI's alert rules where it has such a rule, so that readers of its alerts keep
working.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from openpai.access.model import Principal, Role
from openpai.alerts.states import Alert, State
from openpai.lifecycle.model import JobPhase
from openpai.ports.platform import NodeView
from openpai.ports.queries import JobRow

PENDING_MS: Final = 30 * 60_000
"""How long a job may wait before there is an alert."""
STUCK_MS: Final = 30 * 60_000
"""How long a job may take from its grant to its first running task, or from a stop to its end."""
WATCHED: Final = (JobPhase.QUEUED.value, JobPhase.STARTING.value, JobPhase.ENDING.value)


@dataclass(frozen=True, slots=True)
class PresentAlert:
    """One problem."""

    name: str
    severity: str
    labels: tuple[tuple[str, str], ...]
    summary: str
    since_ms: int | None = None
    """When it began, if that is known."""


def present_alerts(nodes: Sequence[NodeView], jobs: Iterable[JobRow], now_ms: int) -> tuple[PresentAlert, ...]:
    """Return all problems of these nodes and jobs at this time."""
    found = [alert for node in nodes for alert in _of_node(node)]
    return (*found, *(alert for job in jobs for alert in _of_job(job, now_ms)))


def _of_node(node: NodeView) -> Iterator[PresentAlert]:
    about = (("node_name", node.name), ("instance", node.address))
    if not node.is_healthy:
        message = node.message or "it does not answer"
        yield PresentAlert("NodeNotReady", "error", about, f"node {node.name} is not ready: {message}")
    if node.is_drained:
        because = f": {node.drained_because}" if node.drained_because else ""
        yield PresentAlert("NodeDrained", "info", about, f"node {node.name} is drained and takes nothing new{because}")
    because = f": {node.bad_because}" if node.bad_because else ""
    for device in node.bad_devices:
        labels = (*about, ("minor_number", str(device)))
        yield PresentAlert(
            "NodeGpuBad", "error", labels, f"GPU {device} of node {node.name} is bad and is not used{because}"
        )


def _of_job(job: JobRow, now_ms: int) -> Iterator[PresentAlert]:
    name = job.full_name
    about = (("job_name", name), ("username", job.user), ("vc_name", job.virtual_cluster))
    # A job that is retried has waited since the retry; a job that never ran, since it was submitted.
    since_ms = job.attempt_at_ms or job.submitted_at_ms
    minutes = (now_ms - since_ms) // 60_000
    if job.phase == JobPhase.QUEUED and now_ms - since_ms >= PENDING_MS:
        message = f"job {name} has been waiting in {job.virtual_cluster} for {minutes} minutes; its page says why"
        yield PresentAlert("PaiJobPending", "warn", about, message, since_ms + PENDING_MS)
    if job.phase == JobPhase.STARTING and now_ms - since_ms >= STUCK_MS:
        message = f"job {name} was placed {minutes} minutes ago and none of its tasks runs yet"
        yield PresentAlert("PaiJobStarting", "warn", about, message, since_ms + STUCK_MS)
    ended_ms = job.attempt_ended_at_ms
    if job.phase == JobPhase.ENDING and ended_ms is not None and now_ms - ended_ms >= STUCK_MS:
        message = f"job {name} has been ending for {(now_ms - ended_ms) // 60_000} minutes and still holds its nodes"
        yield PresentAlert("PaiJobsZombie", "info", about, message, ended_ms + STUCK_MS)


def firing_for(who: Principal, alerts: Iterable[Alert]) -> list[Alert]:
    """Return the alerts that fire and that an actor may see: about their own jobs, for administrators all."""
    firing = [alert for alert in alerts if alert.state is State.FIRING]
    if who.role is Role.ADMIN:
        return firing
    # Older alerts are about jobs of an earlier user of the same name.
    return [alert for alert in firing if alert.since_ms >= who.since_ms and _is_about_a_job_of(who.name, alert)]


def _is_about_a_job_of(user: str, alert: Alert) -> bool:
    labels = dict(alert.labels)
    return labels.get("username") == user and labels.get("job_name", "").startswith(f"{user}~")

"""Events of a job in OpenPAI's shape, whose times are texts, and reasons for waiting."""

from __future__ import annotations

from typing import Final

from openpai.ports.backend import GRACE_S
from openpai.ports.queries import EventRow
from openpai.protocol.times import iso_time
from openpai.scheduler.model import Estimate, Wait
from openpai.wire.job_events import Estimate as EstimateDocument
from openpai.wire.job_events import Event
from openpai.wire.job_events import Wait as WaitDocument

NO_TASK: Final = -1


def event(row: EventRow) -> Event:
    """Return one event; it happened once, so its first and last time are the same."""
    message = row.event
    key = message.key
    when = iso_time(message.at_ms)
    return {
        "uid": str(row.id),
        "frameworkName": message.job,
        # OpenPAI's clients expect values, also in events about no task.
        "podUid": key.path() if key else "",
        "taskroleName": key.role if key else "",
        "taskName": f"{key.role}-{key.index}" if key else "",
        "taskIndex": key.index if key else NO_TASK,
        "type": "Warning" if message.is_warning else "Normal",
        "reason": message.reason,
        "message": message.message,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
        "sourceComponent": "openpai",
        "sourceHost": message.node or "",
    }


def wait(view: Wait) -> WaitDocument:
    return {
        "code": view.code.value,
        "message": view.message,
        "unblock": view.unblock,
        "ahead": view.ahead,
        "position": view.position,
        "estimate": None if view.estimate is None else _estimate(view.estimate),
        "more": view.more,
        "lent": [{"virtualCluster": each.virtual_cluster, "gpu": each.gpus, "cpu": each.cpus} for each in view.lent],
        "lentBackSeconds": GRACE_S,
        "interruptible": view.is_interruptible,
    }


def _estimate(view: Estimate) -> EstimateDocument:
    return {
        "earliestTime": view.earliest_ms,
        "latestTime": view.latest_ms,
        "basis": view.basis,
        "judged": view.judged,
        "within": view.within,
    }

"""Derives from the state of a pod how its task ended, for the exit-code table.

An end counts only once the kubelet reports it: it sets the phase after the last process is gone. What Kubernetes itself
says (a refusal by the node, an eviction, a lack of memory) goes before the exit code of the container.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from openpai.backends.host.register import KILLED_BEFORE_START
from openpai.backends.kubernetes.pods import CONTAINER
from openpai.kube.objects.pods import ContainerStatus, Pod, Terminated
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.runtime.script import ExitText

NODE_GONE: Final = "DeletionByPodGC"
_UNKNOWN: Final = "ContainerStatusUnknown"
_KILLED: Final = 137
_TERMINATED: Final = 143
_PORT_TAKEN: Final = 253
_GRACE_OVER: Final = "killed: it had not ended within its grace period"
_DELETED: Final = "its pod was deleted by another program or a user of the cluster while it ran"
_OF_NODE: Final = {
    "UnexpectedAdmissionError": ExitReason.NODE_FAILED,
    "NodePorts": ExitReason.PORT_TAKEN,
    "TopologyAffinityError": ExitReason.OUT_OF_RESOURCES,
    "Preempting": ExitReason.DISPLACED,
    "DeadlineExceeded": ExitReason.DEADLINE_EXCEEDED,
    "NodeLost": ExitReason.NODE_LOST,
    "NodeShutdown": ExitReason.NODE_LOST,
    "Shutdown": ExitReason.NODE_LOST,
    "Terminated": ExitReason.NODE_LOST,
    "NodeAffinity": ExitReason.NODE_FORBIDS,
    "Forbidden": ExitReason.NODE_FORBIDS,
    "SysctlForbidden": ExitReason.NODE_FORBIDS,
    "AppArmor": ExitReason.NODE_FORBIDS,
    "PodOSSelectorNodeLabelDoesNotMatch": ExitReason.NODE_FORBIDS,
    "PodOSNotSupported": ExitReason.NODE_FORBIDS,
    "PodFeatureUnsupported": ExitReason.NODE_FORBIDS,
    "InvalidNodeInfo": ExitReason.NODE_FAILED,
}
"""By the reason in the status of a pod, which the kubelet writes when it refuses or ends one."""
_DISRUPTED: Final = {
    "PreemptionByScheduler": ExitReason.DISPLACED,
    "DeletionByTaintManager": ExitReason.EVICTED,
    "EvictionByEvictionAPI": ExitReason.EVICTED,
    "TerminationByKubelet": ExitReason.EVICTED,
    NODE_GONE: ExitReason.NODE_LOST,
}
"""By the reason of the condition DisruptionTarget."""
_DISK: Final = re.compile(
    r"ephemeral (local )?storage usage exceeds|exceeded its local ephemeral storage limit", re.IGNORECASE
)
_SHM: Final = re.compile(r'EmptyDir volume "pai-shm" exceeds')
_NO_SHELL: Final = re.compile(r"/bin/sh.*(no such file or directory|not found in)|executable file not found")
_NOT_STARTED: Final = ContainerStatus()
_OTHER_PROCESSOR: Final = "exec format error"


def container(pod: Pod) -> ContainerStatus:
    """Return the state of the task's container; empty before the kubelet knows it."""
    # A loop, as each look at a pod asks three times and a start looks at all of them.
    for found in pod.status.container_statuses:
        if found.name == CONTAINER:
            return found
    return _NOT_STARTED


def started_at_ms(pod: Pod) -> int | None:
    """Return when the task's container started; None if it did not."""
    state = container(pod).state
    if state.running is not None:
        return _ms(state.running.started_at) or _ms(pod.status.start_time)
    if state.terminated is not None and not _never_began(state.terminated):
        return _ms(state.terminated.started_at)
    return None


def is_deleted_while_running(pod: Pod) -> bool:
    """Return whether a pod is deleted whose task still runs."""
    return pod.is_deleting and container(pod).state.running is not None


def verdict(pod: Pod, *, was_killed: bool, was_cut_short: bool = False) -> ExitReport | None:
    """Return how a pod's task ended; None while it may run.

    `was_killed` is whether the platform deleted the pod, `was_cut_short` whether its task was seen to run afterwards.
    """
    if not pod.has_ended:
        return None
    terminated = container(pod).state.terminated
    if terminated is None or (terminated.reason == _UNKNOWN and pod.is_deleting):
        # The kubelet made up the state of a container that it never started.
        return _without_container(pod, was_killed=was_killed)
    report = ExitReport(terminated.exit_code, ExitReason.EXITED, "", started_at_ms(pod), _ms(terminated.finished_at))
    return (
        _by_node(pod, report)
        or _by_container(terminated, report)
        or (_killed(report) if was_killed else _by_deletion(pod, terminated, report, was_cut_short=was_cut_short))
        or report
    )


def lost(message: str, reason: ExitReason = ExitReason.LOST) -> ExitReport:
    """Return the report of a task whose own exit code will never be known."""
    return ExitReport(_KILLED, reason, message)


def _without_container(pod: Pod, *, was_killed: bool) -> ExitReport:
    refused = ExitReport(1)
    found = _by_node(pod, refused)
    if found is not None:
        return found
    if was_killed:
        return KILLED_BEFORE_START
    if pod.is_deleting:
        return lost("its pod was deleted by another program or a user of the cluster before it ran")
    text = pod.status.message or "its node gave no reason"
    return replace(refused, reason=ExitReason.LAUNCH_FAILED, message=f"its pod failed without a container: {text}")


def _by_node(pod: Pod, report: ExitReport) -> ExitReport | None:
    """Return the report if the node or another scheduler ended or refused the pod."""
    text = pod.status.message
    if pod.status.reason == "Evicted":
        return _evicted(text, report)
    reason = _OF_NODE.get(pod.status.reason)
    if pod.status.reason.startswith("OutOf"):
        reason = ExitReason.OUT_OF_RESOURCES
    target = pod.status.condition("DisruptionTarget")
    # A task that ended well before it was put out has ended well.
    if reason is None and target is not None and target.status == "True" and report.code != 0:
        reason, text = _DISRUPTED.get(target.reason), text or target.message
    if reason is None:
        return None
    return replace(report, reason=reason, message=text or pod.status.reason)


def _evicted(text: str, report: ExitReport) -> ExitReport:
    if _SHM.search(text):
        return replace(report, reason=ExitReason.OOM_KILLED, message="it put more into /dev/shm than its shmMB allows")
    reason = ExitReason.DISK_EXCEEDED if _DISK.search(text) else ExitReason.EVICTED
    return replace(report, reason=reason, message=text)


def _by_container(terminated: Terminated, report: ExitReport) -> ExitReport | None:
    """Return the report if the container was killed for its memory, never started, or left a message of ours."""
    text = " ".join(terminated.message.split())
    if terminated.reason == "OOMKilled" and report.code != 0:
        message = "it used more memory than it asked for and was killed"
        return replace(report, reason=ExitReason.OOM_KILLED, message=message)
    if terminated.reason == _UNKNOWN:
        return replace(report, reason=ExitReason.LOST, message=text or "its container vanished from its node")
    if _never_began(terminated):
        return replace(report, reason=_not_started(text), message=text)
    written = ExitText.parse(terminated.message)
    if written is not None and report.code == _PORT_TAKEN and written.reason == ExitReason.PORT_TAKEN:
        return replace(report, reason=ExitReason.PORT_TAKEN, message=written.message)
    return None


def _never_began(terminated: Terminated) -> bool:
    return terminated.reason in ("ContainerCannotRun", "StartError", "CreateContainerError")


def _not_started(text: str) -> ExitReason:
    if _OTHER_PROCESSOR in text:
        return ExitReason.LAUNCH_REFUSED
    return ExitReason.NO_SHELL if _NO_SHELL.search(text) else ExitReason.START_FAILED


def _killed(report: ExitReport) -> ExitReport:
    return replace(report, message=_GRACE_OVER) if report.code == _KILLED else report


def _by_deletion(pod: Pod, terminated: Terminated, report: ExitReport, *, was_cut_short: bool) -> ExitReport | None:
    """Return the report if the task ended because its pod was deleted, and not by the platform."""
    due = pod.metadata.deletion_timestamp
    if due is None:
        return None
    if was_cut_short:
        return replace(report, reason=ExitReason.LOST, message=_DELETED)
    grace_s = pod.metadata.deletion_grace_period_seconds or 0
    if grace_s == 0 and report.code in (_KILLED, _TERMINATED):
        # The node has confirmed the deletion, which replaces the time of the request by a later one.
        return replace(report, reason=ExitReason.LOST, message=_DELETED)
    asked_at = due - timedelta(seconds=grace_s)
    ended_at = terminated.finished_at
    # Both are whole seconds. A program may end well at SIGTERM with its work undone.
    if ended_at is not None and (ended_at < asked_at or (ended_at == asked_at and report.code == 0)):
        return None
    return replace(report, reason=ExitReason.LOST, message=_DELETED)


def _ms(at: datetime | None) -> int | None:
    """Return a time in milliseconds; Kubernetes writes the year 1 or 1970 for one that it does not know."""
    return None if at is None or at.year <= 1970 else int(at.timestamp() * 1000)

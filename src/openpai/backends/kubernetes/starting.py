"""Explains why a pod does not run yet, and when to give it up: image, configuration, volumes, no room on its node.

The kubelet and kube-scheduler try for ever. A cause that a retry does not mend ends the attempt at once; any other ends
it after some patience, so that the job gets another node.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from openpai.backends.kubernetes.verdicts import container
from openpai.kube.objects.pods import Pod
from openpai.kube.objects.rest import Event
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import TaskStep

IMAGE_PATIENCE_S: Final = 600.0
PATIENCE_S: Final = 120.0
EVENTS_AFTER_S: Final = 4.0
"""How long a pod may start before its events are read: most pods run by then."""
_PULL_FAILED: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed"}
)
_NO_IMAGE: Final = re.compile(
    r"not found|manifest unknown|does not exist|no such image|pull access denied|unauthorized|authentication required"
    r"|authorization failed|forbidden|denied|no match for platform|invalid reference|failed to resolve reference.*404",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(r'"([^"]+)"|https?://\S+')
_NOT_CREATED: Final = {
    "CreateContainerConfigError": ExitReason.CREATION_FAILED,
    "CreateContainerError": ExitReason.CREATION_FAILED,
    "PreCreateHookError": ExitReason.CREATION_FAILED,
    "RunContainerError": ExitReason.START_FAILED,
    "PostStartHookError": ExitReason.START_FAILED,
}
_TROUBLE: Final = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox"})
_NO_DIRECTORY: Final = re.compile(r"hostPath type check failed: (\S+) is not a directory")


@dataclass(frozen=True, slots=True)
class Progress:
    """What a pod waits for: a sentence, the step for an event of the job, and how the attempt ends because of it."""

    message: str = ""
    step: TaskStep = TaskStep.NONE
    exit: ExitReport | None = None


def progress(pod: Pod, waited_s: float, event: Event | None = None) -> Progress:
    """Return why a pod does not run yet. `event` is the newest event about it, if its events were read."""
    waiting = container(pod).state.waiting
    reason, text = (waiting.reason, waiting.message) if waiting else ("", "")
    if reason in ("InvalidImageName", "ErrImageNeverPull"):
        return _ended(ExitReason.IMAGE_MISSING, text or reason)
    if reason in _PULL_FAILED:
        return _pulling(text or reason, waited_s)
    if reason in _NOT_CREATED:
        return _patient(_NOT_CREATED[reason], f"{reason}: {text}", TaskStep.CREATION_FAILED, waited_s)
    scheduled = pod.status.condition("PodScheduled")
    if not pod.spec.node_name and scheduled is not None and scheduled.reason == "Unschedulable":
        message = f"kube-scheduler does not place it: {scheduled.message}"
        return _patient(ExitReason.OUT_OF_RESOURCES, message, TaskStep.SCHEDULING_FAILED, waited_s)
    return _by_event(event, waited_s) if event is not None else Progress("its container is being created")


def changes_after_s(waited_s: float) -> float:
    """Return how long a pod waits until `progress` may say something else of the same pod and the same event."""
    return next((limit_s for limit_s in (PATIENCE_S, IMAGE_PATIENCE_S) if limit_s >= waited_s), math.inf)


def _by_event(event: Event, waited_s: float) -> Progress:
    if event.reason == "Pulling":
        return Progress(_sentence(event.message), TaskStep.PULLING_IMAGE)
    if event.reason not in _TROUBLE:
        return Progress(_sentence(event.message))
    missing = _NO_DIRECTORY.search(event.message)
    if missing is not None:
        message = f"a storage cannot be mounted: there is no directory {missing[1]} on this machine"
        return _ended(ExitReason.LAUNCH_FAILED, message)
    return _patient(ExitReason.LAUNCH_FAILED, f"{event.reason}: {event.message}", TaskStep.CREATION_FAILED, waited_s)


def _pulling(text: str, waited_s: float) -> Progress:
    if _NO_IMAGE.search(_without_names(text)):
        return _ended(ExitReason.IMAGE_MISSING, text)
    if waited_s > IMAGE_PATIENCE_S:
        return _ended(ExitReason.LAUNCH_FAILED, f"its image could not be pulled in {waited_s / 60:.0f} minutes: {text}")
    return Progress(_sentence(text), TaskStep.IMAGE_PULL_FAILED)


def _without_names(text: str) -> str:
    """Return what is said about an image without its name, which may be any word, and without addresses."""
    for name in {found[1] for found in _NAMED.finditer(text) if found[1]}:
        text = text.replace(name, "")
    return _NAMED.sub("", text)


def _patient(reason: ExitReason, message: str, step: TaskStep, waited_s: float) -> Progress:
    return _ended(reason, message) if waited_s > PATIENCE_S else Progress(_sentence(message), step)


def _ended(reason: ExitReason, message: str) -> Progress:
    return Progress(exit=ExitReport(1, reason, _sentence(message)))


def _sentence(message: str) -> str:
    return " ".join(message.split())

"""What it means for a task when the API server refuses its pod: who can mend it, and whether to try again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from openpai.kube.errors import KubeError
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import TaskStep

QUOTA_PATIENCE_S: Final = 600.0
_QUOTA: Final = ("exceeded quota", "failed quota", "status unknown for quota", "object provided is unrecognized")
_ADMISSION: Final = ("violates PodSecurity", "admission webhook", "denied the request", "ValidatingAdmissionPolicy")


@dataclass(frozen=True, slots=True)
class Refusal:
    """How an attempt ends because of a refusal; with `exit` None, it is tried again."""

    message: str
    step: TaskStep
    exit: ExitReport | None = None


def refusal_of(error: KubeError, waited_s: float) -> Refusal:
    """Return what follows from an answer of the API server other than that it does not answer now."""
    message = error.message
    if error.http == 403 and any(words in message for words in _QUOTA):
        if waited_s < QUOTA_PATIENCE_S:
            patience = f"it is tried again for {QUOTA_PATIENCE_S / 60:.0f} minutes"
            return Refusal(f"{message}; {patience}, until the quota of the namespace has room", TaskStep.QUOTA_EXCEEDED)
        over = f"the quota of the namespace had no room for {waited_s / 60:.0f} minutes: {message}"
        return Refusal(message, TaskStep.NONE, ExitReport(1, ExitReason.LAUNCH_FAILED, over))
    is_of_the_pod = error.http in (400, 413, 422) or any(words in message for words in _ADMISSION)
    # Rights of the platform, a namespace that is gone: not the fault of the job, and an administrator may mend it.
    reason = ExitReason.LAUNCH_REFUSED if is_of_the_pod else ExitReason.LAUNCH_FAILED
    return Refusal(message, TaskStep.NONE, ExitReport(1, reason, f"Kubernetes refuses the pod: {message}"))

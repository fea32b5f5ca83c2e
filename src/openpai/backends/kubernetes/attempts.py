"""Task attempts whose pods are at an API server, and how their register differs from one of this machine."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.backends.host.register import Attempt, AttemptRegister
from openpai.lifecycle.model import ExitReport


@dataclass(slots=True, eq=False)
class PodAttempt(Attempt):
    """A task attempt with a pod, once `uid` is known."""

    node: str = ""
    uid: str = ""
    is_fence: bool = False
    """Whether the pod is only there to take the name."""
    is_unique: bool = False
    """Whether silence of its node never ends it."""
    is_silent: bool = False
    """Whether its node does not answer, which is an event once."""
    is_stuck: bool = False
    """Whether its pod is deleted and stays, which is an event once."""
    is_deleted: bool = False
    """Whether the deletion of its pod was requested."""
    was_cut_short: bool = False
    """Whether its task was seen to run after its pod was deleted."""
    pod_grace_s: int | None = None
    """The grace period with which its pod is to be deleted; None: it is not to be deleted."""
    is_fetched: bool = False
    """Whether what its task left was fetched, or cannot be."""
    is_ending: bool = False
    """Whether its task has ended and only the end of its log is missing."""
    waits_since_s: float = 0.0
    """Since when, on the event loop's clock, its pod has been starting."""
    look_at_s: float = 0.0
    """When, on the same clock, its pod is looked at again while it starts, although nothing was heard of it."""

    @property
    def is_starting(self) -> bool:
        """Return whether its pod exists and its task neither runs nor is over."""
        return bool(self.uid) and self.started_at_ms is None and self.exit is None


class PodRegister(AttemptRegister[PodAttempt]):
    """The register of pods. A refused attempt ends once its name is taken, so that no delayed launch can begin it."""

    def refuse(self, attempt: PodAttempt, report: ExitReport) -> None:
        """Prevent the attempt from beginning; the runner records the end when that is certain."""
        if attempt.exit is None:
            self._runner.fence(attempt, report)

    def give_up(self, attempt: PodAttempt) -> None:
        """Remove the pod of an attempt that `cut_off` ends, whether its task has begun or not."""
        self._runner.destroy(attempt)

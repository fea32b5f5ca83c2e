"""Events of a job, and reasons for waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openpai.client.model import reading as field
from openpai.client.model.reading import Answer, Document


def _names(found: Any) -> tuple[str, ...]:
    # Older servers name one job.
    return (found,) if isinstance(found, str) else field.as_texts(found)


@dataclass(frozen=True, slots=True)
class Event(Answer):
    """One event of a job."""

    type: str = field.text("type")
    reason: str = field.text("reason")
    message: str = field.text("message")
    at_ms: int | None = field.value("lastTimestamp", convert=field.as_moment)
    task: str = field.text("taskName")
    node: str = field.text("sourceHost")
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class JobChanges(Answer):
    """Which jobs changed; `next` is the number to continue after."""

    next: int = field.amount("next")
    jobs: tuple[str, ...] = field.texts("jobs")
    others: bool = field.flag("others")
    complete: bool = field.flag("complete")
    """False: more changed than is named, so everything may have."""
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class Estimate(Answer):
    """When a job may start: between these times (None if unknown), and the basis of the estimate."""

    earliest_ms: int | None = field.number("earliestTime")
    latest_ms: int | None = field.number("latestTime")
    basis: str = field.text("basis")
    judged: int = field.amount("judged")
    """How many of the latest starts in its virtual cluster had been estimated."""
    within: int = field.amount("within")
    """How many of these were within the range."""


@dataclass(frozen=True, slots=True)
class Lent(Answer):
    """Resources of a virtual cluster that jobs of another one use without a guarantee."""

    virtual_cluster: str = field.text("virtualCluster")
    gpus: int = field.amount("gpu")
    cpus: int = field.amount("cpu")


@dataclass(frozen=True, slots=True)
class Wait(Answer):
    """One reason why a job waits, from the scheduler or a quota."""

    code: str = field.text("code")
    message: str = field.text("message")
    unblock: str = field.text("unblock")
    ahead: tuple[str, ...] = field.value("ahead", convert=_names)
    position: int | None = field.number("position")
    estimate: Estimate | None = field.part_if_any(Estimate, "estimate")
    more: int = field.amount("more")
    """How many more tasks of the job wait for the same reason, after this one."""
    lent: tuple[Lent, ...] = field.parts(Lent, "lent")
    """What others use of its virtual cluster, or of what is reserved for it."""
    lent_back_s: float = field.real("lentBackSeconds")
    """Within how long a job that needs it gets that back."""
    is_interruptible: bool = field.flag("interruptible")
    """Whether it may borrow idle resources, and be preempted there."""
    document: Document = field.whole()

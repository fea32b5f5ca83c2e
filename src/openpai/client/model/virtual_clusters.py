"""Virtual clusters, and the configuration that guarantees cells to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openpai.client.model import reading as field
from openpai.client.model.reading import Answer, Document


def _counts(found: Any) -> tuple[tuple[str, int], ...]:
    return tuple((str(kind), field.as_amount(count)) for kind, count in (found or {}).items())


@dataclass(frozen=True, slots=True)
class Resources(Answer):
    """Processors, memory and GPUs."""

    cpus: int = field.amount("cpu")
    memory_mb: int = field.amount("memory")
    gpus: int = field.amount("gpu")


def _by_name(found: Any) -> tuple[tuple[str, Resources], ...]:
    return tuple((str(name), Resources.read(document)) for name, document in (found or {}).items())


@dataclass(frozen=True, slots=True)
class Accuracy(Answer):
    """How good the latest guesses about a virtual cluster were."""

    starts: int = field.amount("starts")
    """Starts that had been estimated."""
    starts_within: int = field.amount("startsWithinRange")
    runs: int = field.amount("runTimes")
    """Run times that had been guessed."""
    runs_within_2x: int = field.amount("runTimesWithinFactor2")
    run_error: float = field.real("runTimeErrorFactor")
    """The median of how many times longer or shorter than guessed jobs ran; 0 without guesses."""


@dataclass(frozen=True, slots=True)
class Moves(Answer):
    """Jobs that were moved to make whole cells for others, since the present leader took over."""

    jobs: int = field.amount("jobs")
    gpu_hours_lost: float = field.real("gpuHoursLost")


@dataclass(frozen=True, slots=True)
class VirtualCluster(Answer):
    """The guaranteed, healthy and used resources of a virtual cluster."""

    name: str
    total: Resources = field.part(Resources, "resourcesTotal")
    guaranteed: Resources = field.part(Resources, "resourcesGuaranteed")
    used: Resources = field.part(Resources, "resourcesUsed")
    borrowed: Resources = field.part(Resources, "resourcesBorrowed")
    """Held by its opportunistic jobs, in addition to the guarantee."""
    lent: Resources = field.part(Resources, "resourcesLent")
    """Held by jobs of others out of its promise, until it needs that back."""
    lent_to: tuple[tuple[str, Resources], ...] = field.value("lentTo", convert=_by_name)
    """The same, by the virtual cluster whose jobs hold it."""
    skus: tuple[tuple[str, int], ...] = field.value("skus", convert=_counts)
    running: int = field.amount("runningGangs")
    waiting: int = field.amount("waitingGangs")
    accuracy: Accuracy = field.part(Accuracy, "accuracy")
    order: str = field.text("order")
    """The order of its queue: `fair`, `fifo` or `shortest`."""
    is_interruptible: bool = field.flag("interruptible")
    """Whether its jobs may be interrupted unless they say otherwise."""
    moves_jobs: bool = field.flag("moveJobs")
    moves: Moves = field.part(Moves, "moves")
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class QueuedJob(Answer):
    """A job that waits, at its place in the queue of its virtual cluster."""

    position: int = field.amount("position")
    job: str | None = field.value("job", convert=field.as_text_if_any)
    """None for a job that the caller may not see."""
    priority_class: str = field.text("priorityClass")
    priority: int = field.amount("priority")
    rank: int = field.amount("rank")
    tasks: int = field.amount("tasks")
    gpus: int = field.amount("gpu")
    cpus: int = field.amount("cpu")
    submitted_at_ms: int = field.amount("submittedTime")
    code: str = field.text("code")
    message: str = field.text("message")
    """Why it waits."""
    unblock: str = field.text("unblock")
    may_move: bool = field.flag("mayMove")
    """Whether the caller may move it before or after another job."""


@dataclass(frozen=True, slots=True)
class VcQueue(Answer):
    """The jobs that wait in a virtual cluster, in the order in which the scheduler considers them."""

    order: str = field.text("order")
    total: int = field.amount("totalCount")
    jobs: tuple[QueuedJob, ...] = field.parts(QueuedJob, "jobs")
    """The first of them."""
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class ClusterConfig(Answer):
    """The guarantees of virtual clusters, as written and as the scheduler uses them."""

    promises: str | None = field.value("promises", convert=field.as_text_if_any)
    hived: str = field.text("hived")
    version: int = field.amount("version")
    problems: tuple[str, ...] = field.texts("problems")
    """Guarantees that cannot be kept at the moment."""
    demoted: tuple[str, ...] = field.texts("demoted")
    """Jobs that lost their guarantee in the last change; they continue to run."""
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class Share(Answer):
    """What a virtual cluster is guaranteed, before and after a change; nothing for one that is not there."""

    name: str = field.text("name")
    before: Resources = field.part(Resources, "before")
    after: Resources = field.part(Resources, "after")


@dataclass(frozen=True, slots=True)
class PromisePreview(Answer):
    """What a change of guarantees would do; nothing was changed."""

    promises: str | None = field.value("promises", convert=field.as_text_if_any)
    shares: tuple[Share, ...] = field.parts(Share, "shares")
    """Every virtual cluster."""
    problems: tuple[str, ...] = field.texts("problems")
    """Guarantees that could not be kept at the moment."""
    demoted: tuple[str, ...] = field.texts("demoted")
    """Jobs that would run on without their guarantee."""
    document: Document = field.whole()

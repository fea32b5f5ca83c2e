"""Documents of virtual clusters, SKU types and the cluster's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from openpai.wire.answers import Ms
from openpai.wire.doc import Doc, Document


class Resources(Document):
    """Resources, also under their older names."""

    cpu: Annotated[int, Doc(example=64)]
    memory: Annotated[int, Doc("MB", example=262_144)]
    gpu: Annotated[int, Doc(example=8)]
    vCores: Annotated[int, Doc(example=64)]
    GPUs: Annotated[int, Doc(example=8)]


class Accuracy(Document):
    """How good the latest guesses about a virtual cluster were, at most 500 of each kind."""

    starts: Annotated[int, Doc("starts that had been estimated", example=40)]
    startsWithinRange: Annotated[int, Doc("those within the estimated range, or a minute of it", example=34)]
    runTimes: Annotated[int, Doc("run times that had been guessed", example=200)]
    runTimesWithinFactor2: Annotated[int, Doc("those at most twice, and at least half, as long", example=120)]
    runTimeErrorFactor: Annotated[
        float | None, Doc("the median of how many times longer or shorter than guessed jobs ran", example=1.7)
    ]


class Moves(Document):
    """Jobs that were moved to make whole cells for others, since the present leader took over."""

    jobs: Annotated[int, Doc(example=2)]
    gpuHoursLost: Annotated[float, Doc("work that was not saved and is done again", example=0.5)]


class VirtualCluster(Document):
    """The guaranteed, healthy and used resources of a virtual cluster."""

    capacity: Annotated[float, Doc("percent of the cluster", example=25)]
    maxCapacity: Annotated[float, Doc("the same", example=25)]
    usedCapacity: Annotated[float, Doc("percent of the cluster", example=12.5)]
    dedicated: Literal[False]
    resourcesUsed: Resources
    resourcesGuaranteed: Resources
    resourcesTotal: Resources
    resourcesBorrowed: Annotated[Resources, Doc("what its jobs use without a guarantee")]
    resourcesLent: Annotated[Resources, Doc("what jobs of others use of its promise, until it needs that back")]
    lentTo: Annotated[Mapping[str, Resources], Doc("the same, by the virtual cluster whose jobs use it")]
    skus: Annotated[Mapping[str, float], Doc("number of SKUs by type", example={"A100": 16})]
    runningGangs: Annotated[int, Doc(example=2)]
    waitingGangs: Annotated[int, Doc(example=0)]
    accuracy: Accuracy
    order: Annotated[Literal["fair", "fifo", "shortest"], Doc("the order of its queue", example="fair")]
    interruptible: Annotated[bool, Doc("whether jobs may be interrupted that do not say", example=False)]
    moveJobs: Annotated[bool, Doc("whether interruptible jobs may be moved to make whole cells", example=False)]
    moves: Moves


class QueuedJob(Document):
    """A job that waits, at its place in the queue of its virtual cluster."""

    position: Annotated[int, Doc("counted from 1", example=1, minimum=1)]
    job: Annotated[str | None, Doc("null for a job that the caller may not see", example="ann~train")]
    priorityClass: Annotated[str | None, Doc(example="test")]
    priority: Annotated[int, Doc("jobs with a higher one go first; -1 for opportunistic ones", example=10)]
    rank: Annotated[int, Doc("among jobs of equal priority, the higher rank goes first", example=0)]
    tasks: Annotated[int, Doc("that wait", example=2)]
    gpu: Annotated[int, Doc("that these need", example=16)]
    cpu: Annotated[int, Doc(example=64)]
    submittedTime: Ms
    code: Annotated[str, Doc(example="NOT_ENOUGH_FREE")]
    message: Annotated[str, Doc("why it waits", example="virtual cluster vision uses 16 of its 16 GPUs")]
    unblock: Annotated[str, Doc("what would change that", example="wait for ann~first to end")]
    mayMove: Annotated[bool, Doc("whether the caller may move it before or after another job", example=True)]


class VcQueue(Document):
    """The jobs that wait in a virtual cluster, in the order in which the scheduler considers them."""

    order: Annotated[
        Literal["fair", "fifo", "shortest"], Doc("the order among equal priority and rank", example="fair")
    ]
    totalCount: Annotated[int, Doc("how many jobs wait", example=1, minimum=0)]
    jobs: Annotated[Sequence[QueuedJob], Doc("the first of them")]


class NodeGpus(Document):
    """The GPUs of a node."""

    gpuUsed: Annotated[int, Doc(example=2)]
    gpuAvailable: Annotated[int, Doc(example=6)]
    gpuTotal: Annotated[int, Doc(example=8)]


class Sku(Document):
    """The CPUs and memory that belong to one GPU of a SKU type."""

    cpu: Annotated[float, Doc(example=8)]
    memory: Annotated[float, Doc("MB", example=32_768)]
    gpu: Annotated[float, Doc(example=1)]


class ClusterConfig(Document):
    """The guarantees of virtual clusters."""

    promises: Annotated[str | None, Doc(example="vision: 3 nodes, speech: 8 GPUs")]
    hived: Annotated[str, Doc("a configuration in HiveD's format, YAML", example="physicalCluster: {}\n")]
    version: Annotated[int, Doc(example=3)]
    problems: Annotated[Sequence[str], Doc("guarantees that cannot be kept at the moment", example=[])]
    demoted: Annotated[Sequence[str], Doc("jobs that lost their guarantee in the last change", example=[])]


class Share(Document):
    """What a virtual cluster is guaranteed, before and after a change."""

    name: Annotated[str, Doc(example="vision")]
    before: Annotated[Resources | None, Doc("null for a new one")]
    after: Annotated[Resources | None, Doc("null for one that would be removed")]


class PromisePreview(Document):
    """What a change of guarantees would do; nothing was changed."""

    promises: Annotated[str | None, Doc("all guarantees as they would be", example="vision: 3 nodes, speech: 8 GPUs")]
    shares: Annotated[Sequence[Share], Doc("every virtual cluster, by name")]
    problems: Annotated[Sequence[str], Doc("guarantees that could not be kept at the moment", example=[])]
    demoted: Annotated[Sequence[str], Doc("jobs that would run on without their guarantee", example=["ann~train"])]


class PromiseChange(Document):
    """A guarantee that was changed, and all guarantees now."""

    status: Annotated[int, Doc(example=201)]
    message: Annotated[str, Doc(example="virtual cluster vision is promised 3 nodes")]
    promises: Annotated[str | None, Doc(example="vision: 3 nodes, speech: 8 GPUs")]
    version: Annotated[int, Doc(example=3)]
    problems: Annotated[Sequence[str], Doc(example=[])]
    demoted: Annotated[Sequence[str], Doc(example=[])]

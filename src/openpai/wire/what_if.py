"""Documents of replays of the past with other promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from openpai.wire.answers import Ms, VcName
from openpai.wire.doc import Doc, Document


class ReplayedVc(Document):
    """What the replay of the past says of one virtual cluster, or of all together."""

    name: VcName
    gpus: Annotated[int, Doc("promised; of all together, the GPUs of the cluster", example=16)]
    jobs: Annotated[int, Doc(example=420)]
    refused: Annotated[int, Doc("jobs that could never run", example=0)]
    neverStarted: Annotated[int, Doc(example=0)]
    waitMeanSeconds: Annotated[float, Doc("from submission to first start", example=5400.5)]
    waitP50Seconds: Annotated[float, Doc("half of the jobs waited for less", example=600)]
    waitP95Seconds: Annotated[float, Doc("19 of 20 jobs waited for less", example=30000)]
    gpusUsed: Annotated[float, Doc("on average", example=12.25)]
    utilisation: Annotated[float, Doc("the same as a share of the promise", example=0.77)]
    jobsWaiting: Annotated[float, Doc("on average", example=3.5)]
    gpusStranded: Annotated[float, Doc("free while a job waited that needed no more of them, on average", example=0.5)]
    preemptions: Annotated[int, Doc(example=4)]
    gpuHoursLost: Annotated[float, Doc("work that preempted jobs did again", example=12.5)]


class Replayed(Document):
    """One replay of the past."""

    total: ReplayedVc
    virtualClusters: Sequence[ReplayedVc]
    stepSeconds: Annotated[float, Doc("length of each step of the series", example=3600)]
    gpusUsed: Annotated[Sequence[float], Doc("by all virtual clusters, step by step", example=[8, 16, 12.5])]
    jobsWaiting: Annotated[Sequence[float], Doc("in all queues, step by step", example=[0, 4, 2.5])]


# `from` is a keyword; `fromTime` is what other documents call such a time.
class WhatIf(Document):
    """The past as the scheduler would have decided it, with the promises of now and with others."""

    fromTime: Ms
    toTime: Ms
    jobs: Annotated[int, Doc("that were replayed", example=420)]
    leftOut: Annotated[Mapping[str, int], Doc("jobs that were not, by reason", example={"without GPUs": 12})]
    notes: Annotated[Sequence[str], Doc("what is different, in words", example=["vision has 8 GPUs more"])]
    now: Replayed
    then: Replayed

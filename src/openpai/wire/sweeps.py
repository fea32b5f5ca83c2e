"""Documents of sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from openpai.wire.answers import JobName, Sentence, UserName
from openpai.wire.doc import Doc, Document
from openpai.wire.jobs import JobProgress
from openpai.wire.states import State

_COUNTS = {"RUNNING": 2, "WAITING": 4}


class SubmittedSweep(Document):
    """A sweep whose jobs were all accepted and stored durably."""

    status: Literal[202]
    message: Sentence
    user: UserName
    name: Annotated[str, Doc("name of the sweep", example="train")]
    jobs: Annotated[Sequence[str], Doc("names of its jobs", example=["train-1", "train-2"])]
    warnings: Annotated[Sequence[str], Doc("settings that do not have the expected effect", example=[])]


class SweepJob(Document):
    """A job of a sweep."""

    number: Annotated[int, Doc(example=1)]
    name: JobName
    state: State
    parameters: Annotated[
        Mapping[str, Any] | None, Doc("its combination; null if the job file is private", example={"lr": 0.1})
    ]
    progress: JobProgress | None


class Sweep(Document):
    """A sweep: how many of its jobs are in each state, and all that are not archived."""

    user: UserName
    name: Annotated[str, Doc("name of the sweep", example="train")]
    states: Annotated[Mapping[str, int], Doc("number of jobs by their state", example=_COUNTS)]
    maxRunning: Annotated[int | None, Doc("how many may be queued or run at a time; null for no limit", example=4)]
    jobs: Sequence[SweepJob]

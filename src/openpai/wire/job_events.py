"""Documents of the events of jobs, why they wait, and how to reach their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from openpai.wire.answers import JobId, NullableMs, RoleName, Sentence
from openpai.wire.doc import Doc, Document
from openpai.wire.nodes import Holdings


class Event(Document):
    """Something that happened to a job."""

    uid: Annotated[str, Doc(example="17")]
    frameworkName: JobId
    podUid: Annotated[str, Doc("empty for the job itself", example="0d7c2a52c1f64e2f8d1b6a1f6d8b3c11.0.w.0.0")]
    taskroleName: Annotated[str, Doc("empty for the job itself", example="worker")]
    taskName: Annotated[str, Doc("empty for the job itself", example="worker-0")]
    taskIndex: Annotated[int, Doc("-1 for the job itself", example=0)]
    type: Literal["Normal", "Warning"]
    reason: Annotated[str, Doc(example="TaskStarted")]
    message: Sentence
    firstTimestamp: Annotated[str, Doc(example="2026-01-31T12:00:00.000Z")]
    lastTimestamp: Annotated[str, Doc(example="2026-01-31T12:00:00.000Z")]
    count: Literal[1]
    sourceComponent: Literal["openpai"]
    sourceHost: Annotated[str, Doc(example="node-17")]


class EventList(Document):
    """A job's history."""

    totalCount: Annotated[int, Doc(example=1, minimum=0)]
    data: Sequence[Event]


class Estimate(Document):
    """When a gang may start."""

    earliestTime: NullableMs
    latestTime: NullableMs
    basis: Annotated[str, Doc("what the guess rests on", example="time limits of the jobs ahead")]


class Wait(Document):
    """Why a gang waits."""

    code: Annotated[str, Doc(example="NOT_ENOUGH_FREE")]
    message: Annotated[str, Doc(example="virtual cluster vision uses 16 of its 16 GPUs")]
    unblock: Annotated[str, Doc("what would change that", example="wait for ann~first to end")]
    ahead: Annotated[Sequence[str], Doc("who goes first", example=["ann~first"])]
    position: Annotated[int | None, Doc(example=1)]
    estimate: Estimate | None
    more: Annotated[int, Doc("how many further tasks of the job wait for the same, behind this one", example=0)]


class JobWaits(Document):
    """Why a job waits; nothing where it does not."""

    waits: Sequence[Wait]
    held: Annotated[Holdings, Doc("which jobs hold the room, the largest first")]


class SshAddress(Document):
    """How to reach a task that runs."""

    id: Annotated[str, Doc(example="0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0")]
    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]
    sshIp: Annotated[str, Doc(example="10.0.0.17")]
    sshPort: Annotated[str, Doc(example="30022")]
    command: Annotated[str, Doc(example="ssh -p 30022 root@10.0.0.17")]


class SshAddresses(Document):
    """How to reach the tasks of a job."""

    containers: Sequence[SshAddress]

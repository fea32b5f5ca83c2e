"""Documents of the events of jobs, why they wait, and how to reach their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NotRequired

from openpai.wire.answers import JobId, NullableMs, RoleName, Sentence
from openpai.wire.doc import Doc, Document
from openpai.wire.nodes import Holdings
from openpai.wire.virtual_clusters import Resources


class Event(Document):
    """One event of a job."""

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
    """The events of a job."""

    totalCount: Annotated[int, Doc(example=1, minimum=0)]
    data: Sequence[Event]


class JobChanges(Document):
    """Which jobs changed after a number."""

    next: Annotated[int, Doc("the number to continue after", example=1042, minimum=0)]
    jobs: Annotated[Sequence[str], Doc("jobs that the caller may read", example=["ann~train"])]
    others: Annotated[bool, Doc("whether jobs changed of which the caller may only see the list", example=False)]
    complete: Annotated[bool, Doc("false: more changed than is named here, so everything may have", example=True)]


class Estimate(Document):
    """When a waiting job may start."""

    earliestTime: NullableMs
    latestTime: NullableMs
    basis: Annotated[str, Doc("basis of the estimate", example="time limits of the jobs ahead")]
    judged: Annotated[int, Doc("how many of the latest starts in its virtual cluster were estimated", example=40)]
    within: Annotated[int, Doc("how many of these were within the range", example=34)]


class Lent(Document):
    """Resources of a virtual cluster that jobs of another one use without a guarantee."""

    virtualCluster: Annotated[str, Doc("the one that uses them", example="speech")]
    gpu: Annotated[int, Doc(example=8)]
    cpu: Annotated[int, Doc(example=64)]


class Wait(Document):
    """One reason why a job waits."""

    code: Annotated[str, Doc(example="NOT_ENOUGH_FREE")]
    message: Annotated[str, Doc(example="virtual cluster vision uses 16 of its 16 GPUs")]
    unblock: Annotated[str, Doc("what would change that", example="wait for ann~first to end")]
    ahead: Annotated[Sequence[str], Doc("jobs ahead of it", example=["ann~first"])]
    position: Annotated[int | None, Doc(example=1)]
    estimate: Estimate | None
    more: Annotated[int, Doc("how many more tasks of the job wait for the same reason, after this one", example=0)]
    lent: Annotated[Sequence[Lent], Doc("what others use of its virtual cluster, or of what is reserved for it")]
    lentBackSeconds: Annotated[float, Doc("within which a job that needs it gets that back", example=30)]
    interruptible: Annotated[bool, Doc("whether it may borrow idle resources, and be preempted there", example=False)]


class JobWaits(Document):
    """Why a job waits; empty if it does not."""

    waits: Sequence[Wait]
    held: Annotated[Holdings, Doc("the jobs that hold the resources, largest first")]
    borrowed: Annotated[Resources, Doc("what the job uses without a guarantee, until others need that back")]


class SshAddress(Document):
    """The SSH address of a running task."""

    id: Annotated[str, Doc(example="0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0")]
    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]
    sshIp: Annotated[str, Doc(example="10.0.0.17")]
    sshPort: Annotated[str, Doc(example="30022")]
    command: Annotated[str, Doc(example="ssh -p 30022 root@10.0.0.17")]


class SshGatewayAddress(Document):
    """How an SSH client reaches a running task through the gateway of the platform."""

    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]
    host: Annotated[str, Doc("the host of this request", example="pai.example.org")]
    port: Annotated[int, Doc(example=2222)]
    user: Annotated[str, Doc("the user name for SSH", example="ann+train+worker+0")]
    hostKey: Annotated[str, Doc("as known_hosts has it", example="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHWm3eEJr1bG5G")]
    command: Annotated[str, Doc(example="ssh -p 2222 ann+train+worker+0@pai.example.org")]


class SshAddresses(Document):
    """The SSH addresses of the running tasks of a job."""

    containers: Annotated[Sequence[SshAddress], Doc("of tasks that run an SSH server of their own")]
    gateway: NotRequired[Annotated[Sequence[SshGatewayAddress], Doc("if this server has an SSH gateway")]]

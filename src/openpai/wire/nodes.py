"""Documents of nodes and of what jobs hold on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from openpai.wire.answers import NodeName, NullableMs, VcName
from openpai.wire.audit import AuditEntry
from openpai.wire.doc import Doc, Document
from openpai.wire.scheduler import SettingVersion


class Capacity(Document):
    """Total and used amount of a resource."""

    total: Annotated[int, Doc(example=8)]
    used: Annotated[int, Doc(example=2)]


class Node(Document):
    """A node and how much of it is in use."""

    name: NodeName
    address: Annotated[str, Doc(example="10.0.0.17")]
    healthy: Annotated[bool, Doc(example=True)]
    message: Annotated[str, Doc("what is wrong, if anything", example="")]
    drained: Annotated[bool, Doc(example=False)]
    drainedBecause: Annotated[str, Doc(example="")]
    drainDeadline: Annotated[NullableMs, Doc("when jobs that still run there are put back into the queue")]
    gpuModel: Annotated[str, Doc(example="A100")]
    cpus: Capacity
    memoryMB: Capacity
    gpus: Capacity
    badDevices: Annotated[Sequence[int], Doc("GPUs that no job may get", example=[])]
    badBecause: Annotated[str, Doc("why an administrator marked GPUs as bad", example="")]
    tasks: Annotated[int, Doc("task attempts that hold resources there", example=1)]
    virtualClusters: Sequence[VcName]
    temperatures: Annotated[
        Mapping[str, float], Doc("of GPUs by their number, in Celsius, where measured", example={"0": 61, "1": 58})
    ]
    lemonScore: Annotated[
        float, Doc("how many users' jobs failed lately for its hardware, older failures counting less", example=0)
    ]
    lemonUsers: Annotated[int, Doc("how many users these are", example=0)]


class LemonPolicy(SettingVersion):
    """When a node that fails jobs is drained."""

    threshold: Annotated[float, Doc("the score at which a node is drained; 0 for never", example=2.5)]


class Holding(Document):
    """The resources that one job holds."""

    job: Annotated[str, Doc(example="ann~train")]
    virtualCluster: VcName
    tasks: Annotated[int, Doc(example=1)]
    gpus: Annotated[int, Doc(example=8)]
    cpus: Annotated[int, Doc(example=32)]
    memoryMB: Annotated[int, Doc(example=65_536)]
    devices: Annotated[Sequence[int], Doc("numbers of its GPUs on the node", example=[0, 1])]
    startedTime: NullableMs
    endsTime: Annotated[NullableMs, Doc("when its time limit ends it")]
    ending: Annotated[bool, Doc("whether it is about to end", example=False)]


class OtherHoldings(Document):
    """The sums of jobs that the caller may not see."""

    jobs: Annotated[int, Doc(example=0)]
    tasks: Annotated[int, Doc(example=0)]
    gpus: Annotated[int, Doc(example=0)]
    cpus: Annotated[int, Doc(example=0)]


class Holdings(Document):
    """The resources that jobs hold."""

    jobs: Sequence[Holding]
    others: OtherHoldings


class NodeCheck(Document):
    """What a check of a node found; one that failed keeps new tasks away from the node, or from GPUs of it."""

    name: Annotated[str, Doc(example="disk")]
    result: Annotated[
        Literal["passed", "warning", "failed", "unknown"],
        Doc("`warning` keeps nothing away, `unknown` cannot be checked there", example="passed"),
    ]
    message: Annotated[str, Doc("what was found; empty if all is well", example="")]
    sinceTime: Annotated[NullableMs, Doc("since when it has this result")]
    checkedTime: Annotated[NullableMs, Doc("when it was checked last")]


class NodeDetail(Node, Holdings):
    """A node and the jobs on it."""

    checks: Annotated[Sequence[NodeCheck], Doc("checks before and between tasks")]
    history: Annotated[Sequence[AuditEntry], Doc("changes made to it, newest first; for administrators")]

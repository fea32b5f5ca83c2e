"""Documents of the scheduler: cells and gangs in HiveD's shape, and the settings of the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NotRequired

from openpai.wire.answers import Ms, UserName, VcName
from openpai.wire.doc import Doc, Document, open_ended

CellState = Literal["Free", "Used", "Reserving", "Reserved"]


class CellName(Document):
    """Another cell."""

    cellType: Annotated[str, Doc(example="A100-NODE")]
    cellAddress: Annotated[str, Doc(example="vision/0")]


class Cell(Document):
    """A cell and those inside it, in HiveD's shape."""

    leafCellType: NotRequired[Annotated[str, Doc("of the root of a tree")]]
    cellType: Annotated[str, Doc(example="A100-NODE")]
    cellAddress: Annotated[str, Doc(example="node-17")]
    cellState: CellState
    cellHealthiness: Literal["Healthy", "Bad"]
    cellPriority: Annotated[int, Doc(example=-2)]
    isNodeLevel: NotRequired[bool]
    cellChildren: NotRequired[Annotated[Sequence[Cell], Doc(example=[])]]
    vc: NotRequired[VcName]
    virtualCell: NotRequired[CellName | None]
    physicalCell: NotRequired[CellName | None]


class ClusterCells(Document):
    """All physical cells and all virtual ones."""

    physicalCluster: Sequence[Cell]
    virtualClusters: Mapping[str, Sequence[Cell]]


class GangMetadata(Document):
    """The name of an affinity group."""

    name: Annotated[str, Doc(example="ann~train/default")]


class Preemptor(Document):
    """The affinity groups that preempt another."""

    preemptor: Annotated[str, Doc(example="bob~urgent/default")]


class GangStatus(Document):
    """The placement of an affinity group."""

    vc: VcName
    priority: Annotated[int, Doc(example=100)]
    state: Annotated[str, Doc(example="Allocated")]
    physicalPlacement: Annotated[
        Mapping[str, Sequence[int]], Doc("GPU or CPU numbers by node", example={"node-17": [0, 1]})
    ]
    virtualPlacement: NotRequired[Annotated[Mapping[str, Sequence[str]], Doc("cells of the virtual cluster")]]
    lazyPreemptionStatus: NotRequired[Preemptor | None]


class Gang(Document):
    """An affinity group that holds or has reserved cells."""

    metadata: GangMetadata
    status: GangStatus


class Gangs(Document):
    """The affinity groups that hold or have reserved cells."""

    items: Sequence[Gang]


@open_ended
class Snapshot(Document):
    """The scheduler's whole state; its content may change with every version."""


class SettingVersion(Document):
    """How often a setting was changed, and its last change."""

    version: Annotated[int, Doc(example=1)]
    changedBy: UserName | None
    changedTime: Ms | None


class Fairness(SettingVersion):
    """How fast past use is forgotten."""

    halfLifeHours: Annotated[float | None, Doc(example=72)]


class QueueOrders(SettingVersion):
    """The order of queues, by virtual cluster."""

    orders: Annotated[Mapping[str, Literal["fair", "fifo", "shortest"]], Doc(example={"vision": "shortest"})]
    interruptible: Annotated[
        Mapping[str, bool], Doc("whether jobs may be interrupted that do not say", example={"vision": True})
    ]
    moveJobs: Annotated[
        Mapping[str, bool],
        Doc("whether interruptible jobs may be moved to make whole cells for others", example={"vision": True}),
    ]
    hangMinutes: Annotated[
        Mapping[str, float],
        Doc("after how many quiet minutes jobs count as hanging that do not say", example={"vision": 30}),
    ]

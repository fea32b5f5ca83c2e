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

    leafCellType: NotRequired[Annotated[str, Doc("of a tree's root")]]
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
    """What a gang is called."""

    name: Annotated[str, Doc(example="ann~train/default")]


class Preemptor(Document):
    """Who takes a gang's place."""

    preemptor: Annotated[str, Doc(example="bob~urgent/default")]


class GangStatus(Document):
    """Where a gang is."""

    vc: VcName
    priority: Annotated[int, Doc(example=100)]
    state: Annotated[str, Doc(example="Allocated")]
    physicalPlacement: Annotated[Mapping[str, Sequence[int]], Doc("devices by node", example={"node-17": [0, 1]})]
    virtualPlacement: NotRequired[Annotated[Mapping[str, Sequence[str]], Doc("cells of the virtual cluster")]]
    lazyPreemptionStatus: NotRequired[Preemptor | None]


class Gang(Document):
    """A gang that holds or has claimed devices."""

    metadata: GangMetadata
    status: GangStatus


class Gangs(Document):
    """The gangs that hold or have claimed devices."""

    items: Sequence[Gang]


@open_ended
class Snapshot(Document):
    """The scheduler's whole state; what is in it may change with every version."""


class Fairness(Document):
    """How long what a user has used counts."""

    halfLifeHours: Annotated[float | None, Doc(example=72)]
    version: Annotated[int, Doc(example=1)]
    changedBy: UserName | None
    changedTime: Ms | None


class QueueOrders(Document):
    """Who goes first, by virtual cluster."""

    orders: Annotated[Mapping[str, Literal["fair", "fifo", "shortest"]], Doc(example={"vision": "shortest"})]
    version: Annotated[int, Doc(example=1)]
    changedBy: UserName | None
    changedTime: Ms | None

"""What is told of the machines: nodes, virtual clusters, promises, and how the scheduler thinks."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from openpai.api.openapi.accounting import AuditLine
from openpai.api.openapi.details import NullableMs
from openpai.api.openapi.operations import Answer, Done, Ms, NodeName, Operation, UserName, VcName


class Amounts(Answer):
    """How much of something there is, and how much of that is in use."""

    total: int = Field(examples=[8])
    used: int = Field(examples=[2])


class NodeDocument(Answer):
    """A machine and how much of it is in use."""

    name: NodeName
    address: str = Field(examples=["10.0.0.17"])
    healthy: bool = Field(examples=[True])
    message: str = Field(description="what is wrong, if anything", examples=[""])
    drained: bool = Field(examples=[False])
    drainedBecause: str = Field(examples=[""])
    drainDeadline: NullableMs = Field(description="when jobs that still run there are put back into the queue")
    gpuModel: str = Field(examples=["A100"])
    cpus: Amounts
    memoryMB: Amounts
    gpus: Amounts
    badDevices: list[int] = Field(description="GPUs that nobody is given", examples=[[]])
    badBecause: str = Field(description="why an administrator marked GPUs as bad", examples=[""])
    tasks: int = Field(description="task attempts that hold something there", examples=[1])
    virtualClusters: list[VcName]


class Holding(Answer):
    """What one job holds."""

    job: str = Field(examples=["ann~train"])
    virtualCluster: VcName
    tasks: int = Field(examples=[1])
    gpus: int = Field(examples=[8])
    cpus: int = Field(examples=[32])
    memoryMB: int = Field(examples=[65_536])
    devices: list[int] = Field(description="numbers of its GPUs on the node", examples=[[0, 1]])
    startedTime: NullableMs
    endsTime: NullableMs = Field(description="when its time limit ends it")
    ending: bool = Field(description="whether it is just leaving", examples=[False])


class OtherHoldings(Answer):
    """What jobs hold that the caller may not look at."""

    jobs: int = Field(examples=[0])
    tasks: int = Field(examples=[0])
    gpus: int = Field(examples=[0])
    cpus: int = Field(examples=[0])


class Held(Answer):
    """What jobs hold."""

    jobs: list[Holding]
    others: OtherHoldings


class NodeDetail(NodeDocument, Held):
    """A machine and the jobs on it."""

    history: list[AuditLine] = Field(description="what was done to it, newest first; for administrators")


class Amount(Answer):
    """Resources, under their older names as well."""

    cpu: float = Field(examples=[64])
    memory: float = Field(description="MB", examples=[262_144])
    gpu: float = Field(examples=[8])
    vCores: float = Field(examples=[64])
    GPUs: float = Field(examples=[8])


class VirtualCluster(Answer):
    """What a virtual cluster was promised, and what of that is healthy and in use."""

    capacity: float = Field(description="percent of all that is promised", examples=[25])
    maxCapacity: float = Field(description="the same", examples=[25])
    usedCapacity: float = Field(description="percent of all that is promised", examples=[12.5])
    dedicated: Literal[False]
    resourcesUsed: Amount
    resourcesGuaranteed: Amount
    resourcesTotal: Amount
    resourcesBorrowed: Amount
    skus: dict[str, float] = Field(description="devices by type", examples=[{"A100": 16}])
    runningGangs: int = Field(examples=[2])
    waitingGangs: int = Field(examples=[0])


class NodeGpus(Answer):
    """The GPUs of a node."""

    gpuUsed: int = Field(examples=[2])
    gpuAvailable: int = Field(examples=[6])
    gpuTotal: int = Field(examples=[8])


class Sku(Answer):
    """What one device of a type brings along."""

    cpu: float = Field(examples=[8])
    memory: float = Field(description="MB", examples=[32_768])
    gpu: float = Field(examples=[1])


class ClusterDocument(Answer):
    """What is promised to whom."""

    promises: str | None = Field(examples=["vision: 3 nodes, speech: 8 GPUs"])
    hived: str = Field(description="a configuration in HiveD's format, YAML", examples=["physicalCluster: {}\n"])
    version: int = Field(examples=[3])
    problems: list[str] = Field(description="what cannot be kept at the moment", examples=[[]])
    demoted: list[str] = Field(description="jobs that lost their guarantee by the last change", examples=[[]])


class Promised(Answer):
    """A promise that was changed, and what is promised to whom now."""

    status: int = Field(examples=[201])
    message: str = Field(examples=["virtual cluster vision is promised 3 nodes"])
    promises: str | None = Field(examples=["vision: 3 nodes, speech: 8 GPUs"])
    version: int = Field(examples=[3])
    problems: list[str] = Field(examples=[[]])
    demoted: list[str] = Field(examples=[[]])


class CellName(Answer):
    """Another cell."""

    cellType: str = Field(examples=["A100-NODE"])
    cellAddress: str = Field(examples=["vision/0"])


class Cell(Answer):
    """A cell and those inside it, in HiveD's shape."""

    leafCellType: str = Field("", description="of a tree's root")
    cellType: str = Field(examples=["A100-NODE"])
    cellAddress: str = Field(examples=["node-17"])
    cellState: Literal["Free", "Used", "Reserving", "Reserved"]
    cellHealthiness: Literal["Healthy", "Bad"]
    cellPriority: int = Field(examples=[-2])
    isNodeLevel: bool = Field(False)
    cellChildren: list[Cell] = Field([], examples=[[]])
    vc: VcName = ""
    virtualCell: CellName | None = None
    physicalCell: CellName | None = None


class ClusterCells(Answer):
    """All physical cells and all virtual ones."""

    physicalCluster: list[Cell]
    virtualClusters: dict[str, list[Cell]]


class GangName(Answer):
    """What a gang is called."""

    name: str = Field(examples=["ann~train/default"])


class Preemptor(Answer):
    """Who takes a gang's place."""

    preemptor: str = Field(examples=["bob~urgent/default"])


class GangStatus(Answer):
    """Where a gang is."""

    vc: VcName
    priority: int = Field(examples=[100])
    state: str = Field(examples=["Allocated"])
    physicalPlacement: dict[str, list[int]] = Field(description="devices by node", examples=[{"node-17": [0, 1]}])
    virtualPlacement: dict[str, list[str]] = Field({}, description="cells of the virtual cluster")
    lazyPreemptionStatus: Preemptor | None = None


class Gang(Answer):
    """A gang that holds or has claimed devices."""

    metadata: GangName
    status: GangStatus


class Gangs(Answer):
    """The gangs that hold or have claimed devices."""

    items: list[Gang]


class Snapshot(Answer):
    """The scheduler's whole state; what is in it may change with every version."""

    model_config = ConfigDict(extra="allow", frozen=True)


class FairnessDocument(Answer):
    """How long what a user has used counts."""

    halfLifeHours: float | None = Field(examples=[72])
    version: int = Field(examples=[1])
    changedBy: UserName | None
    changedTime: Ms | None


class OrdersDocument(Answer):
    """Who goes first, by virtual cluster."""

    orders: dict[str, Literal["fair", "fifo", "shortest"]] = Field(examples=[{"vision": "shortest"}])
    version: int = Field(examples=[1])
    changedBy: UserName | None
    changedTime: Ms | None


class Listed(Answer):
    """A list in the shape of Kubernetes."""

    kind: Literal["NodeList", "PodList"]
    apiVersion: Literal["v1"]
    metadata: dict[str, Any] = Field(examples=[{}])
    items: list[dict[str, Any]] = Field(examples=[[]])


_VC: Final = "/api/v2/virtual-clusters"
_I: Final = "/api/v2/scheduler/inspect"
_NO_VC: Final = "NoVirtualClusterError"
_PROMISE: Final = "ConflictSettingError ConflictVcError ReadOnlyVcError"
OPERATIONS: Final[dict[str, Operation]] = {
    "GET /api/v2/nodes": Operation("listNodes", "List nodes", list[NodeDocument]),
    "GET /api/v2/nodes/{name}": Operation("getNode", "Show a node and the jobs on it", NodeDetail, "NoNodeError"),
    "PUT /api/v2/nodes/{name}": Operation(
        "changeNode", "Drain a node or mark its bad devices", NodeDocument, "NoNodeError",
        request={"drained": True, "reason": "a fan is broken"},
    ),
    "DELETE /api/v2/nodes/{name}": Operation("forgetNode", "Forget a node", Done, "NoNodeError ConflictSettingError"),
    f"GET {_VC}": Operation(
        "listVirtualClusters", "List virtual clusters", dict[str, VirtualCluster] | dict[str, NodeGpus]
    ),
    f"GET {_VC}/{{vc}}": Operation("getVirtualCluster", "Show a virtual cluster", VirtualCluster, _NO_VC),
    f"PUT {_VC}/{{vc}}": Operation(
        "promiseVirtualCluster", "Promise a virtual cluster something", Promised, _PROMISE,
        request={"promise": "3 nodes"}
    ),
    f"DELETE {_VC}/{{vc}}": Operation(
        "deleteVirtualCluster", "Remove a virtual cluster", Promised, f"{_NO_VC} {_PROMISE} RemoveRunningVcError"
    ),
    "GET /api/v2/cluster/sku-types": Operation("listSkuTypes", "List kinds of hardware", dict[str, Sku], _NO_VC),
    "GET /api/v2/cluster/config": Operation("getClusterConfig", "Show what is promised", ClusterDocument),
    "PUT /api/v2/cluster/config": Operation(
        "setClusterConfig", "Promise everything anew", ClusterDocument, f"{_PROMISE} RemoveRunningVcError",
        request={"promises": "vision: 3 nodes, speech: 8 GPUs", "version": 3},
    ),
    f"GET {_I}/clusterstatus": Operation("inspectCells", "Show all cells", ClusterCells),
    f"GET {_I}/clusterstatus/physicalcluster": Operation("inspectPhysicalCells", "Show physical cells", list[Cell]),
    f"GET {_I}/clusterstatus/virtualclusters": Operation(
        "inspectVirtualCells", "Show virtual cells", dict[str, list[Cell]]
    ),
    f"GET {_I}/clusterstatus/virtualclusters/{{vc}}": Operation(
        "inspectVirtualCluster", "Show a virtual cluster's cells", list[Cell], _NO_VC
    ),
    f"GET {_I}/affinitygroups": Operation("inspectGangs", "List gangs that hold devices", Gangs),
    f"GET {_I}/affinitygroups/{{name}}": Operation("inspectGang", "Show a gang that holds devices", Gang, "NoJobError"),
    "GET /api/v2/scheduler/snapshot": Operation("getSchedulerSnapshot", "Take a snapshot of the scheduler", Snapshot),
    "GET /api/v2/scheduler/fairness": Operation("getFairness", "Show how past use counts", FairnessDocument),
    "PUT /api/v2/scheduler/fairness": Operation(
        "setFairness", "Set how past use counts", FairnessDocument, "ConflictSettingError",
        request={"halfLifeHours": 72},
    ),
    "GET /api/v2/scheduler/orders": Operation("getOrders", "Show who goes first where", OrdersDocument),
    "PUT /api/v2/scheduler/orders": Operation(
        "setOrders", "Set who goes first where", OrdersDocument, f"{_NO_VC} ConflictSettingError",
        request={"orders": {"vision": "shortest"}},
    ),
    "GET /api/v2/kubernetes/nodes": Operation("listKubernetesNodes", "List nodes as Kubernetes would", Listed),
    "GET /api/v2/kubernetes/pods": Operation("listKubernetesPods", "List tasks as Kubernetes would", Listed),
}  # fmt: skip

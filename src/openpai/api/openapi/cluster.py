"""Operations on nodes, virtual clusters, the cluster's configuration and the scheduler."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, clusters, nodes, scheduler

_VC: Final = "/api/v2/virtual-clusters"
_I: Final = "/api/v2/scheduler/inspect"
_NO_VC: Final = "NoVirtualClusterError"
_PROMISE: Final = "ConflictSettingError ConflictVcError ReadOnlyVcError"
OPERATIONS: Final[dict[str, Operation]] = {
    "GET /api/v2/nodes": Operation("listNodes", "List nodes", list[nodes.Node]),
    "GET /api/v2/nodes/{name}": Operation("getNode", "Show a node and the jobs on it", nodes.NodeDetail, "NoNodeError"),
    "PUT /api/v2/nodes/{name}": Operation(
        "changeNode",
        "Drain a node or mark its bad devices",
        nodes.Node,
        "NoNodeError",
        request={"drained": True, "reason": "a fan is broken"},
    ),
    "DELETE /api/v2/nodes/{name}": Operation(
        "forgetNode", "Forget a node", answers.StatusMessage, "NoNodeError ConflictSettingError"
    ),
    f"GET {_VC}": Operation(
        "listVirtualClusters",
        "List virtual clusters",
        dict[str, clusters.VirtualCluster] | dict[str, clusters.NodeGpus],
    ),
    f"GET {_VC}/{{vc}}": Operation("getVirtualCluster", "Show a virtual cluster", clusters.VirtualCluster, _NO_VC),
    f"PUT {_VC}/{{vc}}": Operation(
        "promiseVirtualCluster",
        "Promise a virtual cluster something",
        clusters.PromiseChange,
        _PROMISE,
        request={"promise": "3 nodes"},
    ),
    f"DELETE {_VC}/{{vc}}": Operation(
        "deleteVirtualCluster",
        "Remove a virtual cluster",
        clusters.PromiseChange,
        f"{_NO_VC} {_PROMISE} RemoveRunningVcError",
    ),
    "GET /api/v2/cluster/sku-types": Operation(
        "listSkuTypes", "List kinds of hardware", dict[str, clusters.Sku], _NO_VC
    ),
    "GET /api/v2/cluster/config": Operation("getClusterConfig", "Show what is promised", clusters.ClusterConfig),
    "PUT /api/v2/cluster/config": Operation(
        "setClusterConfig",
        "Replace all promises",
        clusters.ClusterConfig,
        f"{_PROMISE} RemoveRunningVcError",
        request={"promises": "vision: 3 nodes, speech: 8 GPUs", "version": 3},
    ),
    f"GET {_I}/clusterstatus": Operation("inspectCells", "Show all cells", scheduler.ClusterCells),
    f"GET {_I}/clusterstatus/physicalcluster": Operation(
        "inspectPhysicalCells", "Show physical cells", list[scheduler.Cell]
    ),
    f"GET {_I}/clusterstatus/virtualclusters": Operation(
        "inspectVirtualCells", "Show virtual cells", dict[str, list[scheduler.Cell]]
    ),
    f"GET {_I}/clusterstatus/virtualclusters/{{vc}}": Operation(
        "inspectVirtualCluster", "Show a virtual cluster's cells", list[scheduler.Cell], _NO_VC
    ),
    f"GET {_I}/affinitygroups": Operation("inspectGangs", "List gangs that hold devices", scheduler.Gangs),
    f"GET {_I}/affinitygroups/{{name}}": Operation(
        "inspectGang", "Show a gang that holds devices", scheduler.Gang, "NoJobError"
    ),
    "GET /api/v2/scheduler/snapshot": Operation(
        "getSchedulerSnapshot", "Take a snapshot of the scheduler", scheduler.Snapshot
    ),
    "GET /api/v2/scheduler/fairness": Operation("getFairness", "Show how past use counts", scheduler.Fairness),
    "PUT /api/v2/scheduler/fairness": Operation(
        "setFairness",
        "Set how past use counts",
        scheduler.Fairness,
        "ConflictSettingError",
        request={"halfLifeHours": 72},
    ),
    "GET /api/v2/scheduler/orders": Operation("getOrders", "Show who goes first where", scheduler.QueueOrders),
    "PUT /api/v2/scheduler/orders": Operation(
        "setOrders",
        "Set who goes first where",
        scheduler.QueueOrders,
        f"{_NO_VC} ConflictSettingError",
        request={"orders": {"vision": "shortest"}},
    ),
    "GET /api/v2/kubernetes/nodes": Operation(
        "listKubernetesNodes", "List nodes as Kubernetes would", nodes.KubernetesList
    ),
    "GET /api/v2/kubernetes/pods": Operation(
        "listKubernetesPods", "List tasks as Kubernetes would", nodes.KubernetesList
    ),
}

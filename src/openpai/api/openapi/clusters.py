"""Operations on virtual clusters and the configuration of the cluster."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import clusters

_VC: Final = "/api/v2/virtual-clusters"
_NO_VC: Final = "NoVirtualClusterError"
_PROMISE: Final = "ConflictSettingError ConflictVcError ReadOnlyVcError"
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_VC}": Operation(
        "listVirtualClusters",
        "List virtual clusters",
        dict[str, clusters.VirtualCluster] | dict[str, clusters.NodeGpus],
    ),
    f"GET {_VC}/{{vc}}": Operation("getVirtualCluster", "Show a virtual cluster", clusters.VirtualCluster, _NO_VC),
    f"PUT {_VC}/{{vc}}": Operation(
        "promiseVirtualCluster",
        "Set the guarantee of a virtual cluster",
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
    "GET /api/v2/cluster/sku-types": Operation("listSkuTypes", "List SKU types", dict[str, clusters.Sku], _NO_VC),
    "GET /api/v2/cluster/config": Operation("getClusterConfig", "Show the guarantees", clusters.ClusterConfig),
    "PUT /api/v2/cluster/config": Operation(
        "setClusterConfig",
        "Replace all guarantees",
        clusters.ClusterConfig,
        f"{_PROMISE} RemoveRunningVcError",
        request={"promises": "vision: 3 nodes, speech: 8 GPUs", "version": 3},
    ),
}

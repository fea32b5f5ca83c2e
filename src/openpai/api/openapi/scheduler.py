"""Operations on the scheduler."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import scheduler

_I: Final = "/api/v2/scheduler/inspect"
_NO_VC: Final = "NoVirtualClusterError"
OPERATIONS: Final[dict[str, Operation]] = {
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
    f"GET {_I}/affinitygroups": Operation("inspectGangs", "List running affinity groups", scheduler.Gangs),
    f"GET {_I}/affinitygroups/{{name}}": Operation(
        "inspectGang", "Show a running affinity group", scheduler.Gang, "NoJobError"
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
    "GET /api/v2/scheduler/orders": Operation("getOrders", "Show the order of queues", scheduler.QueueOrders),
    "PUT /api/v2/scheduler/orders": Operation(
        "setOrders",
        "Set the order of queues",
        scheduler.QueueOrders,
        f"{_NO_VC} ConflictSettingError",
        request={"orders": {"vision": "shortest"}},
    ),
}

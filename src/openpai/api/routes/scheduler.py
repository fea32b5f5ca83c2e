"""The scheduler: its cells and gangs in HiveD's shapes, snapshots, fair share, and the order of queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, cast

from fastapi import Path, Request
from pydantic import Field

from openpai.api.answers import Reply, reply
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routes.virtual_clusters import SIZE_MAX
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.ports.cluster_settings import FAIRNESS, ORDERS, Setting
from openpai.protocol.errors import Refused
from openpai.protocol.schema_extras import MINUTES_MAX
from openpai.scheduler.config.editing import no_virtual_cluster
from openpai.scheduler.interface import Inspection
from openpai.scheduler.model import Order
from openpai.scheduler.queue.fairness import HALF_LIFE_MS
from openpai.wire import scheduler as wire
from openpai.wire.scheduler import Cell, ClusterCells, Gangs, QueueOrders, Snapshot

INSPECT: Final = "/api/v2/scheduler/inspect"
router = Router("scheduler", {INSPECT: "/v1/inspect"})
"""The routes that HiveD's own API also has, at its paths."""
_HOUR_MS: Final = 3_600_000
Inspecting = Annotated[Caller, needs("vc.inspect")]


class Fairness(Body, example={"halfLifeHours": 72}):
    """How fast past use is forgotten in fair share."""

    halfLifeHours: float | None = Field(
        ge=0.01, le=24 * 365, description="After this time past use counts half; with null it does not count."
    )
    version: int | None = Field(None, ge=0, le=SIZE_MAX, description="Refuse if the stored version is another.")


class Orders(Body, example={"orders": {"vision": "shortest"}}):
    """The order of jobs of equal priority, by virtual cluster."""

    orders: dict[str, Order] = Field(
        description="`fair` (default): least past use first; `fifo`: oldest first; `shortest`: by expected run time."
    )
    interruptible: dict[str, bool] | None = Field(
        None,
        description="Whether jobs may be interrupted that do not say; unchanged if absent.",
    )
    moveJobs: dict[str, bool] | None = Field(
        None,
        description="Whether interruptible jobs may be moved to make whole cells for others; unchanged if absent.",
    )
    hangMinutes: dict[str, Annotated[float, Field(ge=0, le=MINUTES_MAX, allow_inf_nan=False)]] | None = Field(
        None,
        description="After how many quiet minutes jobs count as hanging that do not say; 0 for never. "
        "Unchanged if absent.",
    )
    version: int | None = Field(None, ge=0, le=SIZE_MAX, description="Refuse if the stored version is another.")


async def _inspected(request: Request) -> Inspection:
    return await context_of(request).services.platform.inspect()


@router.serves(f"GET {INSPECT}/clusterstatus", "Show all cells")
async def inspect_cells(request: Request, caller: Inspecting) -> Reply[ClusterCells]:
    """Return all physical cells and all virtual cells, in HiveD's shape."""
    found = await _inspected(request)
    cells: wire.ClusterCells = {
        "physicalCluster": found["physicalCluster"],
        "virtualClusters": found["virtualClusters"],
    }
    return reply(cells)


@router.serves(f"GET {INSPECT}/clusterstatus/physicalcluster", "Show physical cells")
async def inspect_physical_cells(request: Request, caller: Inspecting) -> Reply[Sequence[Cell]]:
    """Return the physical cells as trees."""
    return reply((await _inspected(request))["physicalCluster"])


@router.serves(f"GET {INSPECT}/clusterstatus/virtualclusters", "Show virtual cells")
@router.serves(f"GET {INSPECT}/clusterstatus/virtualclusters/")
async def inspect_virtual_cells(request: Request, caller: Inspecting) -> Reply[Mapping[str, Sequence[Cell]]]:
    """Return the virtual cells of each virtual cluster as trees."""
    return reply((await _inspected(request))["virtualClusters"])


@router.serves(
    f"GET {INSPECT}/clusterstatus/virtualclusters/{{vc}}", "Show a virtual cluster's cells", "NoVirtualClusterError"
)
async def inspect_virtual_cluster(request: Request, caller: Inspecting, vc: str) -> Reply[Sequence[Cell]]:
    """Return the virtual cells of one virtual cluster."""
    found = (await _inspected(request))["virtualClusters"]
    if vc not in found:
        raise no_virtual_cluster(vc)
    return reply(found[vc])


@router.serves(f"GET {INSPECT}/affinitygroups", "List running affinity groups")
@router.serves(f"GET {INSPECT}/affinitygroups/")
async def inspect_gangs(request: Request, caller: Inspecting) -> Reply[Gangs]:
    """Return the gangs that hold or have reserved cells, with their placements."""
    gangs: wire.Gangs = {"items": (await _inspected(request))["affinityGroups"]}
    return reply(gangs)


# A gang's name has slashes in it.
@router.serves(f"GET {INSPECT}/affinitygroups/{{name:path}}", "Show a running affinity group", "NoJobError")
async def inspect_gang(
    request: Request, caller: Inspecting, name: Annotated[str, Path(min_length=1, max_length=1000)]
) -> Reply[wire.Gang]:
    """Return one gang that holds or has reserved cells."""
    for group in (await _inspected(request))["affinityGroups"]:
        if group["metadata"]["name"] == name:
            return reply(group)
    message = f"no affinity group named {name!r} is running"
    raise Refused("NoJobError", message, f"GET {INSPECT}/affinitygroups lists those that do")


@router.serves("GET /api/v2/scheduler/snapshot", "Take a snapshot of the scheduler")
async def get_scheduler_snapshot(
    request: Request, caller: Annotated[Caller, needs("scheduler.snapshot")]
) -> Reply[Snapshot]:
    """Return the scheduler's whole state, from which `pai scheduler replay` computes decisions again."""
    return reply(cast("Snapshot", await context_of(request).services.platform.scheduler_snapshot()))


@router.serves("GET /api/v2/scheduler/fairness", "Show how past use counts")
async def get_fairness(request: Request, caller: Annotated[Caller, needs("vc.list")]) -> Reply[wire.Fairness]:
    """Return how fast past use is forgotten when users of a virtual cluster are compared."""
    return reply(_fairness(await context_of(request).services.cluster_settings.setting(FAIRNESS)))


@router.serves("PUT /api/v2/scheduler/fairness", "Set how past use counts", "ConflictSettingError", takes=Fairness)
async def set_fairness(request: Request, caller: Annotated[Caller, needs("cluster.change")]) -> Reply[wire.Fairness]:
    """Set how fast past use is forgotten; with null, only priority, rank and age order the queue."""
    body = await read_body(request, Fairness)
    saved = await _save(request, caller, FAIRNESS, {"halfLifeHours": body.halfLifeHours}, body.version)
    return reply(_fairness(saved))


def _fairness(setting: Setting | None) -> wire.Fairness:
    hours = HALF_LIFE_MS / _HOUR_MS if setting is None else setting.body.get("halfLifeHours")
    return {"halfLifeHours": hours, **_version(setting)}


@router.serves("GET /api/v2/scheduler/orders", "Show the order of queues")
async def get_orders(request: Request, caller: Annotated[Caller, needs("vc.list")]) -> Reply[QueueOrders]:
    """Return the order of jobs of equal priority, for the virtual clusters where it was set."""
    return reply(_orders(await context_of(request).services.cluster_settings.setting(ORDERS)))


@router.serves(
    "PUT /api/v2/scheduler/orders",
    "Set the order of queues",
    "NoVirtualClusterError ConflictSettingError",
    takes=Orders,
)
async def set_orders(request: Request, caller: Annotated[Caller, needs("cluster.change")]) -> Reply[QueueOrders]:
    """Set the order of jobs of equal priority for virtual clusters; it takes effect at once."""
    body = await read_body(request, Orders)
    services = context_of(request).services
    known = {view.name for view in await services.platform.virtual_clusters()}
    for name in (*body.orders, *(body.interruptible or ()), *(body.moveJobs or ()), *(body.hangMinutes or ())):
        if name not in known:
            raise no_virtual_cluster(name)
    before = _orders(await services.cluster_settings.setting(ORDERS))
    interruptible = body.interruptible if body.interruptible is not None else before["interruptible"]
    moves = body.moveJobs if body.moveJobs is not None else before["moveJobs"]
    hangs = body.hangMinutes if body.hangMinutes is not None else before["hangMinutes"]
    document = {
        "orders": {name: order.value for name, order in sorted(body.orders.items())},
        "interruptible": dict(sorted(interruptible.items())),
        "moveJobs": dict(sorted(moves.items())),
        "hangMinutes": {name: minutes for name, minutes in sorted(hangs.items()) if minutes},
    }
    return reply(_orders(await _save(request, caller, ORDERS, document, body.version)))


async def _save(request: Request, caller: Caller, name: str, body: Mapping[str, Any], version: int | None) -> Setting:
    services = context_of(request).services
    at_ms = services.clock.now_ms()
    saved = await services.cluster_settings.set_setting(name, body, by=caller.user, at_ms=at_ms, version=version)
    await services.platform.limits_changed()
    return saved


def _orders(setting: Setting | None) -> wire.QueueOrders:
    body = {} if setting is None else setting.body
    interruptible, moves = body.get("interruptible", {}), body.get("moveJobs", {})
    return {
        "orders": body.get("orders", {}), "interruptible": interruptible, "moveJobs": moves,
        "hangMinutes": body.get("hangMinutes", {}), **_version(setting),
    }  # fmt: skip


def _version(setting: Setting | None) -> wire.SettingVersion:
    if setting is None:
        return {"version": 0, "changedBy": None, "changedTime": None}
    return {"version": setting.version, "changedBy": setting.changed_by, "changedTime": setting.changed_at_ms}

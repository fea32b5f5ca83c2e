"""Virtual clusters, SKU types, and the configuration that guarantees cells to virtual clusters."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from openpai.api import job_access
from openpai.api.answers import Reply, done, reply
from openpai.api.bodies import Body, invalid, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import virtual_clusters as shapes
from openpai.api.shapes.nodes import node_gpus
from openpai.orchestrator import vc_groups
from openpai.ports.platform import ClusterConfig
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.protocol.job import VIRTUAL_CLUSTER_NAME
from openpai.scheduler.config.editing import no_virtual_cluster
from openpai.scheduler.model import Order
from openpai.wire import virtual_clusters as wire
from openpai.wire.virtual_clusters import NodeGpus, PromiseChange, Sku, VirtualCluster

router = Router("virtual clusters", written=201)
Changing = Annotated[Caller, needs("vc.change")]
Listing = Annotated[Caller, needs("vc.list")]
VcName = Annotated[str, Path(pattern=VIRTUAL_CLUSTER_NAME)]
_PROMISE: Final = "ConflictSettingError ConflictVcError ReadOnlyVcError"
SIZE_MAX = 2**40
QUEUE_MAX: Final = 500


class Promise(Body, example={"promise": "3 nodes"}):
    """The new guarantee of a virtual cluster."""

    promise: str = Field("", max_length=1000, examples=["3 nodes", "8 GPUs of A100 + 2 nodes"])
    # OpenPAI's portal sends numbers as text.
    vcCapacity: float | str | None = Field(None, description="OpenPAI's percentage; refused.")
    vcMaxCapacity: float | str | None = Field(None, description="OpenPAI's; ignored.")
    description: str | None = Field(None, max_length=1000, description="OpenPAI's; ignored.")
    externalName: str | None = Field(None, max_length=1000, description="OpenPAI's; ignored.")


class Status(Body):
    """Whether a virtual cluster takes jobs."""

    vcStatus: Literal["stopped", "running"]


class Config(Body, example={"promises": "vision: 3 nodes, speech: 8 GPUs", "version": 3}):
    """The guarantees of all virtual clusters, in words or in HiveD's format."""

    promises: str | None = Field(None, max_length=100_000, examples=["vision: 3 nodes, speech: 8 GPUs"])
    hived: str | None = Field(None, description="A whole configuration in HiveD's format, as YAML.")
    version: int | None = Field(None, ge=0, le=SIZE_MAX, description="Refuse if the stored version is another.")


@router.serves("GET /api/v2/virtual-clusters", "List virtual clusters")
async def list_virtual_clusters(
    request: Request,
    caller: Listing,
    nodes: Annotated[str | None, Query(description="With any value: return the GPUs of each node instead.")] = None,
) -> Reply[dict[str, VirtualCluster] | dict[str, NodeGpus]]:
    """Return every virtual cluster by name, with its guaranteed, healthy and used resources."""
    platform = context_of(request).services.platform
    if nodes is not None:
        return reply({view.name: node_gpus(view) for view in await platform.nodes()})
    return reply(shapes.virtual_clusters(await platform.virtual_clusters()))


@router.serves("GET /api/v2/virtual-clusters/{vc}", "Show a virtual cluster", "NoVirtualClusterError")
async def get_virtual_cluster(request: Request, caller: Listing, vc: VcName) -> Reply[VirtualCluster]:
    """Return one virtual cluster."""
    found = shapes.virtual_clusters(await context_of(request).services.platform.virtual_clusters())
    if vc not in found:
        raise no_virtual_cluster(vc)
    return reply(found[vc])


@router.serves(
    "GET /api/v2/virtual-clusters/{vc}/queue", "Show the queue of a virtual cluster", "NoVirtualClusterError"
)
async def get_queue(
    request: Request,
    caller: Listing,
    vc: VcName,
    limit: Annotated[int, Query(ge=1, le=QUEUE_MAX, description="How many jobs at most, from the front.")] = 100,
) -> Reply[wire.VcQueue]:
    """Return the jobs that wait in a virtual cluster, in the order in which they are considered, and why they wait.

    A job that fits may start before jobs ahead of it that do not. Names are left out of jobs that the caller may not
    see.
    """
    platform = context_of(request).services.platform
    orders = {view.name: view.order for view in await platform.virtual_clusters()}
    found, total = await platform.queue(vc, limit)
    jobs = [shapes.queued_job(each, *job_access.rights_in_queue(caller, each)) for each in found]
    return reply(wire.VcQueue(order=orders.get(vc, Order.FAIR).value, totalCount=total, jobs=jobs))


@router.serves("PUT /api/v2/virtual-clusters/{vc}", "Set the guarantee of a virtual cluster", _PROMISE, takes=Promise)
async def promise_virtual_cluster(request: Request, caller: Changing, vc: VcName) -> Reply[PromiseChange]:
    """Set the guarantee of a virtual cluster, which is created if it is new; no running job is stopped."""
    wanted = (await read_body(request, Promise)).promise.strip()
    if not wanted:
        message = "a virtual cluster is guaranteed nodes or GPUs, not a percentage"
        raise InvalidParameters(message, 'send {"promise": "3 nodes"} or {"promise": "8 GPUs of A100"}')
    services = context_of(request).services
    config = await vc_groups.promise(services.platform, services.users, vc, wanted, caller.user)
    return _changed(f"virtual cluster {vc} is promised {wanted}", config, 201)


@router.serves(
    "POST /api/v2/virtual-clusters/{vc}/preview",
    "Preview the guarantee of a virtual cluster",
    f"NoVirtualClusterError {_PROMISE} RemoveRunningVcError",
    status=200,
    takes=Promise,
)
async def preview_virtual_cluster(
    request: Request, caller: Annotated[Caller, needs("vc.preview")], vc: VcName
) -> Reply[wire.PromisePreview]:
    """Return what setting this guarantee would do, or with an empty one removing it; changes nothing.

    It names who would gain and lose and which running jobs would lose their guarantee, and refuses what the change
    itself would be refused for.
    """
    wanted = (await read_body(request, Promise)).promise.strip()
    platform = context_of(request).services.platform
    return reply(shapes.promise_preview(await platform.preview_promise(vc, wanted or None)))


@router.serves(
    "DELETE /api/v2/virtual-clusters/{vc}",
    "Remove a virtual cluster",
    f"NoVirtualClusterError {_PROMISE} RemoveRunningVcError",
)
async def delete_virtual_cluster(request: Request, caller: Changing, vc: VcName) -> Reply[PromiseChange]:
    """Remove a virtual cluster that no job uses; its guarantee goes to `default`."""
    context = context_of(request)
    config = await vc_groups.remove(context.services.platform, context.services.users, vc, caller.user)
    context.sessions.forget_all()
    return _changed(f"virtual cluster {vc} is removed", config)


# OpenPAI documents this route and never had it; setting `running` succeeds.
@router.serves("PUT /api/v2/virtual-clusters/{vc}/status")
async def set_status(request: Request, caller: Changing, vc: VcName) -> Response:
    """Accept `running`, the state of every virtual cluster; refuse any other."""
    wanted = (await read_body(request, Status)).vcStatus
    views = await context_of(request).services.platform.virtual_clusters()
    if vc not in shapes.virtual_clusters(views):
        raise no_virtual_cluster(vc)
    if wanted == "stopped":
        message = "virtual clusters are not stopped and started"
        raise Refused(
            "NotImplementedError", message, "reduce its guarantee, or revoke it from the groups that it is granted to"
        )
    return done(f"virtual cluster {vc} is running", 201)


@router.serves("GET /api/v2/cluster/sku-types", "List SKU types", "NoVirtualClusterError")
async def list_sku_types(
    request: Request,
    caller: Listing,
    vc: Annotated[
        str,
        Query(pattern=f"{VIRTUAL_CLUSTER_NAME}|^$", description="Only types that this virtual cluster is guaranteed."),
    ] = "",
) -> Reply[dict[str, Sku]]:
    """Return the SKU types, with the CPUs and memory that belong to one GPU of each."""
    return reply(shapes.sku_types(await context_of(request).services.platform.sku_types(vc or None)))


# OpenPAI's JavaScript client uses this path.
@router.serves("GET /api/v2/virtual-clusters/{vc}/sku-types")
async def sku_types_of(request: Request, caller: Listing, vc: VcName) -> Response:
    """Return the SKU types that a virtual cluster is guaranteed."""
    return await list_sku_types(request, caller, vc)


@router.serves("GET /api/v2/cluster/config", "Show the guarantees")
async def get_cluster_config(
    request: Request, caller: Annotated[Caller, needs("cluster.read")]
) -> Reply[wire.ClusterConfig]:
    """Return the guarantees as written, the scheduler's configuration, and the guarantees it cannot keep now."""
    return reply(shapes.cluster_config(await context_of(request).services.platform.cluster_config()))


@router.serves(
    "PUT /api/v2/cluster/config", "Replace all guarantees", f"{_PROMISE} RemoveRunningVcError", status=200, takes=Config
)
async def set_cluster_config(
    request: Request, caller: Annotated[Caller, needs("cluster.change")]
) -> Reply[wire.ClusterConfig]:
    """Replace all guarantees at once; jobs continue to run, and the answer names those that lost their guarantee."""
    body = await read_body(request, Config)
    if (body.promises is None) == (body.hived is None):
        raise invalid("give either `promises` or `hived`")
    context = context_of(request)
    config = await vc_groups.configure(
        context.services.platform,
        context.services.users,
        promises=body.promises,
        hived=body.hived,
        version=body.version,
        by=caller.user,
    )
    context.sessions.forget_all()
    return reply(shapes.cluster_config(config))


def _changed(message: str, config: ClusterConfig, status: int = 200) -> Reply[PromiseChange]:
    answer = PromiseChange(
        status=status,
        message=message,
        promises=config.promises,
        version=config.version,
        problems=config.problems,
        demoted=config.demoted,
    )
    return reply(answer, status)

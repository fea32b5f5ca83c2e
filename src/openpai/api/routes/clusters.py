"""Virtual clusters, SKU types, and the configuration that guarantees cells to virtual clusters."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from openpai.api.answers import done, reply
from openpai.api.bodies import Body, invalid, read_body, takes
from openpai.api.context import context_of, needs
from openpai.api.sessions import Caller
from openpai.api.shapes import clusters as shapes
from openpai.api.shapes.nodes import node_gpus
from openpai.orchestrator import vc_groups
from openpai.ports.platform import ClusterConfig
from openpai.protocol.errors import Refused
from openpai.protocol.job import VIRTUAL_CLUSTER_NAME
from openpai.wire.clusters import PromiseChange

router = APIRouter(tags=["virtual clusters"])
VcName = Annotated[str, Path(pattern=VIRTUAL_CLUSTER_NAME)]
SIZE_MAX = 2**40


class Promise(Body):
    """The new guarantee of a virtual cluster."""

    promise: str = Field("", max_length=1000, examples=["3 nodes", "8 GPUs of A100 + 2 nodes"])
    # OpenPAI's portal sends numbers as text.
    vcCapacity: float | str | None = Field(None, description="OpenPAI's percentage; refused.")  # noqa: N815
    vcMaxCapacity: float | str | None = Field(None, description="OpenPAI's; ignored.")  # noqa: N815
    description: str | None = Field(None, max_length=1000, description="OpenPAI's; ignored.")
    externalName: str | None = Field(None, max_length=1000, description="OpenPAI's; ignored.")  # noqa: N815


class Status(Body):
    """Whether a virtual cluster takes jobs."""

    vcStatus: Literal["stopped", "running"]  # noqa: N815


class Config(Body):
    """The guarantees of all virtual clusters, in words or in HiveD's format."""

    promises: str | None = Field(None, max_length=100_000, examples=["vision: 3 nodes, speech: 8 GPUs"])
    hived: str | None = Field(None, description="A whole configuration in HiveD's format, as YAML.")
    version: int | None = Field(None, ge=0, le=SIZE_MAX, description="Refuse if the stored version is another.")


@router.get("/api/v2/virtual-clusters")
async def virtual_clusters(
    request: Request,
    caller: Annotated[Caller, needs("vc.list")],
    nodes: Annotated[str | None, Query(description="With any value: return the GPUs of each node instead.")] = None,
) -> Response:
    """Return every virtual cluster by name, with its guaranteed, healthy and used resources."""
    platform = context_of(request).services.platform
    if nodes is not None:
        return reply({view.name: node_gpus(view) for view in await platform.nodes()})
    return reply(shapes.virtual_clusters(await platform.virtual_clusters()))


@router.get("/api/v2/virtual-clusters/{vc}")
async def virtual_cluster(request: Request, caller: Annotated[Caller, needs("vc.list")], vc: VcName) -> Response:
    """Return one virtual cluster."""
    found = shapes.virtual_clusters(await context_of(request).services.platform.virtual_clusters())
    if vc not in found:
        raise no_virtual_cluster(vc)
    return reply(found[vc])


def no_virtual_cluster(name: str) -> Refused:
    """Return the error for a virtual cluster that does not exist."""
    message = f"there is no virtual cluster {name!r}"
    return Refused("NoVirtualClusterError", message, "`pai vc list` shows the virtual clusters")


@router.put("/api/v2/virtual-clusters/{vc}", status_code=201, openapi_extra=takes(Promise))
async def promise(request: Request, caller: Annotated[Caller, needs("vc.change")], vc: VcName) -> Response:
    """Set the guarantee of a virtual cluster, which is created if it is new; no running job is stopped."""
    wanted = (await read_body(request, Promise)).promise.strip()
    if not wanted:
        message = "a virtual cluster is guaranteed nodes or GPUs, not a percentage"
        raise Refused("InvalidParametersError", message, 'send {"promise": "3 nodes"} or {"promise": "8 GPUs of A100"}')
    services = context_of(request).services
    config = await vc_groups.promise(services.platform, services.users, vc, wanted, caller.user)
    return _changed(f"virtual cluster {vc} is promised {wanted}", config, 201)


@router.delete("/api/v2/virtual-clusters/{vc}")
async def remove(request: Request, caller: Annotated[Caller, needs("vc.change")], vc: VcName) -> Response:
    """Remove a virtual cluster that no job uses; its guarantee goes to `default`."""
    context = context_of(request)
    config = await vc_groups.remove(context.services.platform, context.services.users, vc, caller.user)
    context.sessions.forget_all()
    return _changed(f"virtual cluster {vc} is removed", config)


# OpenPAI documents this route and never had it; setting `running` succeeds.
@router.put("/api/v2/virtual-clusters/{vc}/status", status_code=201, include_in_schema=False)
async def set_status(request: Request, caller: Annotated[Caller, needs("vc.change")], vc: VcName) -> Response:
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


@router.get("/api/v2/cluster/sku-types")
async def sku_types(
    request: Request,
    caller: Annotated[Caller, needs("vc.list")],
    vc: Annotated[
        str,
        Query(pattern=f"{VIRTUAL_CLUSTER_NAME}|^$", description="Only types that this virtual cluster is guaranteed."),
    ] = "",
) -> Response:
    """Return the SKU types, with the CPUs and memory that belong to one GPU of each."""
    return reply(shapes.sku_types(await context_of(request).services.platform.sku_types(vc or None)))


# OpenPAI's JavaScript client uses this path.
@router.get("/api/v2/virtual-clusters/{vc}/sku-types", include_in_schema=False)
async def sku_types_of(request: Request, caller: Annotated[Caller, needs("vc.list")], vc: VcName) -> Response:
    """Return the SKU types that a virtual cluster is guaranteed."""
    return await sku_types(request, caller, vc)


@router.get("/api/v2/cluster/config")
async def cluster_config(request: Request, caller: Annotated[Caller, needs("cluster.read")]) -> Response:
    """Return the guarantees as written, the scheduler's configuration, and the guarantees it cannot keep now."""
    return reply(shapes.cluster_config(await context_of(request).services.platform.cluster_config()))


@router.put("/api/v2/cluster/config", openapi_extra=takes(Config))
async def configure(request: Request, caller: Annotated[Caller, needs("cluster.change")]) -> Response:
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


def _changed(message: str, config: ClusterConfig, status: int = 200) -> Response:
    answer = PromiseChange(
        status=status,
        message=message,
        promises=config.promises,
        version=config.version,
        problems=config.problems,
        demoted=config.demoted,
    )
    return reply(answer, status)

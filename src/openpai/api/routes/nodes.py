"""The machines: looking at them, draining them, marking their devices as bad, forgetting those that are gone."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from openpai.api.answers import done, reply
from openpai.api.bodies import Body, invalid, read_body, takes
from openpai.api.context import desk, doing
from openpai.api.sessions import Caller
from openpai.api.shapes import nodes as shapes
from openpai.ports.platform import NodeWish

router = APIRouter(tags=["cluster"])
NodeName = Annotated[str, Path(min_length=1, max_length=253, pattern=r"^[\w.:-]+$")]


class NodeChange(Body):
    """How a node shall be; what is left away stays as it is."""

    drained: bool | None = Field(None, description="Whether it takes nothing new; what runs there runs on.")
    badDevices: list[Annotated[int, Field(ge=0, le=1023)]] | None = Field(  # noqa: N815
        None, max_length=1024, description="GPUs that nobody is to be given, by number; replaces those marked before."
    )
    reason: str = Field("", max_length=1000, description="Why, for those who wonder.")


@router.get("/api/v2/nodes")
async def nodes(request: Request, caller: Annotated[Caller, doing("node.list")]) -> Response:
    """Return every machine and how much of it is in use."""
    return reply([shapes.node(view) for view in await desk(request).services.platform.nodes()])


@router.put("/api/v2/nodes/{name}", openapi_extra=takes(NodeChange))
async def change_node(request: Request, caller: Annotated[Caller, doing("node.change")], name: NodeName) -> Response:
    """Drain a node or give it back, and mark its bad devices; nothing that runs there is stopped."""
    wish = await read_body(request, NodeChange)
    if wish.drained is None and wish.badDevices is None:
        raise invalid("nothing to change: say `drained` or `badDevices`")
    bad = None if wish.badDevices is None else frozenset(wish.badDevices)
    change = NodeWish(wish.drained, bad, wish.reason)
    return reply(shapes.node(await desk(request).services.platform.change_node(name, change, caller.user)))


@router.delete("/api/v2/nodes/{name}")
async def forget_node(request: Request, caller: Annotated[Caller, doing("node.change")], name: NodeName) -> Response:
    """Forget a node that is gone for good, so that nothing is promised on it any more."""
    await desk(request).services.platform.forget_node(name, caller.user)
    return done(f"node {name} is forgotten")

"""Nodes and running tasks in the shapes of Kubernetes, for tools that read them from OpenPAI."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from openpai.api.answers import JSON, encoded_list, encoded_with, reply
from openpai.api.bodies import invalid
from openpai.api.context import context_of, needs
from openpai.api.sessions import Caller
from openpai.api.shapes import kubernetes as shapes

router = APIRouter(tags=["cluster"])
_PART: Final = re.compile(r"\s*([\w./-]{1,255})\s*(?:==?\s*([\w.~-]{0,511})\s*)?")


@router.get("/api/v2/kubernetes/nodes")
@router.get("/api/v1/kubernetes/nodes", include_in_schema=False)
async def nodes(request: Request, caller: Annotated[Caller, needs("cluster.read")]) -> Response:
    """Return every node as a Kubernetes NodeList."""
    return reply(shapes.node_list(await context_of(request).services.platform.nodes()))


@router.get("/api/v2/kubernetes/pods")
@router.get("/api/v1/kubernetes/pods", include_in_schema=False)
async def pods(
    request: Request,
    caller: Annotated[Caller, needs("cluster.read")],
    namespace: Annotated[str, Query(max_length=253, description="`default` holds all pods")] = "",
    selector: Annotated[
        str,
        Query(
            alias="labelSelector",
            max_length=4000,
            description="comma list of `label=value` or `label`; all must match",
        ),
    ] = "",
) -> Response:
    """Return every task attempt that holds resources as a Kubernetes PodList."""
    running = await context_of(request).services.jobs.running()
    wanted = _labels(selector)
    if namespace not in ("", shapes.NAMESPACE):
        running = ()
    items = await encoded_list(running, lambda row: shapes.pod(row, wanted))
    return Response(encoded_with(shapes.POD_LIST, "items", items), media_type=JSON)


def _labels(selector: str) -> dict[str, str | None]:
    wanted: dict[str, str | None] = {}
    for part in filter(str.strip, selector.split(",")):
        found = _PART.fullmatch(part)
        if found is None:
            raise invalid(f"labelSelector: {part.strip()!r} is neither label=value nor label")
        wanted[found[1]] = found[2]
    return wanted

"""Nodes and running tasks in the shapes of Kubernetes, for tools that read them from OpenPAI."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import Query, Request

from openpai.api.answers import LongReply, Reply, parts_of_list, parts_with, reply
from openpai.api.bodies import invalid
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import kubernetes as shapes
from openpai.wire.kubernetes import KubernetesList

router = Router("cluster", {"/api/v2/kubernetes": "/api/v1/kubernetes"})
_PART: Final = re.compile(r"\s*([\w./-]{1,255})\s*(?:==?\s*([\w.~-]{0,511})\s*)?")


@router.serves("GET /api/v2/kubernetes/nodes", "List nodes as Kubernetes would")
async def list_kubernetes_nodes(
    request: Request, caller: Annotated[Caller, needs("cluster.read")]
) -> Reply[KubernetesList]:
    """Return every node as a Kubernetes NodeList."""
    return reply(shapes.node_list(await context_of(request).services.platform.nodes()))


@router.serves("GET /api/v2/kubernetes/pods", "List tasks as Kubernetes would")
async def list_kubernetes_pods(
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
) -> Reply[KubernetesList]:
    """Return every task attempt that holds resources as a Kubernetes PodList."""
    running = await context_of(request).services.jobs.running()
    wanted = _labels(selector)
    if namespace not in ("", shapes.NAMESPACE):
        running = ()
    items = await parts_of_list(running, lambda row: shapes.pod(row, wanted))
    return LongReply(parts_with(shapes.POD_LIST, "items", [b"".join(items)]))


def _labels(selector: str) -> dict[str, str | None]:
    wanted: dict[str, str | None] = {}
    for part in filter(str.strip, selector.split(",")):
        found = _PART.fullmatch(part)
        if found is None:
            raise invalid(f"labelSelector: {part.strip()!r} is neither label=value nor label")
        wanted[found[1]] = found[2]
    return wanted

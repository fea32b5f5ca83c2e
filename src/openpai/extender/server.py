"""HiveD's HTTP API: the questions of kube-scheduler, and the inspect API.

Filter and bind answer 200 with an `Error` field, the others 4xx and 5xx with a sentence, as HiveD does. Keys are
accepted in any case, since kube-schedulers of different ages write them differently.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from openpai.extender.scheduling import Answer, Blocked, Decided, Extender, Waiting
from openpai.extender.service import Service
from openpai.extender.serving import Answering
from openpai.protocol.errors import PaiError, Refused, Unavailable
from openpai.scheduler.cells.inspection import affinity_group, cluster_status, physical_cells, virtual_clusters

NAME: Final = "hivedscheduler"
BODY_MAX: Final = 128 * 2**20
"""Names of nodes take little; whole nodes, which an extender without a cache of its own is sent, take 20 KB each."""
PODS_NAMED: Final = 3
PATHS: Final = (
    "/",
    "/v1/extender/filter",
    "/v1/extender/bind",
    "/v1/extender/preempt",
    "/v1/inspect/affinitygroups/",
    "/v1/inspect/clusterstatus",
    "/v1/inspect/clusterstatus/physicalcluster",
    "/v1/inspect/clusterstatus/virtualclusters/",
)
log: Final = structlog.get_logger(__name__)

Handler = Callable[[Request], Awaitable[Response]]


def application(answering: Answering) -> Starlette:
    """Return the HTTP application of an extender."""
    api = _Api(answering)
    extender, inspect = "/v1/extender", "/v1/inspect"
    return Starlette(
        routes=[
            Route("/", api.paths),
            Route("/healthz", api.healthz),
            Route(f"{extender}/filter", _guarded(api.filter, in_body=True), methods=["POST"]),
            Route(f"{extender}/bind", _guarded(api.bind, in_body=True), methods=["POST"]),
            Route(f"{extender}/preempt", _guarded(api.preempt), methods=["POST"]),
            Route(f"{inspect}/affinitygroups/{{name:path}}", _guarded(api.affinity_groups)),
            Route(f"{inspect}/clusterstatus", _guarded(api.cluster_status)),
            Route(f"{inspect}/clusterstatus/physicalcluster", _guarded(api.physical_cluster)),
            Route(f"{inspect}/clusterstatus/virtualclusters/{{name:path}}", _guarded(api.virtual_clusters)),
        ]
    )


def _guarded(handler: Handler, *, in_body: bool = False) -> Handler:
    """Return a handler that answers errors as HiveD does."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            raise
        except PaiError as error:
            status = 400 if isinstance(error, Refused) else 500
            message = f"{NAME}: {error.message}; {error.advice}"
        except Exception as error:
            log.exception("a request failed; this is a bug, please report it", path=request.url.path)
            status, message = 500, f"{NAME}: this is a bug: {type(error).__name__}: {error}"
        return JSONResponse({"Error": message}) if in_body else JSONResponse(message, status)

    return answer


class _Api:
    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    @property
    def _service(self) -> Service:
        return self._answering.now()

    async def paths(self, _request: Request) -> Response:
        return JSONResponse({"paths": PATHS})

    async def healthz(self, _request: Request) -> Response:
        try:
            unreadable = self._service.extender.unreadable
        except Unavailable as error:
            # Not ready, so that a Service sends no questions here.
            return JSONResponse({"status": "standby", "message": error.message}, 503)
        return JSONResponse({"status": "ok", "unreadablePods": unreadable})

    async def filter(self, request: Request) -> Response:
        body = await _body(request)
        nodes = body.get("nodes")
        items = {item["metadata"]["name"]: item for item in nodes.get("items") or ()} if nodes else {}
        names = body.get("nodenames")
        suggested = frozenset(items if names is None else names)
        answer = await self._service.filter(_uid_of(body), suggested)
        found: dict[str, Any] = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "Error": ""}
        if not isinstance(answer, Decided):
            found["FailedNodes"] = _failed(answer)
        elif names is None and nodes:
            chosen = [items[answer.node]] if answer.node in items else []
            found["Nodes"] = {"metadata": {}, "items": chosen}
        else:
            found["NodeNames"] = [answer.node]
        return JSONResponse(found)

    async def bind(self, request: Request) -> Response:
        body = await _body(request)
        keys = ("podname", "podnamespace", "poduid", "node")
        if not all(isinstance(body.get(key), str) and body[key] for key in keys):
            message = "a binding needs PodName, PodNamespace, PodUID and Node"
            raise Refused("InvalidParametersError", message, "send it as kube-scheduler does")
        await self._service.bind(body["poduid"], body["node"])
        return JSONResponse({"Error": ""})

    async def preempt(self, request: Request) -> Response:
        body = await _body(request)
        nodes = body.get("nodenametometavictims") or body.get("nodenametovictims") or {}
        answer = await self._service.preempt(_uid_of(body), frozenset(nodes))
        if isinstance(answer, Waiting):
            return JSONResponse({"NodeNameToMetaVictims": None})
        victims = {
            node: {"Pods": [{"UID": pod.uid} for pod in pods], "NumPDBViolations": 0}
            for node, pods in answer.victims.items()
        }
        return JSONResponse({"NodeNameToMetaVictims": victims})

    async def affinity_groups(self, request: Request) -> Response:
        name = request.path_params["name"]
        extender = self._service.extender
        return JSONResponse(group_document(extender, name) if name else group_list(extender))

    async def cluster_status(self, _request: Request) -> Response:
        return JSONResponse(cluster_status(self._service.extender.core.cluster))

    async def physical_cluster(self, _request: Request) -> Response:
        return JSONResponse(physical_cells(self._service.extender.core.cluster))

    async def virtual_clusters(self, request: Request) -> Response:
        found, name = virtual_clusters(self._service.extender.core.cluster), request.path_params["name"]
        if name and name not in found:
            message = f"there is no virtual cluster {name}; there are {', '.join(found)}"
            raise Refused("NoVirtualClusterError", message, "name one of them")
        return JSONResponse(found[name] if name else found)


def _failed(answer: Answer) -> dict[str, str]:
    """Return why nodes do not do: those where preemption would help, else a made-up one with the reason to wait."""
    if isinstance(answer, Waiting):
        return {NAME: f"Pod is waiting for preemptible or free resource to appear: {answer.reason}"}
    assert isinstance(answer, Blocked)  # noqa: S101
    if not answer.victims:
        return {
            NAME: "Pod is waiting for preemptible or free resource to appear: the pods to preempt are not bound yet"
        }
    failed = {}
    for node, pods in answer.victims.items():
        named = ", ".join(f"{pod.uid}({pod.key})" for pod in pods[:PODS_NAMED])
        more = f" and {len(pods) - PODS_NAMED} more" if len(pods) > PODS_NAMED else ""
        failed[node] = f"node({node}) has preemptible Pods: {named}{more}"
    return failed


async def _body(request: Request) -> dict[str, Any]:
    """Return the body of a request with its keys in lower case."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > BODY_MAX:
            raise Refused("RequestTooLargeError", f"the request is larger than {BODY_MAX} bytes", "send less")
        chunks.append(chunk)
    try:
        found = json.loads(b"".join(chunks))
    except (ValueError, RecursionError) as error:
        raise Refused("InvalidParametersError", f"the request is not JSON: {error}", "send JSON") from error
    if not isinstance(found, Mapping):
        raise Refused("InvalidParametersError", "the request is not a JSON object", "send what kube-scheduler sends")
    return {str(key).lower(): value for key, value in found.items()}


def _uid_of(body: Mapping[str, Any]) -> str:
    pod = body.get("pod")
    uid = pod.get("metadata", {}).get("uid") if isinstance(pod, Mapping) else None
    if not isinstance(uid, str):
        raise Refused("InvalidParametersError", "the request has no Pod with a uid", "send what kube-scheduler sends")
    return uid


def group_document(extender: Extender, name: str) -> dict[str, Any]:
    """Return an affinity group that has cells or has reserved them; refuse a name that no group has."""
    record = extender.core.cluster.gangs.get(name)
    if record is None:
        message = f"there is no affinity group {name} that has cells or has reserved them"
        raise Refused("InvalidParametersError", message, "GET /v1/inspect/affinitygroups/ lists those that do")
    with extender.core.cluster.committed():
        found: dict[str, Any] = dict(affinity_group(extender.core.cluster, record))
    group = extender.groups.get(name)
    if group is not None and group.pods:
        found["status"]["allocatedPods"] = list(group.pods.values())
    if group is not None and group.preempting:
        found["status"]["preemptingPods"] = list(group.preempting)
    return found


def group_list(extender: Extender) -> dict[str, Any]:
    """Return all affinity groups by name; HiveD writes null where there are none."""
    names = sorted(extender.core.cluster.gangs)
    return {"items": [group_document(extender, name) for name in names] or None}

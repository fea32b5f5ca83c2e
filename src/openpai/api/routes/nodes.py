"""Nodes: list, show, drain, mark bad GPUs, and forget nodes that no longer exist."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Request
from pydantic import Field

from openpai.access.deciding import refusal
from openpai.access.model import NOTHING
from openpai.api.answers import Done, Reply, done, reply
from openpai.api.bodies import Body, invalid, read_body
from openpai.api.context import context_of, needs
from openpai.api.job_access import split_by_visibility
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import audit
from openpai.api.shapes import nodes as shapes
from openpai.lifecycle.lemons import THRESHOLD, THRESHOLD_MAX
from openpai.ports.cluster_settings import LEMON_POLICY, Setting
from openpai.ports.metrics import Metrics
from openpai.ports.platform import NodeChange
from openpai.ports.usage import AuditFilter
from openpai.protocol.errors import Refused
from openpai.wire.nodes import LemonPolicy, Node, NodeDetail

router = Router("cluster")
HISTORY_MAX: Final = 20
NodeName = Annotated[str, Path(min_length=1, max_length=253, pattern=r"^[\w.:-]+$")]


class NodeBody(Body, example={"drained": True, "reason": "a fan is broken"}):
    """The new state of a node; omitted fields do not change."""

    drained: bool | None = Field(None, description="Whether no new task is placed on it; running ones continue.")
    badDevices: list[Annotated[int, Field(ge=0, le=1023)]] | None = Field(
        None, max_length=1024, description="Numbers of GPUs that no job may get; replaces those marked before."
    )
    deadlineSeconds: int | None = Field(
        None,
        ge=0,
        le=366 * 86_400,
        description="With `drained`: how long jobs may continue; then they are put back into the queue.",
    )
    reason: str = Field("", max_length=1000, description="A reason for users.")


class LemonBody(Body, example={"threshold": 2.5}):
    """When a node counts as a lemon."""

    threshold: float = Field(
        ge=0, le=THRESHOLD_MAX, allow_inf_nan=False, description="The score at which a node is drained; 0 for never."
    )
    version: int | None = Field(None, ge=0, le=2**31 - 1, description="Refuse if the stored version is another.")


@router.serves("GET /api/v2/lemons", "Show when nodes are drained for their failures")
async def get_lemons(request: Request, caller: Annotated[Caller, needs("node.list")]) -> Reply[LemonPolicy]:
    """Return the score at which a node that fails the jobs of several users is drained; 0 for never."""
    return reply(_lemons(await context_of(request).services.cluster_settings.setting(LEMON_POLICY)))


@router.serves(
    "PUT /api/v2/lemons", "Set when nodes are drained for their failures", "ConflictSettingError", takes=LemonBody
)
async def set_lemons(request: Request, caller: Annotated[Caller, needs("cluster.change")]) -> Reply[LemonPolicy]:
    """Set the score at which a node that fails the jobs of several users is drained; it takes effect at once."""
    body = await read_body(request, LemonBody)
    services = context_of(request).services
    saved = await services.cluster_settings.set_setting(
        LEMON_POLICY,
        {"threshold": body.threshold},
        by=caller.user,
        at_ms=services.clock.now_ms(),
        version=body.version,
    )
    await services.platform.limits_changed()
    return reply(_lemons(saved))


def _lemons(setting: Setting | None) -> LemonPolicy:
    if setting is None:
        return {"threshold": THRESHOLD, "version": 0, "changedBy": None, "changedTime": None}
    return {
        "threshold": setting.body["threshold"],
        "version": setting.version,
        "changedBy": setting.changed_by,
        "changedTime": setting.changed_at_ms,
    }


@router.serves("GET /api/v2/nodes", "List nodes")
async def list_nodes(request: Request, caller: Annotated[Caller, needs("node.list")]) -> Reply[list[Node]]:
    """Return every node and how much of it is in use."""
    services = context_of(request).services
    views = await services.platform.nodes()
    measured = temperatures(services.metrics)
    return reply([shapes.node(view, measured.get(view.name, {})) for view in views])


def temperatures(metrics: Metrics | None) -> dict[str, dict[int, float]]:
    """Return the temperatures of the GPUs of nodes that this server measures itself, also while no task has them."""
    found: dict[str, dict[int, float]] = {}
    for sample in metrics.latest("DCGM_FI_DEV_GPU_TEMP") if metrics is not None else ():
        node, number = sample.labels.get("node"), sample.labels.get("gpu")
        if number.isdecimal():
            found.setdefault(node, {})[int(number)] = sample.value
    return found


@router.serves("GET /api/v2/nodes/{name}", "Show a node and the jobs on it")
async def get_node(
    request: Request, caller: Annotated[Caller, needs("node.list")], name: NodeName
) -> Reply[NodeDetail]:
    """Return one node, the jobs on it that the caller may see, and for administrators the changes made to it."""
    services = context_of(request).services
    held = await services.platform.node_holdings(name)
    view = next((one for one in await services.platform.nodes() if one.name == name), None)
    if view is None:
        raise Refused("NoNodeError", f"there is no node {name!r}", "`pai node list` shows the nodes")
    history, checks = [], [check for check in view.checks if not check.is_about_storage]
    if refusal(caller.principal, "audit.read", NOTHING) is None:
        checks = list(view.checks)
        where = AuditFilter(actions=("node.change",), target=name, limit=HISTORY_MAX)
        history = [audit.entry(row, is_shown_whole=True) for row in await services.usage.audit(where)]
    shown, others = split_by_visibility(caller, held)
    return reply(
        NodeDetail(
            **shapes.node(view, temperatures(services.metrics).get(name, {})),
            **shapes.held(shown, others),
            checks=list(map(shapes.node_check, checks)),
            history=history,
        )
    )


@router.serves("PUT /api/v2/nodes/{name}", "Drain a node or mark its bad GPUs", takes=NodeBody)
async def change_node(request: Request, caller: Annotated[Caller, needs("node.change")], name: NodeName) -> Reply[Node]:
    """Drain a node or put it back into service, and mark its bad GPUs; without a deadline, running tasks continue."""
    body = await read_body(request, NodeBody)
    if body.drained is None and body.badDevices is None:
        raise invalid("nothing to change: give `drained` or `badDevices`")
    bad = None if body.badDevices is None else frozenset(body.badDevices)
    if body.deadlineSeconds is not None and not body.drained:
        raise invalid("`deadlineSeconds` needs `drained: true`")
    change = NodeChange(body.drained, bad, body.reason, body.deadlineSeconds)
    return reply(shapes.node(await context_of(request).services.platform.change_node(name, change, caller.user)))


@router.serves("DELETE /api/v2/nodes/{name}", "Forget a node", "ConflictSettingError")
async def forget_node(request: Request, caller: Annotated[Caller, needs("node.change")], name: NodeName) -> Done:
    """Forget a node that no longer exists, so that no guarantee counts on it."""
    await context_of(request).services.platform.forget_node(name, caller.user)
    return done(f"node {name} is forgotten")

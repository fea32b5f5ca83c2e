"""Quotas: limits for users at a time, in one job and in a month."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from openpai.access.deciding import clusters_open_to
from openpai.access.model import Thing
from openpai.api.answers import Done, Reply, done, reply
from openpai.api.audit import about
from openpai.api.bodies import read_body
from openpai.api.context import ApiContext, context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import quotas as shapes
from openpai.orchestrator.accounts import check_named
from openpai.protocol.errors import Refused
from openpai.wire import quotas as wire
from openpai.wire.quotas import OwnQuota

router = Router("quotas", written=201)
_Name = Annotated[str, Query(max_length=255, pattern=shapes.NAME)]


@router.serves("GET /api/v2/quotas", "List quotas")
async def list_quotas(request: Request, caller: Annotated[Caller, needs("quota.list")]) -> Reply[list[wire.Quota]]:
    """Return every quota; for managers those of the virtual clusters they manage."""
    visible = clusters_open_to(caller.principal, caller.action, "")
    found = await context_of(request).services.usage.quotas()
    return reply([shapes.quota(row) for row in found if visible is None or row.virtual_cluster in visible])


@router.serves("GET /api/v2/quotas/me", "List one's own quotas")
async def list_my_quotas(request: Request, caller: Annotated[Caller, needs("quota.own")]) -> Reply[list[OwnQuota]]:
    """Return the quotas that hold for oneself, each with its present use."""
    context = context_of(request)
    held = await context.quotas.of(caller.user)
    if not held:
        return reply([])
    usage, now_ms = context.services.usage, context.services.clock.now_ms()
    gpus, unfinished = await usage.gpus_held(caller.user), await usage.unfinished(caller.user)
    hours = await usage.gpu_hours_this_month(caller.user, now_ms)
    return reply([OwnQuota(**shapes.quota(row), used=shapes.used(row, gpus, unfinished, hours)) for row in held])


@router.serves("PUT /api/v2/quotas", "Set a quota", "NoUserError NoVirtualClusterError", takes=shapes.QuotaBody)
async def set_quota(request: Request, caller: Annotated[Caller, needs("quota.change")]) -> Done:
    """Set or replace a quota, or with `patch` the given limits of it; it holds from the next submission on."""
    body = await read_body(request, shapes.QuotaBody)
    wanted = body.quota()
    about(request, target=f"{wanted.user or '*'}@{wanted.virtual_cluster or '*'}", owner=wanted.user)
    caller.check(_thing(wanted.virtual_cluster))
    context = context_of(request)
    users, platform = context.services.users, context.services.platform
    await check_named(users, platform, user=wanted.user, virtual_cluster=wanted.virtual_cluster)
    await context.services.usage.set_quota(wanted, body.named())
    await _apply_change(context)
    return done(f"{shapes.label(wanted.virtual_cluster, wanted.user)} is set", 201)


@router.serves("DELETE /api/v2/quotas", "Remove a quota", "NoQuotaError")
async def delete_quota(
    request: Request,
    caller: Annotated[Caller, needs("quota.change")],
    virtual_cluster: Annotated[_Name, Query(alias="virtualCluster")] = "",
    user: _Name = "",
) -> Done:
    """Remove a quota; only the quota for all users, if there is one, holds afterwards."""
    about(request, target=f"{user or '*'}@{virtual_cluster or '*'}", owner=user)
    caller.check(_thing(virtual_cluster))
    context = context_of(request)
    label = shapes.label(virtual_cluster, user)
    if not await context.services.usage.remove_quota(virtual_cluster, user):
        raise Refused("NoQuotaError", f"there is no such quota: {label}", "`pai quota list` shows the quotas")
    await _apply_change(context)
    return done(f"{label} is removed")


def _thing(virtual_cluster: str) -> Thing:
    return Thing(virtual_cluster=virtual_cluster, label=shapes.label(virtual_cluster, ""))


async def _apply_change(context: ApiContext) -> None:
    context.quotas.forget()
    await context.services.platform.limits_changed()

"""What would have been with other promises: the simulator on the jobs that the cluster has run."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Request

from openpai.access.deciding import clusters_open_to
from openpai.access.model import Thing
from openpai.api.answers import Reply, reply
from openpai.api.context import context_of, needs
from openpai.api.history import history
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import what_if as shapes
from openpai.protocol.errors import Refused, Unavailable
from openpai.scheduler.config.editing import no_virtual_cluster
from openpai.simulator.apart import compare_apart
from openpai.simulator.whatif import parse_what_if
from openpai.wire.what_if import WhatIf

router = Router("scheduler")
_DAY_MS: Final = 86_400_000


@router.serves("GET /api/v2/scheduler/what-if", "Replay the past with other promises", "NoVirtualClusterError")
async def what_if(
    request: Request,
    caller: Annotated[Caller, needs("scheduler.what_if")],
    change: Annotated[
        str, Query(max_length=1000, description="GPUs given to or taken from virtual clusters: vision=+8,speech=-8")
    ],
    days: Annotated[int, Query(ge=1, le=366, description="Replay the jobs that were submitted in these days.")] = 30,
) -> Reply[WhatIf]:
    """Return how long jobs would have waited, and what would have been used, now and with other promises.

    The scheduler decides again about the recorded jobs, in a process of its own: one at a time, for a minute at most.
    Managers change the promises of their virtual clusters and see only these; nothing changes in the cluster.
    """
    context, who = context_of(request), caller.principal
    services = context.services
    visible = clusters_open_to(who, caller.action, "the past of other users")
    changes = parse_what_if([change])
    for name in changes:
        if visible is not None:
            caller.check(Thing(virtual_cluster=name, label=f"virtual cluster {name}"))
    config = (await services.platform.cluster_config()).hived
    known = {view.name for view in await services.platform.virtual_clusters()}
    for name in changes:
        if name not in known:
            raise no_virtual_cluster(name)
    if context.replaying.locked():
        raise Unavailable("another replay is under way, and there is one at a time", "try again in a minute")
    async with context.replaying:
        now_ms = services.clock.now_ms()
        from_ms = now_ms - days * _DAY_MS
        trace, left_out = await history(services.jobs, known, from_ms, now_ms)
        if not trace.jobs:
            message = f"no job with GPUs has run in the last {days} days, so there is nothing to replay"
            raise Refused("InvalidParametersError", message, "ask for more days, or use `pai simulate --synthetic`")
        now, then = await compare_apart(config, trace, change)
    found: WhatIf = {
        "fromTime": from_ms,
        "toTime": now_ms,
        "jobs": len(trace.jobs),
        "leftOut": left_out,
        "notes": then.notes,
        "now": shapes.replayed(now, visible),
        "then": shapes.replayed(then, visible),
    }
    return reply(found)

"""Prometheus's two query routes, without which pages of OpenPAI's old portal stay blank.

The portal sends no Authorization header with them, but its pages store the token in a cookie, which the browser sends.
The cookie is accepted here, for reading nodes, and nowhere else.
"""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import Query, Request

from openpai.api.answers import Reply, reply
from openpai.api.bodies import invalid
from openpai.api.context import context_of, needs_or_cookie
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import prometheus as shapes
from openpai.wire.prometheus import Metrics

router = Router("cluster")
Expression = Annotated[str, Query(max_length=10_000, description="The expression, as OpenPAI's portal writes it.")]
Time = Annotated[float | None, Query(description="In seconds since 1970; the present time if omitted.")]


@router.serves("GET /prometheus/api/v1/query", "Answer a query of Prometheus")
async def query_metrics(
    request: Request, caller: Annotated[Caller, needs_or_cookie("node.list")], query: Expression, time: Time = None
) -> Reply[Metrics]:
    """Answer a query at one moment, from what jobs hold on the nodes; other metrics are unknown."""
    return reply(await _answer(request, query, "vector", (time, time)))


@router.serves("GET /prometheus/api/v1/query_range", "Answer a query over a span of time")
async def query_metrics_over_time(
    request: Request,
    caller: Annotated[Caller, needs_or_cookie("node.list")],
    query: Expression,
    start: Time = None,
    end: Time = None,
) -> Reply[Metrics]:
    """Answer a query over a span of time with its newest value; older values are unknown."""
    return reply(await _answer(request, query, "matrix", (start, end)))


async def _answer(request: Request, text: str, kind: shapes.Kind, span: tuple[float | None, float | None]) -> Metrics:
    services = context_of(request).services
    now_s = services.clock.now_ms() / 1000
    start_s, end_s = (now_s if time is None else time for time in span)
    if not (math.isfinite(start_s) and math.isfinite(end_s)) or start_s > end_s:
        raise invalid("the times must be numbers of seconds since 1970, the start not after the end")
    if not shapes.is_answered(text):
        return shapes.nothing(kind, shapes.NOT_MEASURED)
    if not start_s - shapes.NEAR_S <= now_s <= end_s + shapes.NEAR_S:
        return shapes.nothing(kind, shapes.ONLY_NOW)
    at_s = min(max(now_s, start_s), end_s)
    return shapes.found(text, await services.platform.nodes(), at_s, kind)

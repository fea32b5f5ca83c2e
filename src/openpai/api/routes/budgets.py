"""Budgets: GPU hours that users, groups and virtual clusters may use in a period."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Query, Request

from openpai.access.budgets import Budget, Kind, Period
from openpai.access.deciding import refusal
from openpai.access.model import NOTHING
from openpai.api.answers import Done, Reply, done, reply
from openpai.api.audit import about
from openpai.api.bodies import read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import budgets as shapes
from openpai.orchestrator.accounts import check_named
from openpai.protocol.errors import Refused
from openpai.wire import budgets as wire

router = Router("budgets", written=201)
_FIELD: Final = {Kind.USER: "user", Kind.GROUP: "group", Kind.VC: "virtual_cluster"}


@router.serves("GET /api/v2/budgets", "List budgets")
async def list_budgets(request: Request, caller: Annotated[Caller, needs("budget.own")]) -> Reply[list[wire.Budget]]:
    """Return the budgets of oneself, one's groups and virtual clusters, with their use; for administrators all."""
    services, who = context_of(request).services, caller.principal
    now_ms = services.clock.now_ms()
    if refusal(who, "budget.list", NOTHING) is None:
        found = await services.usage.budgets(now_ms)
    else:
        found = await services.usage.budgets_of(who.name, sorted(who.virtual_clusters | who.managed), now_ms)
    return reply([shapes.budget(use, now_ms) for use in found])


@router.serves("PUT /api/v2/budgets", "Set a budget", "NoUserError NoGroupError NoVirtualClusterError",
               takes=shapes.BudgetBody)  # fmt: skip
async def set_budget(request: Request, caller: Annotated[Caller, needs("budget.change")]) -> Done:
    """Set or replace a budget; it holds from the next submission on, and for jobs that run within a minute."""
    wanted = (await read_body(request, shapes.BudgetBody)).budget()
    _note(request, wanted.kind, wanted.name, wanted.period)
    context = context_of(request)
    name = {_FIELD[wanted.kind]: wanted.name}
    await check_named(context.services.users, context.services.platform, **name)
    await context.services.usage.set_budget(wanted)
    return done(f"the budget of {wanted.label} is set", 201)


@router.serves("DELETE /api/v2/budgets", "Remove a budget", "NoBudgetError")
async def delete_budget(
    request: Request,
    caller: Annotated[Caller, needs("budget.change")],
    kind: Annotated[Literal["user", "group", "vc"], Query(description="whose use it counts")],
    name: Annotated[str, Query(max_length=255, pattern=shapes.NAME, description="whose budget")],
    period: Annotated[Literal["month", "quarter", "total"], Query(description="after which time it renews")] = "month",
) -> Done:
    """Remove a budget."""
    whose, when = Kind(kind), Period(period)
    _note(request, whose, name, when)
    label = Budget(whose, name, when, 0).label
    if not await context_of(request).services.usage.remove_budget(whose, name, when):
        message = f"{label} has no budget of the period {period}"
        raise Refused("NoBudgetError", message, "`pai budget list` shows the budgets")
    return done(f"the budget of {label} is removed")


def _note(request: Request, kind: Kind, name: str, period: Period) -> None:
    about(request, target=f"{kind}/{name}/{period}", owner=name if kind is Kind.USER else "")

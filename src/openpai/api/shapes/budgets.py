"""Budgets as documents."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from openpai.access.budgets import NOTICE_MINUTES, WARN_AT, Budget, Kind, Period, Stops, renews_ms, state_at
from openpai.api.bodies import Body
from openpai.ports.usage import BudgetUse
from openpai.wire import budgets as wire

NAME = r"^[A-Za-z0-9_.-]+$"
_DIGITS = 6


class BudgetBody(Body, example={"kind": "vc", "name": "vision", "gpuHours": 5000, "stops": "opportunistic"}):
    """A new budget, or one that replaces that of the same kind, name and period."""

    kind: Literal["user", "group", "vc"] = Field(description="Whose use it counts.")
    name: str = Field(max_length=255, pattern=NAME, description="The user, the group or the virtual cluster.")
    period: Literal["month", "quarter", "total"] = Field("month", description="After which time it renews, in UTC.")
    gpuHours: float = Field(ge=0, le=1e12, allow_inf_nan=False, description="GPU hours in each period.")
    warnAt: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        list(WARN_AT), max_length=10, description="Shares of the hours at which a warning is sent."
    )
    stops: Literal["none", "opportunistic", "all"] = Field(
        "none", description="Which accepted jobs with GPUs are stopped once it is used up."
    )
    noticeMinutes: float = Field(
        NOTICE_MINUTES, ge=0, le=43_200, allow_inf_nan=False, description="How long before a stop its user is notified."
    )
    contact: str = Field("", max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$", description="Whom to ask for more.")

    def budget(self) -> Budget:
        """Return the requested budget."""
        warn_at = tuple(sorted(set(self.warnAt)))
        return Budget(
            Kind(self.kind), self.name, Period(self.period), self.gpuHours, warn_at, Stops(self.stops),
            self.noticeMinutes, self.contact,
        )  # fmt: skip


def budget(use: BudgetUse, now_ms: int) -> wire.Budget:
    """Return a budget with its use."""
    one = use.budget
    kind: Any = one.kind.value
    period: Any = one.period.value
    stops: Any = one.stops.value
    return {
        "kind": kind,
        "name": one.name,
        "period": period,
        "gpuHours": one.gpu_hours,
        "warnAt": one.warn_at,
        "stops": stops,
        "noticeMinutes": one.notice_minutes,
        "contact": one.contact,
        "gpuHoursUsed": round(use.hours, _DIGITS),
        "renewsAt": renews_ms(one.period, now_ms),
        "usedUpAt": state_at(one, now_ms).used_up_at_ms,
    }

"""Budgets: GPU hours in a period."""

from __future__ import annotations

from collections.abc import Sequence

from openpai.client import model
from openpai.client.calls_core import Call, asks, listed, nothing


class Budgets:
    """GPU hours that users, groups and virtual clusters may use in a period."""

    @asks
    def budgets(self) -> Call[tuple[model.Budget, ...]]:
        """Return the budgets that concern oneself, with their use; for administrators all."""
        return Call("GET", "/budgets", listed(model.Budget.read))

    @asks
    def set_budget(
        self,
        kind: str,
        name: str,
        gpu_hours: float,
        *,
        period: str = "month",
        warn_at: Sequence[float] | None = None,
        stops: str | None = None,
        notice_minutes: float | None = None,
        contact: str | None = None,
    ) -> Call[None]:
        """Set or replace the budget of a user, a group or a virtual cluster (`vc`) for a month, quarter or in total."""
        more = {
            "warnAt": None if warn_at is None else list(warn_at),
            "stops": stops,
            "noticeMinutes": notice_minutes,
            "contact": contact,
        }
        given = {key: value for key, value in more.items() if value is not None}
        body = {"kind": kind, "name": name, "period": period, "gpuHours": gpu_hours, **given}
        return Call("PUT", "/budgets", nothing, json=body)

    @asks
    def remove_budget(self, kind: str, name: str, period: str = "month") -> Call[None]:
        """Remove a budget."""
        return Call("DELETE", "/budgets", nothing, {"kind": kind, "name": name, "period": period})

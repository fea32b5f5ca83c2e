"""The scheduler: its cells and gangs, fair share, and the order of queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openpai.client.calls_core import Call, as_it_came, asks


class Scheduler:
    """The scheduler of the cluster."""

    @asks
    def inspect(self, what: str = "clusterstatus") -> Call[Any]:
        """Return cells or gangs in HiveD's shape: `clusterstatus`, `affinitygroups`, and paths below them."""
        return Call("GET", f"/scheduler/inspect/{what}", as_it_came)

    @asks
    def scheduler_snapshot(self) -> Call[Mapping[str, Any]]:
        """Return the scheduler's whole state; for administrators."""
        return Call("GET", "/scheduler/snapshot", as_it_came)

    @asks
    def fairness(self) -> Call[Mapping[str, Any]]:
        """Return how fast past use is forgotten: `halfLifeHours`, None if it does not count."""
        return Call("GET", "/scheduler/fairness", as_it_came)

    @asks
    def set_fairness(self, half_life_hours: float | None) -> Call[Mapping[str, Any]]:
        """Set how fast past use is forgotten."""
        return Call("PUT", "/scheduler/fairness", as_it_came, json={"halfLifeHours": half_life_hours})

    @asks
    def orders(self) -> Call[Mapping[str, Any]]:
        """Return the order of jobs of equal priority, by virtual cluster; `fair` if none is set."""
        return Call("GET", "/scheduler/orders", as_it_came)

    @asks
    def set_orders(
        self,
        orders: Mapping[str, str],
        version: int | None = None,
        *,
        interruptible: Mapping[str, bool] | None = None,
        move_jobs: Mapping[str, bool] | None = None,
        hang_minutes: Mapping[str, float] | None = None,
    ) -> Call[Mapping[str, Any]]:
        """Set the order of queues (`fair`, `fifo` or `shortest`), and whose jobs may be interrupted if they do not say.

        `interruptible`, `move_jobs` (whose interruptible jobs may be moved) and `hang_minutes` (after which a job
        counts as one that hangs, if it does not say) stay as they are if they are None.
        """
        body: dict[str, Any] = {"orders": dict(orders)} | ({} if version is None else {"version": version})
        body |= {} if interruptible is None else {"interruptible": dict(interruptible)}
        body |= {} if move_jobs is None else {"moveJobs": dict(move_jobs)}
        body |= {} if hang_minutes is None else {"hangMinutes": dict(hang_minutes)}
        return Call("PUT", "/scheduler/orders", as_it_came, json=body, is_repeatable=version is None)

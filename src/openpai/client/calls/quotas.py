"""Quotas: limits for users."""

from __future__ import annotations

from typing import TypedDict, Unpack

from openpai.client import model
from openpai.client.calls_core import Call, asks, listed, nothing, query_of
from openpai.protocol.spelling import camel_case


class QuotaLimits(TypedDict, total=False):
    """Limits of a quota; None is no limit."""

    gpus_running: int | None
    gpus_per_job: int | None
    jobs_unfinished: int | None
    gpu_hours_per_month: float | None


class Quotas:
    """Limits for users."""

    @asks
    def quotas(self) -> Call[tuple[model.Quota, ...]]:
        """Return every quota; for managers those of their virtual clusters."""
        return Call("GET", "/quotas", listed(model.Quota.read))

    @asks
    def my_quotas(self) -> Call[tuple[model.Quota, ...]]:
        """Return the quotas that hold for oneself, with their present use."""
        return Call("GET", "/quotas/me", listed(model.Quota.read))

    @asks
    def set_quota(self, quota: model.Quota) -> Call[None]:
        """Set or replace the quota of a user in a virtual cluster."""
        return Call("PUT", "/quotas", nothing, json=quota.describe())

    @asks
    def change_quota(self, virtual_cluster: str = "", user: str = "", **limits: Unpack[QuotaLimits]) -> Call[None]:
        """Set the given limits of a quota; None removes a limit."""
        written = {camel_case(name): value for name, value in limits.items()}
        body = {"patch": True, "virtualCluster": virtual_cluster, "user": user, **written}
        return Call("PUT", "/quotas", nothing, json=body)

    @asks
    def remove_quota(self, virtual_cluster: str = "", user: str = "") -> Call[None]:
        """Remove the quota of a user in a virtual cluster."""
        params = query_of(virtualCluster=virtual_cluster, user=user)
        return Call("DELETE", "/quotas", nothing, params)

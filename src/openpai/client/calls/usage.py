"""Limits, what was used, the audit log and alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypedDict, Unpack

from openpai.client import model
from openpai.client.calls_core import Call, Pages, as_text, asks, known, listed, nothing, pages, said, whole

AUDIT_PAGE: Final = 500


class AuditFilters(TypedDict, total=False):
    """Which entries of the audit log."""

    actor: str
    action: str
    target: str
    concerning: str
    from_: str | int | None
    to: str | int | None


class QuotaLimits(TypedDict, total=False):
    """Which limits of a quota; None limits nothing."""

    gpus_running: int | None
    gpus_per_job: int | None
    jobs_unfinished: int | None
    gpu_hours_per_month: float | None


class Usage:
    """Quotas, reports, the audit log and alerts."""

    @asks
    def quotas(self) -> Call[tuple[model.Quota, ...]]:
        """Return every quota; for managers those of their virtual clusters."""
        return Call("GET", "/quotas", listed(model.Quota.read))

    @asks
    def my_quotas(self) -> Call[tuple[model.Quota, ...]]:
        """Return the quotas that hold for oneself, with what of them is used up."""
        return Call("GET", "/quotas/me", listed(model.Quota.read))

    @asks
    def set_quota(self, quota: model.Quota) -> Call[None]:
        """Set or replace the quota of a user in a virtual cluster."""
        return Call("PUT", "/quotas", nothing, json=quota.describe())

    @asks
    def change_quota(self, virtual_cluster: str = "", user: str = "", **limits: Unpack[QuotaLimits]) -> Call[None]:
        """Set the limits that are given and leave the others as they are; None takes a limit away."""
        written = model.Quota(virtual_cluster, user, **limits).describe()
        left = {_written(name) for name in QuotaLimits.__annotations__.keys() - limits.keys()}
        body = {name: value for name, value in written.items() if name not in left}
        return Call("PUT", "/quotas", nothing, json={"patch": True, **body})

    @asks
    def remove_quota(self, virtual_cluster: str = "", user: str = "") -> Call[None]:
        """Remove a quota, named by what it is for."""
        params = said(virtualCluster=virtual_cluster, user=user)
        return Call("DELETE", "/quotas", nothing, params)

    @asks
    def report(
        self,
        *,
        by: str | Sequence[str] = ("user",),
        from_: str | int | None = None,
        to: str | int | None = None,
        users: str | Sequence[str] = (),
        virtual_clusters: str | Sequence[str] = (),
    ) -> Call[model.Report]:
        """Return what was used since the month began, or in a time; `by` takes user, group, vc and day.

        Times are milliseconds or days such as 2026-01-31, in UTC.
        """
        params = said(**{"by": by, "from": from_, "to": to, "user": users, "vc": virtual_clusters})
        return Call("GET", "/reports/use", whole(model.Report.read), params)

    @asks
    def report_csv(
        self,
        *,
        by: str | Sequence[str] = ("user",),
        from_: str | int | None = None,
        to: str | int | None = None,
        users: str | Sequence[str] = (),
        virtual_clusters: str | Sequence[str] = (),
    ) -> Call[str]:
        """Return the same as CSV, for a spreadsheet."""
        asked = {"by": by, "from": from_, "to": to, "user": users, "vc": virtual_clusters}
        params = said(**asked, format="csv")
        return Call("GET", "/reports/use", as_text, params)

    @asks
    def audit(
        self,
        *,
        before: int | None = None,
        limit: int = 100,
        **where: Unpack[AuditFilters],
    ) -> Call[model.AuditPage]:
        """Return entries of the audit log, newest first. `where` takes the filters of `AuditFilters`."""
        return _audit(where, before, limit)

    @pages
    def all_audit(
        self, /, *, page: int = AUDIT_PAGE, **where: Unpack[AuditFilters]
    ) -> Pages[model.AuditPage, model.AuditEntry]:
        """Yield every entry of the audit log that matches, newest first, reading `page` of them at a time."""

        def after(found: model.AuditPage) -> Call[model.AuditPage] | None:
            return None if found.next is None else _audit(where, found.next, page)

        return Pages(_audit(where, None, page), lambda found: found.entries, after)

    @asks
    def alerts(self) -> Call[tuple[model.Alert, ...]]:
        """Return what wants attention: one's own jobs, and everything for administrators."""
        return Call("GET", "/alerts", listed(model.Alert.read))


def _written(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _audit(where: AuditFilters, before: int | None, limit: int) -> Call[model.AuditPage]:
    known(where, AuditFilters, "the audit log")
    asked = {name.rstrip("_"): value for name, value in where.items()}
    return Call("GET", "/audit", whole(model.AuditPage.read), said(**asked, before=before, limit=limit))

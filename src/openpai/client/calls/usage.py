"""Limits, what was used, the audit log and alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from openpai.client import model
from openpai.client.asking import Call, Pages, as_text, asks, listed, nothing, pages, said, whole

AUDIT_PAGE: Final = 500


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
        return Call("PUT", "/quotas", nothing, json=quota.told())

    @asks
    def remove_quota(self, virtual_cluster: str = "", user: str = "") -> Call[None]:
        """Remove a quota, named by what it is for."""
        params = said(virtualCluster=virtual_cluster, user=user)
        return Call("DELETE", "/quotas", nothing, params, is_repeatable=False)

    @asks
    def report(
        self,
        *,
        by: Sequence[str] = ("user",),
        from_: str | int | None = None,
        to: str | int | None = None,
        users: str = "",
        virtual_clusters: str = "",
    ) -> Call[model.Report]:
        """Return what was used since the month began, or in a time; `by` takes user, group, vc and day.

        Times are milliseconds or days such as 2026-01-31, in UTC.
        """
        params = said(**{"by": tuple(by), "from": from_, "to": to, "user": users, "vc": virtual_clusters})
        return Call("GET", "/reports/use", whole(model.Report.read), params)

    @asks
    def report_csv(
        self, *, by: Sequence[str] = ("user",), from_: str | int | None = None, to: str | int | None = None
    ) -> Call[str]:
        """Return the same as CSV, for a spreadsheet."""
        params = said(**{"by": tuple(by), "from": from_, "to": to, "format": "csv"})
        return Call("GET", "/reports/use", as_text, params)

    @asks
    def audit(
        self,
        *,
        actor: str = "",
        action: str = "",
        target: str = "",
        concerning: str = "",
        from_: str | int | None = None,
        to: str | int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Call[model.AuditPage]:
        """Return entries of the audit log, newest first."""
        return _audit(
            {
                "actor": actor,
                "action": action,
                "target": target,
                "concerning": concerning,
                "from": from_,
                "to": to,
                "before": before,
                "limit": limit,
            }
        )

    @pages
    def all_audit(self, /, **where: str | int) -> Pages[model.AuditPage, model.AuditEntry]:
        """Yield every entry of the audit log that matches, newest first."""
        asked = {"limit": AUDIT_PAGE, **where}

        def after(page: model.AuditPage) -> Call[model.AuditPage] | None:
            return None if page.next is None else _audit({**asked, "before": page.next})

        return Pages(_audit(asked), lambda page: page.entries, after)

    @asks
    def alerts(self) -> Call[tuple[model.Alert, ...]]:
        """Return what wants attention: one's own jobs, and everything for administrators."""
        return Call("GET", "/alerts", listed(model.Alert.read))


def _audit(where: Mapping[str, str | int | None]) -> Call[model.AuditPage]:
    return Call("GET", "/audit", whole(model.AuditPage.read), said(**where))

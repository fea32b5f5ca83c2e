"""Reports of use."""

from __future__ import annotations

from collections.abc import Sequence

from openpai.client import model
from openpai.client.calls_core import Call, as_text, asks, said, whole


class Reports:
    """Reports of use."""

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
        """Return the use of this month, or of a period; `by` takes user, group, vc and day.

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
        """Return the same report as CSV."""
        asked = {"by": by, "from": from_, "to": to, "user": users, "vc": virtual_clusters}
        params = said(**asked, format="csv")
        return Call("GET", "/reports/use", as_text, params)

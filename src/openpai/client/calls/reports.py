"""Reports of use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from openpai.client import model
from openpai.client.calls_core import Call, as_text, asks, known, query_of, whole


class ReportOptions(TypedDict, total=False):
    """The period, the filters and the dimensions of a report."""

    by: str | Sequence[str]
    from_: str | int | None
    to: str | int | None
    users: str | Sequence[str]
    virtual_clusters: str | Sequence[str]


class Reports:
    """Reports of use."""

    @asks
    def report(self, **options: Unpack[ReportOptions]) -> Call[model.Report]:
        """Return the use of this month, or of a period; `by` takes user (the default), group, vc and day.

        Times are milliseconds or days such as 2026-01-31, in UTC. `options` are those of `ReportOptions`.
        """
        return Call("GET", "/reports/use", whole(model.Report.read), _query(options))

    @asks
    def report_csv(self, **options: Unpack[ReportOptions]) -> Call[str]:
        """Return the same report as CSV."""
        return Call("GET", "/reports/use", as_text, {**_query(options), "format": "csv"})

    @asks
    def weekly_report(self) -> Call[model.WeeklyReport]:
        """Return the message about the last week that managers of virtual clusters may subscribe to."""
        return Call("GET", "/reports/weekly", whole(model.WeeklyReport.read))


def _query(options: ReportOptions) -> dict[str, str]:
    known(options, ReportOptions, "a report")
    names = {"from_": "from", "users": "user", "virtual_clusters": "vc"}
    return query_of(**{"by": "user", **{names.get(name, name): value for name, value in options.items()}})

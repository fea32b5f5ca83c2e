"""Charts in a terminal."""

from __future__ import annotations

from openpai.cli import charts
from openpai.client.model import MetricChart, MetricSeries


def test_names_of_series_are_whole_where_the_terminal_has_room() -> None:
    routes = [f"/api/v2/alert-rules/{end}" for end in ("one", "two")]
    series = [MetricSeries(labels={"route": route}, mean=[1.0], low=[1.0], high=[1.0]) for route in routes]
    chart = MetricChart(name="pai_api_requests_total", step_ms=10_000, matched=2, series=series)
    first, second, _ = charts.lines(chart, 80, shows_all_labels=True)
    assert [first.split()[0], second.split()[0]] == [f"route={route}" for route in routes]

"""`pai metrics`: what is measured of the platform, for administrators."""

from __future__ import annotations

import time
from typing import Annotated, Final

from openpai.cli import output, session
from openpai.cli.durations import seconds
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters

COMMANDS: Final = {
    "list": ("openpai.cli.metrics:list_", "List the metrics."),
    "show": ("openpai.cli.metrics:show", "Show the past of a metric as a chart."),
}
app = group("Metrics: what is measured of the platform.", COMMANDS)


def list_(
    all_: Annotated[bool, option("--all", "Also those of which nothing is measured now.")] = False,
    json: output.Json = False,
) -> None:
    """List the metrics."""
    with session.connect() as pai:
        found = pai.metrics()
    if output.as_json(json, [one.document for one in found]):
        return
    rows = [(one.name, str(one.series), one.unit, one.help) for one in found if all_ or one.series]
    output.table(["METRIC", "SERIES", "UNIT", "MEANING"], rows, right=["SERIES"], whole=["METRIC"])
    output.next_step("pai metrics show pai_jobs", "pai job metrics JOB")


def show(
    name: Annotated[str, argument("METRIC", "The metric, such as pai_jobs.")],
    label: Annotated[
        list[str] | None, option("--label NAME=VALUE", "Only series with this label; several values of one mean any.")
    ] = None,
    since: Annotated[str, option("--since TIME", "The last 30s, 10m, 2h or 1d12h.")] = "1h",
    json: output.Json = False,
) -> None:
    """Show the past of a metric as a chart."""
    from openpai.cli import charts

    labels: dict[str, list[str]] = {}
    for one in label or ():
        key, is_given, value = one.partition("=")
        if not is_given:
            raise InvalidParameters(f"--label {one!r} has no value", "write it like --label node=n1")
        labels.setdefault(key, []).append(value)
    end_ms = int(time.time() * 1000)
    start_ms = end_ms - int(seconds(since, "--since") * 1000)
    console = output.console()
    width = console.width if console.is_terminal else output.TABLE_WIDTH
    points = None if json else max(20, width - 12)
    with session.connect() as pai:
        found = pai.metric(name, labels, start_ms=start_ms, end_ms=end_ms, points=points)
    if output.as_json(json, found.document):
        return
    if not found.series:
        output.say(f"Nothing was measured of {name} in the last {since}.")
    else:
        output.say(charts.title(found))
        for line in charts.lines(found, width, shows_all_labels=True):
            output.say(line)
    output.next_step("pai metrics list", f"pai metrics show {name} --since 1d")

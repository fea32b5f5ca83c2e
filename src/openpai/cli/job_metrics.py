"""`pai job metrics`: what the tasks of a job used from its start on, as charts."""

from __future__ import annotations

import time
from typing import Annotated

from openpai.cli import output, session
from openpai.cli.durations import seconds
from openpai.cli.formatting import split
from openpai.cli.job import Name
from openpai.cli.options import option


def metrics(
    name: Name,
    metric: Annotated[
        list[str] | None, option("--metric NAMES", "Metrics, such as task_gpu_percent [default: the most telling].")
    ] = None,
    role: Annotated[str, option("--role ROLE", "Only tasks of this task role.")] = "",
    index: Annotated[int | None, option("--index N", "Only the task with this index.")] = None,
    since: Annotated[
        str | None, option("--since TIME", "Only the last 30s, 10m, 2h or 1d12h [default: the whole life].")
    ] = None,
    json: output.Json = False,
) -> None:
    """Show charts of what the tasks of a job used: processors, memory, GPUs and progress.

    The metrics that begin with `task_` have a line for each task or GPU. Values are kept every ten seconds for days,
    and coarser for years, so the charts of jobs that are over stay.
    """
    from openpai.cli import charts

    start_ms = None if since is None else int((time.time() - seconds(since, "--since")) * 1000)
    console = output.console()
    width = console.width if console.is_terminal else output.TABLE_WIDTH
    with session.connect() as pai:
        found = pai.job_metrics(
            name,
            split(metric),
            role=role,
            index=index,
            start_ms=start_ms,
            points=max(20, width - 12) if not json else None,
        )
    if output.as_json(json, {"charts": [chart.document for chart in found]}):
        return
    shown = [chart for chart in found if chart.series]
    for chart in shown:
        output.say(charts.title(chart))
        for line in charts.lines(chart, width):
            output.say(line)
    if not shown:
        output.say(f"Nothing was measured of {name} in that time; running tasks are measured every ten seconds.")
    output.next_step(f"pai job top {name}", f"pai job metrics {name} --metric task_cpu_percent")

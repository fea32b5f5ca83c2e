"""A real Prometheus scrapes a real server, and answers the charts that the server would answer itself."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from openpai.metrics.prometheus import PrometheusHistory
from openpai.series.labels import matching
from openpai.series.model import Query
from tests.ports import free_port

from .server import Server, until

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus here: apt-get install prometheus"),
]
CONFIG = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: openpai
    authorization: {{credentials: "{token}"}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@contextmanager
def prometheus(where: Path, config: str, *options: str) -> Iterator[str]:
    """Run a Prometheus, and yield its address."""
    port = free_port()
    (where / "prometheus.yml").write_text(config)
    command = [
        "prometheus", f"--config.file={where}/prometheus.yml", f"--storage.tsdb.path={where}/tsdb",
        f"--web.listen-address=127.0.0.1:{port}", *options,
    ]  # fmt: skip
    with (where / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


async def test_prometheus_scrapes_the_platform_and_answers_its_charts(tmp_path: Path) -> None:
    server = Server.start(tmp_path / "data")
    try:
        token = server.http.headers["authorization"].partition(" ")[2]
        with prometheus(tmp_path, CONFIG.format(token=token, port=server.port)) as url:
            until(lambda: bool(found(url, "pai_node_cpus")), "Prometheus scraped the nodes")
            history = PrometheusHistory(url)
            now_ms = int(time.time() * 1000)
            sample = found(url, "pai_node_cpus")[0]
            node, cpus = sample["metric"]["node"], float(sample["value"][1])
            query = Query("pai_node_cpus", matching({"node": node}), now_ms - 60_000, now_ms + 20_000, 10_000)
            answer = await history.range(query, now_ms)
            none = await history.range(Query("pai_node_cpus", matching({"node": '.*"}'}), 0, 60_000, 10_000), now_ms)
            await history.close()
    finally:
        server.end()
    (series,) = answer.series
    assert series.labels.values == {"node": node}
    assert {value for _, value in series.points()} == {cpus}
    assert none.matched == 0


def test_prometheus_is_written_to(tmp_path: Path) -> None:
    with prometheus(tmp_path, "{}", "--web.enable-remote-write-receiver") as url:
        server = Server.start(tmp_path / "data", 0, "--remote-write-url", f"{url}/api/v1/write")
        try:
            until(lambda: bool(found(url, "pai_node_cpus")), "Prometheus has the nodes")
            until(lambda: bool(found(url, "rate(process_cpu_seconds_total[1m]) > 0")), "Prometheus has two rounds")
            (gone,) = found(url, "pai_remote_write_dropped_samples_total")
            scraped = server.http.get(f"{server.url}/metrics").text
        finally:
            server.end()
        names = {line.partition("{")[0].partition(" ")[0] for line in scraped.splitlines() if line[0] != "#"}
        written = {one["metric"]["__name__"] for one in found(url, '{__name__=~".+"}')}
    assert gone["value"][1] == "0"
    # The histogram is of scrapes alone.
    assert {name for name in names if not name.startswith("pai_api_request_duration")} <= written


def found(url: str, query: str) -> list[dict[str, Any]]:
    """Return what Prometheus has now; nothing while it starts."""
    try:
        answer = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()
        rows: list[dict[str, Any]] = answer["data"]["result"]
    except (httpx.HTTPError, ValueError, KeyError):
        return []
    return rows

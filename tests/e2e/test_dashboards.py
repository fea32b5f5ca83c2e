"""Each query of Grafana's dashboards finds something in a real Prometheus that a real server writes to."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from openpai.app.pages.dashboards import DASHBOARDS, dashboard
from openpai.metrics.devices import readings_of
from openpai.metrics.remote_write import RemoteWriter
from openpai.ports.task_usage import Device, DeviceUse
from openpai.series.catalogue import METRICS
from openpai.series.rounds import Rounds
from tests.ports import free_port

from .server import Server, until
from .test_prometheus import found, prometheus

VICTORIA = "victoria-metrics"
QUERIES = [
    (name, panel.title, query) for name, one in DASHBOARDS.items() for panel in one.panels for query in panel.queries
]


def test_dashboards_show_what_is_measured() -> None:
    for one in DASHBOARDS.values():
        for panel in one.panels:
            assert panel.metrics, panel.title
            assert set(panel.metrics) <= METRICS.keys(), panel.title
        for metric in one.variables.values():
            assert metric in METRICS
    for name in DASHBOARDS:
        panels = json.loads(dashboard(name))["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        assert all(panel["description"] for panel in panels)


async def write_devices(url: str) -> None:
    """Write the values of a GPU, which the machine of a test has not, to a Prometheus."""
    use = DeviceUse(0, 50.0, 8 << 30, 16 << 30, 200.0, 400.0, 60.0, 30.0)
    writer = RemoteWriter(f"{url}/api/v1/write")
    running = asyncio.create_task(writer.run())
    writer.take(Rounds().learn(readings_of([Device(use)], "node-01", "H200"), int(time.time() * 1000)))
    await asyncio.to_thread(until, lambda: bool(found(url, "DCGM_FI_DEV_GPU_UTIL")), "Prometheus has the GPU")
    running.cancel()
    assert writer.dropped == 0


@pytest.mark.full
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus here: apt-get install prometheus")
def test_every_query_of_the_dashboards_finds_something(tmp_path: Path) -> None:
    with prometheus(tmp_path, "{}", "--web.enable-remote-write-receiver") as url:
        ask_all_of(tmp_path, url)


@pytest.mark.full
@pytest.mark.skipif(shutil.which(VICTORIA) is None, reason="no victoria-metrics on the PATH")
def test_victoria_metrics_is_written_to_and_answers_dashboards_charts_and_rules(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    where = (f"-storageDataPath={tmp_path}/victoria", f"-httpListenAddr=127.0.0.1:{port}")
    command = [VICTORIA, *where, "-search.latencyOffset=0s"]
    with (tmp_path / "victoria.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        ask_all_of(tmp_path, url, "--metrics-url", url)
    finally:
        process.terminate()
        process.wait(30)


def ask_all_of(directory: Path, url: str, *more: str) -> None:
    """Let a server write to a store, which answers every query of the dashboards, and the server's where it asks it."""
    options = ("--backend", "simulated", "--gpus-per-node", "2", "--remote-write-url", f"{url}/api/v1/write", *more)
    server = Server.start(directory / "data", 0, *options)
    try:
        nodes = [one["name"] for one in server.get("/nodes")]
        change = {"drained": True, "badDevices": [1], "reason": "a test"}
        server.http.put(f"/nodes/{nodes[-1]}", json=change).raise_for_status()
        resources = {"resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 1}}
        for job, instances in (("long", 1), ("large", 6)):
            asked = server.submit(job, "sleep 3600", role={**resources, "instances": instances})
            assert asked.status_code == 202, asked.text
        until(lambda: bool(found(url, "pai_queue_oldest_seconds > 0")), "a job waits")
        asyncio.run(write_devices(url))
        for name, title, query in QUERIES:
            query = query.replace("$__rate_interval", "1m")
            for label in DASHBOARDS[name].variables:
                query = query.replace(f"${label}", ".*")
            # VictoriaMetrics leaves out what is no number, as the time of no requests.
            until(lambda query=query: bool(server.get("/nodes") and found(url, query)), f"{name}: {title}: {query}")  # type: ignore[misc]
        if more:
            rule = "alert: Held\nexpr: avg_over_time(pai_node_cpus_held[1m]) > 0\nnotify: []\n"
            server.http.put("/alert-rules/Held", json={"text": rule}).raise_for_status()
            until(lambda: bool(server.get("/metrics/pai_node_cpus_held")["series"]), "a chart of the store")
            until(lambda: "Held" in str(server.get("/alerts")), "a rule about the store's past fires")
    finally:
        server.end()

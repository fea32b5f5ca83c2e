"""Each query of Grafana's dashboards finds something in a real Prometheus that a real server writes to."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

import pytest

from openpai.app.pages.dashboards import DASHBOARDS, dashboard
from openpai.metrics.devices import readings_of
from openpai.metrics.remote_write import RemoteWriter
from openpai.ports.task_usage import Device, DeviceUse
from openpai.series.catalogue import METRICS
from openpai.series.rounds import Rounds

from .server import Server, until
from .test_prometheus import found, prometheus

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
        options = ("--backend", "simulated", "--gpus-per-node", "2", "--remote-write-url", f"{url}/api/v1/write")
        server = Server.start(tmp_path / "data", 0, *options)
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
                until(lambda query=query: bool(found(url, query)), f"{name}: {title}: {query}")  # type: ignore[misc]
        finally:
            server.end()

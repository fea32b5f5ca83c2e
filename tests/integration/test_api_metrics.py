"""The queries of OpenPAI's old portal to Prometheus: each that its source has, read as its pages read the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openpai.api.shapes import prometheus

from .api_world import Here, World

UNAME = "node_uname_info"
CPU = '100 - (avg by (instance)(irate(node_cpu_seconds_total{mode="idle"}[300s])) * 100)'
USED = "node_memory_MemTotal_bytes - node_memory_MemFree_bytes - node_memory_Buffers_bytes - node_memory_Cached_bytes"
TOTAL = "node_memory_MemTotal_bytes"
GPU = "avg by (instance)(gpu_utilization)"
NOT_MEASURED = (
    "avg by (instance)(gpu_mem_utilization)",
    "sum by (instance)(rate(node_disk_read_bytes_total[300s]))",
    "sum by (instance)(rate(node_disk_written_bytes_total[300s]))",
    "sum by (instance)(rate(node_network_receive_bytes_total[300s]))",
    "avg(avg_over_time(task_gpu_percent[10m]) < 10) by (job_name)",
)
NODE = Here.node


async def ask(world: World, kind: str, user: str = "ann", **params: Any) -> Any:
    """Return the answer to a query sent as the portal sends it: the token in a cookie, and no header."""
    await world.login(user)
    cookie = {"Cookie": f"user={user}; token={world.tokens[user]}; admin=false"}
    return await world.http.get(f"/prometheus/api/v1/{kind}", params=params, headers=cookie)


async def values(world: World, query: str) -> dict[str, float]:
    """Return the value of each node, read as the hardware page reads it."""
    now_s = world.clock.at_ms / 1000
    answer = (await ask(world, "query_range", query=query, start=now_s, end=now_s, step=1)).json()
    assert answer["status"] == "success"
    assert answer["data"]["resultType"] == "matrix"
    return {row["metric"]["instance"].split(":")[0]: float(row["values"][0][1]) for row in answer["data"]["result"]}


async def test_the_hardware_page_finds_every_node_by_its_address_and_name(world: World) -> None:
    answer = (await ask(world, "query", query=UNAME, time=world.clock.at_ms / 1000)).json()
    (row,) = answer["data"]["result"]
    assert row["metric"] == {"__name__": UNAME, "instance": "10.0.0.1:9100", "nodename": "n1"}
    assert row["value"] == [world.clock.at_ms / 1000, "1"]


async def test_what_jobs_hold_of_a_node_is_reported_as_that(world: World) -> None:
    assert await values(world, CPU) == {"10.0.0.1": 25.0}
    assert await values(world, GPU) == {"10.0.0.1": 50.0}
    assert await values(world, USED) == {"10.0.0.1": 64 * 2**20}
    assert await values(world, TOTAL) == {"10.0.0.1": 4096 * 2**20}
    assert (await ask(world, "query", query=CPU)).json()["warnings"] == [prometheus.HELD]
    assert (await ask(world, "query", query=TOTAL)).json()["warnings"] == []


async def test_large_numbers_keep_every_byte(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Here, "node", replace(NODE, memory_mb_total=1_999_999))
    assert await values(world, TOTAL) == {"10.0.0.1": 1_999_999 * 2**20}


@pytest.mark.parametrize("query", NOT_MEASURED)
async def test_what_is_not_measured_finds_nothing_and_says_so(world: World, query: str) -> None:
    assert await values(world, query) == {}
    instant = (await ask(world, "query", query=query)).json()
    assert instant["data"] == {"resultType": "vector", "result": []}
    assert instant["warnings"] == [prometheus.NOT_MEASURED]


async def test_a_node_without_gpus_has_no_share_of_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Here, "node", replace(NODE, gpus_total=0, gpus_used=0))
    assert await values(world, GPU) == {}


async def test_nodes_that_share_an_address_are_reported_by_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nodes(self: Here) -> Any:
        six = replace(NODE, name="n3", address="fd00::3")
        return (NODE, replace(NODE, name="n2", cpus_used=4), six)

    monkeypatch.setattr(Here, "nodes", nodes)
    assert await values(world, CPU) == {"n1": 25.0, "n2": 100.0, "n3": 25.0}


async def test_there_is_no_value_of_another_time(world: World) -> None:
    now_s = world.clock.at_ms / 1000
    for time in (now_s - 3600, now_s + 3600):
        old = (await ask(world, "query", query=CPU, time=time)).json()
        assert (old["data"]["result"], old["warnings"]) == ([], [prometheus.ONLY_NOW])
    long = (await ask(world, "query_range", query=CPU, start=now_s - 3600, end=now_s - 10, step=60)).json()
    assert long["data"]["result"][0]["values"] == [[now_s - 10, "25"]]


@pytest.mark.parametrize("params", [{}, {"query": CPU, "start": "nan"}, {"query": CPU, "start": 9e9, "end": 1}])
async def test_a_query_that_makes_no_sense_is_refused(world: World, params: dict[str, Any]) -> None:
    answer = await ask(world, "query_range", **params)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")


async def test_strangers_learn_nothing_about_nodes(world: World) -> None:
    params = {"query": UNAME}
    for headers in ({}, {"Cookie": "token=made-up"}, {"Cookie": "token="}):
        answer = await world.http.get("/prometheus/api/v1/query", params=params, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "UnauthorizedUserError")


async def test_the_portals_cookie_opens_nothing_else(world: World) -> None:
    await world.login("ann")
    cookie = {"Cookie": f"token={world.tokens['ann']}"}
    assert (await world.http.get("/api/v2/nodes", headers=cookie)).status_code == 401
    header = {"Authorization": "Bearer made-up", **cookie}
    answer = await world.http.get("/prometheus/api/v1/query", params={"query": UNAME}, headers=header)
    assert answer.status_code == 401

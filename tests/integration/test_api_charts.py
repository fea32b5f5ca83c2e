"""Charts and Prometheus's text over the real API, of rounds that the test measures: who may read what, and how much."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.metrics.history import KeptHistory
from openpai.metrics.service import MeasuredMetrics
from openpai.series.labels import Labels
from openpai.series.model import Answer, Query, Reading

from .api_world import Here, World

HOSTILE = 'x"y\n}\\ 1 {z="' + "é" * 300
ROUNDS = 8


@pytest.fixture
async def measured(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MeasuredMetrics]:
    async def leads(self: Here) -> None:
        return None

    monkeypatch.setattr(Here, "require_leader", leads)
    history = KeptHistory(tmp_path / "metrics.db")
    metrics = MeasuredMetrics(world.clock, history)
    await metrics.open()
    context = world.api.state.context
    world.api.state.context = replace(context, services=replace(context.services, metrics=metrics))
    yield metrics
    await metrics.close()


async def measure(world: World, metrics: MeasuredMetrics, *readings: Reading) -> None:
    metrics.add_source("test", lambda: readings)
    for _ in range(ROUNDS):
        await metrics.measure()
        world.clock.at_ms += 10_000


async def job_labels(world: World, user: str, name: str, **labels: str) -> Labels:
    id_ = await world.store.find(user, name)
    assert id_ is not None
    return Labels.of({"job_name": f"{user}~{name}", "job_instance_id": id_, "username": user, **labels})


async def get(world: World, user: str, path: str, **params: Any) -> Any:
    return await world.http.get(path, headers=await world.login(user), params=params)


async def test_the_text_of_prometheus_survives_the_names_of_an_enemy(world: World, measured: MeasuredMetrics) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    hostile = Labels.of({"job_name": f"eve~{HOSTILE}", "task_index": "0"})
    total = {"task_processes": 3.0, "task_net_in_byte": 12_345_678_901.0}
    device = Labels.of({"node": "n1", "gpu": "1"})
    await measure(
        world,
        measured,
        Reading(hostile, total),
        Reading(device, {"DCGM_FI_DEV_GPU_UTIL": 55.0, "pai_commits_total": 7}),
        Reading(device, {"DCGM_FI_DEV_FB_USED": 30.0, "DCGM_FI_DEV_FB_FREE": 90.0, "DCGM_FI_DEV_PSTATE": 8.0}),
    )
    answer = await get(world, "root", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {one.name: one for one in text_string_to_metric_families(answer.text)}
    (sample,) = families["task_processes"].samples
    assert sample.value == 3.0
    assert len(sample.labels["job_name"]) <= 200
    assert families["task_net_in_byte"].samples[0].value == 12_345_678_901.0
    assert families["pai_commits"].samples[0].value == 7.0
    names = {"nvidiasmi_utilization_gpu": 55, "gpu_utilization": 55, "nvidiasmi_performance_state": 8}
    for name, value in {**names, "nvidiasmi_utilization_memory": 25, "gpu_mem_utilization": 25}.items():
        (sample,) = families[name].samples
        assert (sample.value, sample.labels["minor_number"]) == (value, "1")
    histogram = families["pai_api_request_duration_seconds"]
    counts = {sample.labels.get("le"): sample.value for sample in histogram.samples}
    assert counts["+Inf"] >= 1


async def test_a_chart_has_the_points_that_were_measured(world: World, measured: MeasuredMetrics) -> None:
    begun_ms = world.clock.at_ms
    await measure(
        world, measured, *(Reading(Labels.of({"node": name}), {"pai_node_load1": 2.5}) for name in ("a", "b"))
    )
    span = {"start": begun_ms, "end": world.clock.at_ms}
    both = (await get(world, "root", "/api/v2/metrics/pai_node_load1", **span)).json()
    assert (both["matched"], both["step"]) == (2, 10_000)
    one = (await get(world, "root", "/api/v2/metrics/pai_node_load1", label="node=a", points=4, **span)).json()
    (series,) = one["series"]
    assert series["labels"] == {"node": "a"}
    assert one["step"] == 20_000
    assert [value for value in series["mean"] if value is not None] == [2.5] * 4
    listed = (await get(world, "root", "/api/v2/metrics")).json()["metrics"]
    assert [one["series"] for one in listed if one["name"] == "pai_node_load1"] == [2]


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        ("/api/v2/metrics/nope", {}, 404),
        ("/api/v2/metrics/pai_jobs%7B%7D", {}, 404),
        ("/api/v2/metrics/pai_jobs", {"label": "nope"}, 400),
        ("/api/v2/metrics/pai_jobs", {"label": 'a"}=1'}, 400),
        ("/api/v2/metrics/pai_jobs", {"start": 5, "end": 4}, 400),
        ("/api/v2/metrics/pai_jobs", {"points": 1_001}, 400),
        ("/api/v2/metrics/pai_jobs", {"start": 0, "end": (1 << 52)}, 200),
        ("/api/v2/metrics/pai_jobs", {"end": 1}, 200),
    ],
)
async def test_bad_questions_are_refused(
    world: World, measured: MeasuredMetrics, path: str, params: dict[str, Any], status: int
) -> None:
    assert (await get(world, "root", path, **params)).status_code == status


async def test_users_see_charts_of_the_jobs_that_they_may_see(world: World, measured: MeasuredMetrics) -> None:
    await world.submit("train")
    labels = [await job_labels(world, "ann", "train", role_name="worker", task_index=index) for index in "01"]
    other = Labels.of({"job_name": "ann~train", "job_instance_id": "of an earlier job", "task_index": "9"})
    readings = [Reading(one, {"task_cpu_percent": 50.0, "pai_job_cpus_used": 1.0}) for one in (*labels, other)]
    await measure(world, measured, *readings)
    path, params = "/api/v2/jobs/ann~train/metrics", {"name": ["task_cpu_percent", "pai_job_cpus_used"]}
    (cpu, _) = (await get(world, "ann", path, **params)).json()["charts"]
    assert [one["labels"]["task_index"] for one in cpu["series"]] == ["0", "1"]
    (one,) = (await get(world, "ann", path, name="task_cpu_percent", role="worker", index=1)).json()["charts"]
    assert [series["labels"]["task_index"] for series in one["series"]] == ["1"]
    assert len((await get(world, "ann", path)).json()["charts"]) == 5
    # A job's route answers nothing of the platform or of others.
    assert (await get(world, "ann", path, name="pai_node_load1")).status_code == 404
    for closed in ("/metrics", "/api/v2/metrics", "/api/v2/metrics/pai_jobs"):
        assert (await get(world, "ann", closed)).status_code == 403
        assert (await world.http.get(closed)).status_code == 401


async def test_efficiency_is_what_was_used_of_what_was_asked_for(world: World, measured: MeasuredMetrics) -> None:
    await world.submit("train")
    await world.grant()
    id_ = await world.store.find("ann", "train")
    assert id_ is not None
    await world.started(AttemptKey(id_, 0, "worker", 0, 0))
    task = await job_labels(world, "ann", "train", role_name="worker", task_index="0")
    used = {"task_cpu_percent": 50.0, "task_mem_usage_byte": 16.0 * 2**20}
    await measure(world, measured, Reading(task, used))
    found = (await get(world, "ann", "/api/v2/jobs/train/efficiency")).json()
    (role,) = found["taskRoles"]
    assert (found["isOver"], role["name"], role["tasks"], role["tasksMeasured"]) == (False, "worker", 1, 1)
    assert 0 < found["measuredSeconds"] <= 10 * ROUNDS
    assert role["cpu"] == {"asked": 1, "mean": 0.5, "most": 0.5, "share": 0.5}
    assert role["memoryBytes"]["most"] == pytest.approx(16 * 2**20, rel=0.01)
    assert role["memoryBytes"]["share"] == pytest.approx(16 * 2**20 / role["memoryBytes"]["asked"], rel=0.01)
    assert {role[each]["mean"] for each in ("gpuPercent", "gpuMemoryPercent")} == {None}
    assert role["advice"] == []
    assert found["noAdvice"].startswith("it was measured for")


async def test_a_job_that_never_ran_was_not_measured(world: World, measured: MeasuredMetrics) -> None:
    await world.submit("train")
    found = (await get(world, "ann", "/api/v2/jobs/train/efficiency")).json()
    assert found["measuredSeconds"] == 0
    assert {each["share"] for each in found["taskRoles"][0].values() if isinstance(each, dict)} == {None}


async def test_a_chart_of_more_series_than_are_read_says_so(
    world: World, measured: MeasuredMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def counted(query: Query) -> Answer:
        return Answer((), query.step_ms, 1_000_000)

    monkeypatch.setattr(measured, "range", counted)
    refused = await get(world, "root", "/api/v2/metrics/task_cpu_percent")
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidParametersError")
    assert "task_cpu_percent has 1,000,000 such series" in refused.json()["message"]
    assert "narrow it by labels" in refused.json()["advice"]

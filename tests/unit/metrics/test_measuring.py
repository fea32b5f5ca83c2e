"""A round of measuring takes what the catalogue of metrics knows, and survives its sources."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from openpai.metrics.devices import readings_of
from openpai.metrics.history import KeptHistory
from openpai.metrics.service import MeasuredMetrics
from openpai.ports.task_usage import Device, DeviceUse
from openpai.series.labels import NO_LABELS, Labels
from openpai.series.model import Reading
from openpai.system.supervision import failures
from tests.clocks import HandClock

START_MS = 1_767_225_600_000


async def test_a_value_that_is_not_in_the_catalogue_is_a_failure_that_is_counted(tmp_path: Path) -> None:
    metrics = MeasuredMetrics(HandClock(START_MS), KeptHistory(tmp_path / "metrics.db"))
    metrics.add_source("strange", lambda: [Reading(NO_LABELS, {"pai_strange": 1.0})])
    metrics.add_source("known", lambda: [Reading(NO_LABELS, {"pai_leads": 1.0})])
    await metrics.open()
    before = failures().get("measure strange", 0)
    await metrics.measure()
    assert failures()["measure strange"] == before + 1
    assert metrics.latest("pai_strange") == ()
    assert [each.value for each in metrics.latest("pai_leads")] == [1.0]
    await metrics.close()


async def test_a_decision_need_not_wait_for_a_round_over_thousands_of_tasks(tmp_path: Path) -> None:
    read = 0

    def source() -> Iterator[Reading]:
        nonlocal read
        for number in range(5_000):
            read += 1
            yield Reading(Labels.of({"task": f"task-{number}"}), {"pai_leads": 1.0})

    metrics = MeasuredMetrics(HandClock(START_MS), KeptHistory(tmp_path / "metrics.db"))
    metrics.add_source("tasks", source)
    await metrics.open()
    measuring = asyncio.create_task(metrics.measure())
    await asyncio.sleep(0)
    before = read
    for _ in range(12):
        await asyncio.sleep(0)
    assert 0 < before <= read <= before + 500
    await measuring
    assert read == 5_000
    await metrics.close()


async def test_rounds_are_ten_seconds_apart_though_timers_end_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, times = HandClock(START_MS + 4_321), list[int]()

    async def sleep(seconds: float) -> None:
        clock.at_ms += int(seconds * 1000) - 1 if seconds > 1 else 1

    def take(at_ms: int) -> None:
        times.append(at_ms)
        if len(times) == 4:
            raise asyncio.CancelledError

    metrics = MeasuredMetrics(clock, KeptHistory(tmp_path / "metrics.db"))
    metrics.on_round(take)
    await metrics.open()
    monkeypatch.setattr("openpai.metrics.service.asyncio.sleep", sleep)
    with contextlib.suppress(asyncio.CancelledError):
        await metrics.measure_forever()
    monkeypatch.undo()
    await metrics.close()
    begun = START_MS
    assert times == [begun + 10_000, begun + 20_000, begun + 30_000, begun + 40_000]


def test_what_a_driver_reserves_of_a_gpu_is_neither_used_nor_free() -> None:
    use = DeviceUse(0, memory_bytes=3 << 30, memory_total_bytes=8 << 30, memory_reserved_bytes=1 << 30)
    [reading] = readings_of([Device(use)], "node-01", "H200")
    memory = {name.removeprefix("DCGM_FI_DEV_FB_"): value for name, value in reading.values.items()}
    assert memory == {"USED": 3072, "FREE": 4096, "RESERVED": 1024}

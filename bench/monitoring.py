"""What it costs to keep metrics: processor time, memory, bytes per sample, the time of a chart.

`python -m bench.monitoring` keeps an hour of 12,000 series (1,000 tasks of 12 values, measured every ten seconds), as
the server does, in virtual time; then a day of 100 tasks, of which it reads the whole life of one. The values are those
of training jobs with noise: processors, memory, GPU and tensor activity, power, temperature, disk, network and steps.
The bars: less than 2 % of a core, 60 MB and 1 byte per sample on disk, and 50 ms for the slowest of the charts, one
for each value of a task.

Eight GPUs are read as tasks and checks of the node read them, both every ten seconds: through NVML where a driver
answers, otherwise as cards of AMD whose files are copies in a directory here. The bar: less than 0.5 % of a core.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.server import answer
from openpai.backends.host.amd_use import AmdGpus, amd_cards
from openpai.backends.host.gpu_reading import GpuReader, NoGpus
from openpai.backends.host.gpu_use import open_nvidia
from openpai.metrics.history import KeptHistory
from openpai.metrics.service import MeasuredMetrics
from openpai.series.labels import Labels, matching
from openpai.series.model import Query, Reading
from openpai.series.retention import chart_step_ms

_NAMES: Final = (
    "task_cpu_percent",
    "task_mem_usage_byte",
    "task_gpu_percent",
    "task_gpu_mem_percent",
    "task_gpu_power_watts",
    "task_gpu_temperature_celsius",
    "task_gpu_tensor_percent",
    "task_processes",
    "task_progress_steps",
    "pai_job_cpus_used",
    "pai_job_gpu_percent",
    "pai_job_memory_used_bytes",
)
_HOUR: Final = 360
_GPUS: Final = 8
_PROFILES: Final = 50
_START_MS: Final = 1_790_000_000_000 // 86_400_000 * 86_400_000


class _Clock:
    def __init__(self) -> None:
        self.at_ms = _START_MS

    def now_ms(self) -> int:
        return self.at_ms


def profile(chance: random.Random, length: int) -> list[dict[str, float]]:
    """Return the values of a training task in each round."""
    base, phase, memory = chance.uniform(60, 99), chance.randrange(300), chance.uniform(4, 60) * 2**30
    warmth, steps, found = 60.0, 0.0, []
    for number in range(length):
        is_loading = (number + phase) % 300 < 20
        busy = max(0, min(100, round(chance.gauss(20 if is_loading else base, 4))))
        warmth += (50 + busy * 0.3 - warmth) * 0.1
        memory += chance.choice((0, 0, 0, 0, 4096 * chance.randrange(100)))
        steps += chance.uniform(9, 11)
        values = (
            max(0, chance.gauss(380, 25)), memory, busy, 63.7, round(max(60, 90 + busy * 3 + chance.gauss(0, 6)), 3),
            round(warmth), round(max(0, chance.gauss(busy * 0.45, 1.5)), 1), 5 + chance.randrange(2), int(steps),
            max(0, chance.gauss(3.8, 0.25)), max(0, chance.gauss(base, 2)), memory * 1.1,
        )  # fmt: skip
        found.append(dict(zip(_NAMES, map(float, values), strict=True)))
    return found


def memory_mb() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


async def keep(directory: Path, tasks: int, rounds: int) -> dict[str, Any]:
    """Keep the values of so many tasks over so many rounds, and return what that cost."""
    chance = random.Random(1)
    profiles = [profile(chance, _HOUR) for _ in range(min(tasks, _PROFILES))]
    labels = [
        Labels.of({"job_name": f"user{n % 40}~job{n}", "role_name": "worker", "task_index": "0", "task": f"{n:032x}"})
        for n in range(tasks)
    ]
    gc.collect()
    before_mb, most_mb = memory_mb(), 0.0
    clock = _Clock()
    history = KeptHistory(directory / "metrics.db", pause_s=0)
    await history.open(clock.now_ms())
    metrics = MeasuredMetrics(clock, history)
    number = 0

    def source() -> Sequence[Reading]:
        return [Reading(one, profiles[n % _PROFILES][(number + n) % _HOUR]) for n, one in enumerate(labels)]

    metrics.add_source("tasks", source)
    spent_s, slowest_s = 0.0, 0.0
    for number in range(rounds):
        began_s, at_s = time.process_time(), time.perf_counter()
        await metrics.measure()
        slowest_s = max(slowest_s, time.perf_counter() - at_s)
        await history.written()
        spent_s += time.process_time() - began_s
        clock.at_ms += 10_000
        if number % 30 == 0:
            most_mb = max(most_mb, memory_mb())
    began_s = time.process_time()
    # The next round closes the hour.
    await metrics.measure()
    for _ in range(2_000):
        await history.written()
        if history.open_blocks == 1:
            break
    spent_s += time.process_time() - began_s
    most_mb = max(most_mb, memory_mb())
    chart_ms = await _slowest_chart(metrics, labels[0], clock.at_ms)
    await history.close()
    samples = tasks * len(_NAMES) * rounds
    size, kept = _sizes(directory / "metrics.db")
    return {
        "series": tasks * len(_NAMES),
        "hours": round(rounds / _HOUR, 2),
        "core_percent": round(spent_s / (rounds * 10) * 100, 3),
        "memory_mb": round(most_mb - before_mb, 1),
        "round_ms": round(slowest_s * 1000, 1),
        "bytes_per_sample": round(kept / samples, 3),
        "file_bytes_per_sample": round(size / samples, 3),
        "slowest_chart_ms": round(chart_ms, 2),
    }


async def _slowest_chart(metrics: MeasuredMetrics, labels: Labels, now_ms: int) -> float:
    """Return the median time of five of the slowest chart of a task over its whole life, among one for each value."""
    step_ms = chart_step_ms(_START_MS, now_ms, 500)
    times: dict[str, list[float]] = {name: [] for name in _NAMES}
    for _ in range(5):
        for name in _NAMES:
            began_s = time.perf_counter()
            found = await metrics.range(Query(name, matching(dict(labels.pairs)), _START_MS, now_ms, step_ms))
            times[name].append((time.perf_counter() - began_s) * 1000)
            if len(found.series) != 1 or not found.series[0].points():
                raise RuntimeError(f"{name} was not kept")
    return max(statistics.median(each) for each in times.values())


def _sizes(path: Path) -> tuple[int, int]:
    """Return the size of the file, and of the blocks with their indexes in it."""
    size = path.stat().st_size
    with sqlite3.connect(path) as connection:
        try:
            kept = connection.execute("SELECT sum(pgsize) FROM dbstat WHERE name NOT LIKE '%journal%'").fetchone()[0]
        except sqlite3.OperationalError:
            kept = size
    return size, int(kept)


def read_gpus(directory: Path, rounds: int) -> dict[str, Any]:
    """Return what it costs to read eight GPUs every ten seconds."""
    reader: GpuReader = open_nvidia()
    if isinstance(reader, NoGpus):
        for number in range(_GPUS):
            _make_card(directory / f"card{number}" / "device")
        reader = AmdGpus(amd_cards(directory))
    there = len(reader.read(range(_GPUS)))
    began_s = time.process_time()
    for _ in range(rounds):
        if len(reader.read(range(_GPUS))) != there or len(reader.health(range(_GPUS))) != there:
            raise RuntimeError("a GPU was not read")
    spent_s = time.process_time() - began_s
    each = spent_s / rounds / max(1, there) * _GPUS
    return {"gpus": there, "reader": type(reader).__name__, "gpus_core_percent": round(each / 10 * 100, 4)}


def _make_card(device: Path) -> None:
    texts = {
        "vendor": "0x1002", "gpu_busy_percent": "93", "mem_info_vram_total": "206141652992",
        "mem_info_vram_used": "150323855360", "hwmon/hwmon1/power1_average": "612000000",
        "hwmon/hwmon1/power1_cap": "750000000", "ras/umc_err_count": "ue: 0\nce: 3",
    }  # fmt: skip
    sensors = {f"hwmon/hwmon1/temp{number}_{kind}": "64000" for number in (1, 2, 3) for kind in ("input", "crit")}
    for name, text in {**texts, **sensors}.items():
        (device / name).parent.mkdir(parents=True, exist_ok=True)
        (device / name).write_text(f"{text}\n")


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=_HOUR)
    parser.add_argument("--days", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        hour = asyncio.run(keep(Path(directory), options.tasks, options.rounds))
    with tempfile.TemporaryDirectory() as directory:
        day = asyncio.run(keep(Path(directory), 100, 24 * _HOUR * options.days)) if options.days else {}
    with tempfile.TemporaryDirectory() as directory:
        gpus = read_gpus(Path(directory), options.rounds)
    flat = {f"{span}_{name}": value for span, found in (("hour", hour), ("day", day)) for name, value in found.items()}
    answer(**flat, **gpus)


if __name__ == "__main__":
    main()

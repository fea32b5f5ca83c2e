"""The measurements of `docs/performance.md` still measure: each is carried out in small."""

from __future__ import annotations

import json
import os
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import start
from tests.kube.server import why_not

ROOT = Path(__file__).resolve().parents[2]
_KUBE = pytest.mark.skipif(bool(why_not()), reason=why_not() or "Kubernetes is there")


def measurement(command: str, figure: str, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(command, figure, marks=[pytest.mark.full, *marks])


# What they share, a platform that is started and asked, is tried by the first ones.
@pytest.mark.parametrize(
    ("command", "figure"),
    [
        ("throughput --jobs 5 --backend simulated", "submissions_per_s"),
        ("kubernetes --what decode --pods 50", "kb_per_pod"),
        ("lemons --seeds 1 --days 20 --jobs 400 --only ordinary", "avoided_percent"),
        ("task_use --tasks 3 --rounds 2", "core_percent_of_100_tasks"),
        measurement("monitoring --tasks 5 --rounds 40 --days 0", "hour_bytes_per_sample"),
        measurement("idleness --jobs 1 --rules 40", "idle_found_percent"),
        measurement("throughput --jobs 5", "jobs_per_s"),
        measurement("drain --jobs 20 --nodes 2", "drained_per_s"),
        measurement("first_log --jobs 2", "p95_ms"),
        measurement("gang --tasks 40 --nodes 4 --run-s 1 --settle-s 1", "launched_s"),
        measurement("gang --shape trickle --tasks 20 --settle-s 1", "cpu_ms_per_task"),
        measurement("kubernetes_jobs --what create --pods 16 --gang 8 --nodes 2 --turns 1", "created_per_s", _KUBE),
        measurement("shells --shells 3 --seconds 1", "worst_p95_ms"),
        measurement("logs --gb 0.005 --search-gb 0.005 --times 2", "search_worst_s"),
        measurement("followed_logs --readers 20 --seconds 2 --nodes 2 --log-mb 1 --settle-s 0.5", "memory_mb"),
    ],
)
def test_a_measurement_gives_its_figure(command: str, figure: str, tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    with printed.open("wb") as log, chdir(ROOT):
        measuring = start("tests.e2e.measuring:main", command.split(), os.environ, log)
    try:
        code = measuring.wait(280)
    finally:
        measuring.kill()
        measuring.wait()
    text = printed.read_text()
    assert code == 0, text[-2000:]
    assert json.loads(text[text.index("{") :])[figure] > 0

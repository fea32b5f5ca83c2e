"""The measurements of `docs/performance.md` still measure: each is carried out in small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kube.server import why_not

ROOT = Path(__file__).resolve().parents[2]
_KUBE = pytest.mark.skipif(bool(why_not()), reason=why_not() or "Kubernetes is there")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "figure"),
    [
        ("throughput --jobs 5", "jobs_per_s"),
        ("throughput --jobs 5 --backend simulated", "submissions_per_s"),
        ("drain --jobs 20 --nodes 2", "drained_per_s"),
        ("first_log --jobs 2", "p95_ms"),
        ("gang --tasks 40 --nodes 4 --run-s 3", "launched_s"),
        ("gang --shape trickle --tasks 20", "cpu_ms_per_task"),
        pytest.param(
            "kubernetes_jobs --what create --pods 16 --gang 8 --nodes 2 --turns 1", "created_per_s", marks=_KUBE
        ),
        ("kubernetes --what decode --pods 50", "kb_per_pod"),
        ("task_use --tasks 3 --rounds 2", "core_percent_of_100_tasks"),
        ("shells --shells 3 --seconds 1", "worst_p95_ms"),
        ("logs --gb 0.02 --search-gb 0.01 --times 2", "search_worst_s"),
        ("followed_logs --readers 20 --seconds 5 --nodes 2 --log-mb 1", "memory_mb"),
    ],
)
def test_a_measurement_gives_its_figure(command: str, figure: str) -> None:
    name, *options = command.split()
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *options], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)[figure] > 0

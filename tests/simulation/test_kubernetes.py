"""Seeds of trouble for servers that run tasks on Kubernetes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.run import attempt

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=pytest.mark.full if first else pytest.mark.slow) for first in range(0, 60, 6)],
)
def test_seeds_keep_every_promise(first: int) -> None:
    count = 6 if first else 3
    assert [message for seed in range(first, first + count) if (message := attempt(seed, "kubernetes")[1])] == []


def test_a_seed_is_the_same_story_in_every_process() -> None:
    code = (
        "from tests.simulation.kubernetes.world import KubeWorld\n"
        "from tests.simulation.world import live_through\n"
        "print(live_through(1, KubeWorld))"
    )
    stories = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(stories) == 1

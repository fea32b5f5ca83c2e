"""The benchmark replays what it is told to and prints one JSON object."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "simulate.py"


def test_the_benchmark_counts_every_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(BENCH), "--jobs", "300", "--days", "2", "--nodes", "16"])
    runpy.run_path(str(BENCH), run_name="__main__")
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["gpus"], found["decisions"]) == (300, 128, 300)
    assert found["replay_s"] > 0
    assert 0.1 < found["utilisation"] <= 1

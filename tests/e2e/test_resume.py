"""A job that is preempted learns why and until when, saves its work, and ends with the result of one that was not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.server import ROOT, Server, until

EXAMPLE = ROOT / "examples" / "11-resume.yaml"
STEPS = 150


def job() -> dict[str, object]:
    """Return the example with more steps, so that it is still under way when another job comes."""
    job = yaml.safe_load(EXAMPLE.read_text())
    job["parameters"] |= {"steps": STEPS, "seconds": 0.03}
    return dict(job)


def result_alone(tmp_path: Path) -> str:
    """Return what the example's program prints if nothing disturbs it."""
    environment = {**os.environ, "PAI_CHECKPOINT_DIR": str(tmp_path), "STEPS": str(STEPS), "SECONDS_OF_A_STEP": "0"}
    program = yaml.safe_load(EXAMPLE.read_text())["parameters"]["program"]
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.full
def test_a_preempted_job_resumes_and_ends_with_the_same_result(tmp_path: Path) -> None:
    server = Server.start(tmp_path, 0, "--cpus-per-node", "1")
    try:
        assert server.http.post("/jobs", content=yaml.safe_dump(job())).status_code == 202
        kept = tmp_path / "data" / "tasks" / "process" / ".checkpoints"
        until(lambda: any(kept.glob("*/train.0/state.json")), "it saves its work")
        everything = {"instances": 4, "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}}
        urgent = {"extras": {"hivedScheduler": {"jobPriorityClass": "prod"}}, "role": everything}
        assert server.submit("urgent", "true", **urgent).status_code == 202
        assert server.ended("urgent") == "SUCCEEDED"
        assert server.ended("resume") == "SUCCEEDED"
        logs = sorted((tmp_path / "data" / "logs").glob("*.train.0.0/stdout.log"))
        first, second = (path.read_text() for path in logs)
        step = int(first.split("ends at step ")[1].split(":")[0])
        assert 0 < step < STEPS
        assert ": preempted: " in first
        assert second == f"goes on at step {step}\n{result_alone(tmp_path)}"
    finally:
        server.end()

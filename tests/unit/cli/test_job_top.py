"""`pai job top`: what running tasks use, as a table that fits."""

from __future__ import annotations

import json

import pytest

GPU = {
    "index": 0, "busyPercent": 100, "tensorPercent": 40, "memoryBytes": 8 << 30, "memoryTotalBytes": 80 << 30,
    "powerWatts": 350.5, "powerLimitWatts": 700, "temperatureCelsius": 61,
}  # fmt: skip


def task(index: int, **more: object) -> dict[str, object]:
    return {
        "taskRoleName": "worker", "taskIndex": index, "jobAttemptId": 0, "attemptId": 0, "time": 1000, "cpus": 1.5,
        "cpusRequested": 2, "memoryBytes": 1 << 30, "memoryRequestedBytes": 4 << 30, "processes": 3,
        "stoppedProcesses": 0, "gpus": [], **more,
    }  # fmt: skip


@pytest.fixture
def running(platform):
    status = {"username": "ann", "state": "RUNNING", "attemptId": 0, "submissionTime": 1000}
    platform.on("GET", "/jobs/ann~train", {"name": "train", "jobStatus": status, "taskRoles": {}})
    return platform


def test_a_row_for_each_task_with_the_columns_that_have_values(pai, running, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    running.on("GET", "/jobs/ann~train/usage", {"tasks": [task(0, gpus=[GPU, GPU]), task(1, stoppedProcesses=2)]})
    lines = [line for line in pai("job", "top", "train").out.splitlines() if set(line) - set(" ─")]
    heading, first, second = lines
    assert "network" not in heading
    assert "disk" not in heading
    for value in (
        "worker-0",
        "██████░░ 1.5/2",
        "██░░░░░░ 1.0 GiB/4.0 GiB",
        "100 %",
        "16.0 GiB/160.0 GiB",
        "701 W",
        "61 °C",
    ):
        assert value in first
    assert "3 (2 stopped)" in second
    found = json.loads(pai("job", "top", "train", "--json").out)["tasks"]
    assert [one["stoppedProcesses"] for one in found] == [0, 2]


def test_columns_that_do_not_fit_are_left_out():
    from openpai.cli.job_top import table
    from openpai.client.model import TaskUse

    tasks = [TaskUse.read(task(0, gpus=[GPU]))]
    headings = [str(column.header) for column in table(tasks, 60).columns]
    assert headings == ["task", "cpus", "memory"]
    assert len(table(tasks, 1000).columns) == 9


def test_without_a_task_it_says_why(pai, running):
    running.on("GET", "/jobs/ann~train/usage", {"tasks": []})
    assert "tasks are measured every five seconds" in pai("job", "top", "train").out
    assert json.loads(pai("job", "top", "train", "--json").out) == {"tasks": []}

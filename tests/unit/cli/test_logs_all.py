"""`pai job logs` of every task, since a time, with times."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.unit.cli.conftest import text_answer

BASE = "/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex"


@pytest.fixture
def two(platform):
    tasks = [{"taskIndex": at, "taskState": "SUCCEEDED", "attemptId": 0, "launchedTime": 1500} for at in (0, 1)]
    status = {"username": "ann", "state": "SUCCEEDED", "attemptId": 0, "submissionTime": 1000}
    job = {"name": "train", "jobStatus": status, "taskRoles": {"worker": {"taskStatuses": tasks}}}
    platform.on("GET", "/jobs/ann~train", job)
    for index in (0, 1):
        place = f"{BASE}/{index}/attempts/0/logs"
        uri = f"/log-manager/pai.test:80/api/v2{place}/all?ticket=t"
        platform.on("GET", place, {"locations": [{"name": "all", "uri": uri}]})
        platform.on("GET", f"{place}/all", f"line {index}\nlast")
    return platform


def test_each_line_stands_behind_the_name_of_its_task(pai, two):
    message = pai("job", "logs", "train", "--all-tasks", "--timestamps", "--since", "2026-01-31")
    assert message.out == "worker-0 | line 0\nworker-0 | last\nworker-1 | line 1\nworker-1 | last\n"
    params = two.requests[-1].url.params
    assert params["timestamps"] == "true"
    assert int(params["since"]) > 1_760_000_000_000
    message = pai("job", "logs", "train", "--all-tasks", "--json")
    assert [json.loads(line)["task"] for line in message.out.splitlines()] == ["worker-0", "worker-1"]


@pytest.mark.slow
def test_every_task_is_followed_until_the_job_is_over(pai, two, monkeypatch):
    def stream(index: int) -> httpx.Response:
        data = json.dumps({"stream": "stdout", "offset": 0, "text": f"line {index}\nlast"})
        return text_answer(f"event: log\nid: 1\ndata: {data}\n\nevent: end\ndata: {{}}\n\n")

    for index in (0, 1):
        two.answers["GET", f"/api/v2{BASE}/{index}/attempts/0/logs/all"] = [stream(index)]
    message = pai("job", "logs", "train", "--all-tasks", "--follow")
    assert sorted(message.out.splitlines()) == [
        "worker-0 | last", "worker-0 | line 0", "worker-1 | last", "worker-1 | line 1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words", [("-f", "--timestamps"), ("-f", "--since", "1h"), ("--since", "1h", "--tail", "3"), ("-a", "--index", "1")]
)
def test_what_does_not_go_together_is_refused(pai, two, words):
    assert pai("job", "logs", "train", *words).code == 2

"""What a script sees when it asks for something that a job which is over cannot do."""

from __future__ import annotations

import json

import httpx
import pytest

from openpai.cli.exits import Exit

OVER = {"code": "FinishedJobError", "message": "job ann~train is over", "advice": "start it again first"}
NO_DOORS = {"code": "NoJobSshInfoError", "message": "no task that runs", "advice": "wait until it runs"}


def is_in(platform, state: str) -> None:
    status = {"username": "ann", "state": state, "attemptId": 0, "submissionTime": 1000}
    platform.on("GET", "/jobs/ann~train", {"name": "train", "jobStatus": status, "taskRoles": {}})
    platform.on("GET", "/jobs/ann~train/ssh", NO_DOORS, status=404)
    for path, method in (("priority", "PUT"), ("rank", "PUT"), ("checkpoint", "POST")):
        platform.answers[method, f"/api/v2/jobs/ann~train/{path}"] = [httpx.Response(409, json=OVER)]


@pytest.mark.parametrize("words", [("priority", "train", "prod"), ("checkpoint", "train"), ("ssh", "train")])
def test_it_has_an_exit_code_of_its_own(pai, platform, words):
    is_in(platform, "SUCCEEDED")
    message = pai("job", *words)
    assert message.code == Exit.JOB_OVER == 7
    assert "is over" in message.err
    assert "start it again first" in message.err


def test_json_says_so_as_well(pai, platform):
    is_in(platform, "FAILED")
    message = pai("job", "ssh", "train", "--json")
    assert message.code == Exit.JOB_OVER
    assert json.loads(message.out)["code"] == "FinishedJobError"


@pytest.mark.parametrize("state", ["WAITING", "RUNNING"])
def test_a_job_that_is_not_over_is_worth_waiting_for(pai, platform, state):
    is_in(platform, state)
    message = pai("job", "ssh", "train")
    assert message.code == Exit.NOT_FOUND
    assert "wait until it runs" in message.err


def test_stopping_it_is_done_already(pai, platform):
    is_in(platform, "SUCCEEDED")
    platform.on("PUT", "/jobs/ann~train/executionType", {"message": "ok"})
    message = pai("job", "stop", "train")
    assert message.code == Exit.OK
    assert "has ended" in message.out

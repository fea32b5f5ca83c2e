"""`pai admin import-jobs`: what an OpenPAI's jobs were, seen through the API of the platform that took them over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from openpai.app import main as _main  # noqa: F401  # adds the server's commands to `pai`
from openpai.cli.openpai_source import OpenPai
from tests.integration.fake_openpai import DAY, TOKEN, job, open_openpai, with_jobs
from tests.integration.sharing_world import Sharing, open_sharing
from tests.integration.terminal import on_a_loop
from tests.outcome import run_pai
from tests.quiet_logs import quiet_logs

Import = Callable[..., dict[str, tuple[str, str]]]


@contextmanager
def platform(root: Path) -> Iterator[tuple[Sharing, Callable[..., Any]]]:
    """Run a platform in a data directory until the context ends."""
    with on_a_loop() as (_, run):
        opened = open_sharing(root)
        world = run(opened.__aenter__())
        yield world, run
        run(opened.__aexit__(None, None, None))


@pytest.fixture
def history(tmp_path: Path) -> Iterator[Import]:
    """Return what imports the jobs of an OpenPAI into a platform that is stopped."""
    with quiet_logs(), platform(tmp_path):
        pass

    def run(url: str, *options: str) -> dict[str, tuple[str, str]]:
        place = ("--data-dir", str(tmp_path / "data"), "--token-stdin", "--json")
        outcome = run_pai("admin", "import-jobs", url, *place, *options, stdin=f"{TOKEN}\n")
        assert outcome.code == 0, outcome.err
        return {one["name"]: (one["action"], one["detail"]) for one in outcome.json()["jobs"]}

    with quiet_logs():
        yield run


def test_jobs_that_are_over_are_shown_as_they_ended(history, tmp_path):
    jobs = (
        job("ann", "train"),
        job("ann", "broken", "FAILED", 255),
        job("bob", "ended", "STOPPED", -210),
        job("bob", "runs", "RUNNING", None),
        job("bob", "odd", taskRoles={}),
    )
    with open_openpai(with_jobs(*jobs)) as url:
        planned = history(url)
        assert {name: action for name, (action, _) in planned.items()} == {
            "ann~train": "add", "ann~broken": "add", "bob~ended": "add", "bob~runs": "skip", "bob~odd": "skip",
        }  # fmt: skip
        assert "only jobs that are over" in planned["bob~runs"][1]
        assert "taskRoles" in planned["bob~odd"][1]
        assert history(url, "--apply") == planned
        again = history(url, "--apply")
        assert [again[name][0] for name in ("ann~train", "ann~broken", "bob~ended")] == ["keep"] * 3
    with platform(tmp_path) as (world, run):
        listed = {one["name"]: one for one in run(world.get("/jobs"))}
        assert {name: one["state"] for name, one in listed.items()} == {
            "train": "SUCCEEDED", "broken": "FAILED", "ended": "STOPPED",
        }  # fmt: skip
        train = listed["train"]
        assert (train["submissionTime"], train["completedTime"], train["retries"]) == (DAY, DAY + 65_000, 1)
        assert (train["virtualCluster"], train["jobPriority"], train["totalGpuNumber"]) == ("vision", "prod", 4)
        details = run(world.get("/jobs/ann~broken"))
        assert details["jobStatus"]["appExitCode"] == 255
        assert details["jobStatus"]["appExitSpec"]["phrase"] == "PAIRuntimeUnknownFailed"
        (task, _) = details["taskRoles"]["Work_er"]["taskStatuses"]
        assert (task["containerNodeName"], task["containerExitCode"]) == ("gpu-0", 255)
        config = run(world.ask("GET", "/jobs/ann~train/config"))
        assert "python train.py" in config.text


def test_a_job_with_a_taken_name_is_left_out(history, tmp_path):
    first, second = job("ann", "train"), job("ann", "train")
    second["summary"] = {**second["summary"], "debugId": "0" * 32}
    with open_openpai(with_jobs(first)) as url:
        history(url, "--apply")
    with open_openpai(with_jobs(second)) as url:
        assert history(url, "--apply")["ann~train"] == ("skip", "another job of that user has this name here")


@pytest.mark.parametrize(
    "change",
    [
        {"debugId": "../../etc"}, {"name": "a b"}, {"username": None}, {"completedTime": None, "submissionTime": "x"},
        {"retries": -5, "retryDetails": None, "jobPriority": "no", "launchedTime": "never", "appExitCode": True},
    ],
)  # fmt: skip
def test_answers_that_openpai_does_not_give_break_nothing(history, change):
    odd = job("ann", "train")
    odd["summary"] = {**odd["summary"], **change}
    found = with_jobs(odd)
    path = f"/jobs/{odd['summary']['username']}~{odd['summary']['name'].replace(' ', '%20')}"
    found[path], found[f"{path}/config"] = odd["/jobs/ann~train"], odd["/jobs/ann~train/config"]
    found[path]["jobStatus"]["appCompletedTime"] = change.get("completedTime", DAY)
    with open_openpai(found) as url:
        ((action, detail),) = history(url, "--apply").values()
    assert action == ("add" if "retries" in change else "skip"), detail


def test_a_limit_on_requests_is_waited_for():
    waited: list[float] = []
    with open_openpai({**with_jobs(), "busy": 2}) as url, OpenPai(url, TOKEN, waited.append) as old:
        assert old.get("/jobs") == []
    assert len(waited) == 2

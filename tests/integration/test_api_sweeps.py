"""Sweeps over HTTP: submitted, shown, found and stopped as one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .api_world import World, job_file, open_world

MORE = "parameters: {lr: 1}\nextras: {private: true, sweep: {matrix: {lr: [1, 0.5, high]}, maxRunning: 2}}"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        yield world


async def test_a_sweep_is_submitted_shown_found_and_stopped_as_one(world: World) -> None:
    answer = await world.ask("POST", "/sweeps", content=job_file("train", more=MORE).encode())
    assert (answer.status_code, answer.json()["jobs"]) == (202, ["train-1", "train-2", "train-3"])
    found = (await world.ask("GET", "/sweeps/train")).json()
    assert (found["user"], found["name"], found["maxRunning"], sum(found["states"].values())) == ("ann", "train", 2, 3)
    assert [job["parameters"] for job in found["jobs"]] == [{"lr": 1}, {"lr": 0.5}, {"lr": "high"}]
    listed = (await world.ask("GET", "/jobs", params={"sweep": "train"})).json()
    assert {job["name"] for job in listed} == {"train-1", "train-2", "train-3"}
    await world.submit("alone")
    once = (await world.ask("GET", "/jobs", params={"foldSweeps": "true"})).json()
    assert [(job["name"], job.get("sweep")) for job in once] == [("alone", None), ("train-1", "train")]
    detail = (await world.ask("GET", "/jobs/ann~train-2")).json()
    assert (detail["sweep"], once[1]["tags"]) == ("train", ["sweep:train"])
    mistaken = await world.ask("GET", "/jobs/train")
    assert (mistaken.status_code, mistaken.json()["code"]) == (404, "NoJobError")
    assert "pai sweep show train" in mistaken.json()["advice"]
    assert "sweep" not in (await world.ask("GET", "/jobs/ann~train", user="bob")).text
    stop = {"action": "stop", "where": {"sweep": "train"}}
    assert (await world.ask("POST", "/jobs/bulk", json=stop)).json()["done"] == 3


async def test_a_user_who_may_not_read_a_private_job_file_sees_no_parameters(world: World) -> None:
    await world.ask("POST", "/sweeps", content=job_file("train", more=MORE).encode())
    seen = await world.ask("GET", "/sweeps/ann~train", user="bob")
    assert seen.status_code in (200, 403)
    assert "high" not in seen.text
    for name in ("none", "ann~none", "~", "%00", "a,b"):
        assert (await world.ask("GET", f"/sweeps/{name}")).status_code in (400, 404)


async def test_the_tags_of_sweeps_cannot_be_forged(world: World) -> None:
    await world.submit("other")
    for tag in ("sweep:train", "sweep-job"):
        answer = await world.ask("PUT", "/jobs/ann~other/tag", json={"value": tag})
        assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")


async def test_a_sweep_sent_as_a_job_is_refused_with_the_right_address(world: World) -> None:
    answer = await world.ask("POST", "/jobs", content=job_file("train", more=MORE).encode())
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidProtocolError")
    assert "/api/v2/sweeps" in answer.text


async def test_a_sweep_is_checked_as_its_submission_would(world: World) -> None:
    good = job_file("train", more=MORE).encode()
    answer = await world.ask("POST", "/jobs/check", content=good)
    assert (answer.status_code, answer.json()["name"]) == (200, "train")
    bad = job_file("train", more=MORE.replace("{lr: [", "{rl: [")).encode()
    answer = await world.ask("POST", "/jobs/check", content=bad)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidProtocolError")
    assert "extras.sweep.matrix.rl" in answer.text

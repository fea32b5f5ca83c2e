"""A user is removed, and a new one gets the name: what the first one left does not belong to the second one."""

from __future__ import annotations

import pytest

from openpai.lifecycle.model import AttemptKey

from .api_world import PASSWORD, World

HOUR_MS = 3_600_000


async def succeed(world: World) -> None:
    """Create a new user with the name of ann, an hour after her last action."""
    world.clock.at_ms += HOUR_MS
    assert (await world.ask("DELETE", "/users/ann", "root")).status_code == 200
    world.clock.at_ms += HOUR_MS
    new = {"username": "ann", "password": PASSWORD}
    assert (await world.ask("POST", "/users", "root", json=new)).status_code == 201
    del world.tokens["ann"]


async def ended(world: World) -> None:
    """Let a job of ann hold a GPU for an hour and end."""
    key = AttemptKey(await world.submit("train", gpus=1), 0, "worker", 0, 0)
    await world.grant()
    await world.started(key)
    world.clock.at_ms += HOUR_MS
    await world.exited(key)


async def test_what_was_done_by_or_to_the_first_is_not_shown_to_the_second(world: World) -> None:
    await world.submit("train")
    await world.ask("PUT", "/users/ann/grouplist", "root", json={"grouplist": []})
    assert len((await world.get("/audit"))["entries"]) == 3
    await succeed(world)
    entries = (await world.get("/audit", **{"from": "0"}))["entries"]
    assert [entry["action"] for entry in entries] == ["login", "user.add"]
    everything = (await world.get("/audit", "root", concerning="ann"))["entries"]
    assert {"job.submit", "user.change", "user.remove"} < {entry["action"] for entry in everything}


async def test_what_the_first_used_is_not_shown_to_the_second(world: World) -> None:
    await ended(world)
    assert (await world.get("/reports/use"))["total"]["gpuHours"] > 0
    await succeed(world)
    assert (await world.get("/reports/use"))["rows"] == []
    assert (await world.get("/reports/use", to=str(world.clock.at_ms - 2 * HOUR_MS)))["rows"] == []
    assert (await world.get("/reports/use", "root"))["total"]["gpuHours"] > 0


async def test_the_second_is_not_alerted_about_jobs_of_the_first(world: World) -> None:
    await world.submit("train")
    world.clock.at_ms += HOUR_MS
    assert [alert["labels"]["job_name"] for alert in await world.get("/alerts")] == ["ann~train"]
    await succeed(world)
    assert await world.get("/alerts") == []


async def test_a_job_of_the_first_does_not_run_again_in_the_name_of_the_second(world: World) -> None:
    await ended(world)
    await succeed(world)
    answer = await world.ask("PUT", "/jobs/ann~train/executionType", "root", json={"value": "START"})
    assert (answer.status_code, answer.json()["code"]) == (403, "ForbiddenUserError")
    assert "the name belongs to a new account" in answer.json()["message"]


async def test_a_person_is_not_sent_to_an_account_only_because_it_has_their_name(world: World) -> None:
    await ended(world)
    await succeed(world)
    answer = await world.ask("GET", "/jobs/train/ssh")
    assert "belongs to an earlier user of this name" in answer.json()["message"]
    assert answer.json()["advice"] == "only administrators may"


async def test_a_quota_goes_by_the_name_and_so_does_what_is_used_of_it(world: World) -> None:
    limit = {"user": "ann", "gpuHoursPerMonth": 1}
    assert (await world.ask("PUT", "/quotas", "root", json=limit)).status_code == 201
    await ended(world)
    await succeed(world)
    (mine,) = await world.get("/quotas/me")
    assert mine["gpuHoursPerMonth"] == 1
    assert mine["used"]["gpuHoursThisMonth"] == pytest.approx(1, rel=0.01)

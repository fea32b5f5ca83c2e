"""Many jobs at once: what is done to each, by whom, and what becomes of those that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from .api_world import World, open_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        for name in ("one", "two", "three"):
            await world.submit(name, "ann")
        await world.submit("other", "bob")
        yield world


async def bulk(world: World, user: str = "ann", **promise: Any) -> Any:
    answer = await world.ask("POST", "/jobs/bulk", user, json=promise)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def states(world: World) -> dict[str, str]:
    return {job["name"]: job["state"] for job in await world.get("/jobs")}


async def test_each_named_job_gets_an_answer_of_its_own(world: World) -> None:
    message = await bulk(world, action="stop", jobs=["one", "ann~two", "bob~other", "none", "one"])
    assert (message["done"], message["failed"], message["more"]) == (2, 2, 0)
    assert [(each["job"], each["status"], each.get("code")) for each in message["results"]] == [
        ("ann~one", 200, None),
        ("ann~two", 200, None),
        ("bob~other", 403, "ForbiddenUserError"),
        ("none", 404, "NoJobError"),
    ]
    assert await states(world) == {"one": "STOPPED", "two": "STOPPED", "three": "WAITING", "other": "WAITING"}


async def test_a_filter_means_ones_own_jobs_and_for_administrators_all(world: World) -> None:
    assert (await bulk(world, action="tag", tag="red", where={"state": "WAITING"}))["done"] == 3
    assert {job["name"] for job in await world.get("/jobs", tagsContain="red")} == {"one", "two", "three"}
    assert (await bulk(world, "root", action="stop", where={"tagsContain": "red", "keyword": "th"}))["done"] == 1
    assert (await bulk(world, "root", action="stop", where={"vc": "default"}))["done"] == 3
    assert set((await states(world)).values()) == {"STOPPED"}
    assert (await bulk(world, action="untag", tag="red", where={"keyword": "one"}))["done"] == 1
    assert (await bulk(world, action="untag", tag="red", jobs=["one"]))["results"][0]["code"] == "NoTagError"


async def test_jobs_that_need_no_change_do_not_stand_before_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.api.routes.job_bulk.JOBS_MAX", 1)
    # On a busy machine a count takes long enough to be cached, and then `more` is as old as the cache.
    monkeypatch.setattr("openpai.store.totals.QUICK_S", 3600.0)
    for about in (
        {"action": "tag", "tag": "red"},
        {"action": "untag", "tag": "red"},
        {"action": "stop"},
        {"action": "start"},
    ):
        message = [await bulk(world, **about, where={"username": "ann"}) for _ in range(4)]
        assert [(each["done"], each["failed"], each["more"]) for each in message] == [
            (1, 0, 2),
            (1, 0, 1),
            (1, 0, 0),
            (0, 0, 0),
        ], about
    assert (await bulk(world, action="stop", where={"state": "STOPPED"}))["results"] == []


async def test_jobs_are_archived_brought_back_and_deleted_together(world: World) -> None:
    assert (await bulk(world, action="archive", jobs=["one"]))["results"][0]["code"] == "ConflictJobError"
    await bulk(world, action="stop", where={"username": "ann"})
    assert (await bulk(world, action="archive", where={"state": "STOPPED"}))["done"] == 3
    assert set(await states(world)) == {"other"}
    assert (await bulk(world, action="unarchive", where={"keyword": "one"}))["done"] == 1
    assert set(await states(world)) == {"other", "one"}
    ids = [job["debugId"] for job in await world.get("/jobs", archived="true")]
    assert (await bulk(world, action="start", jobs=ids))["results"][0]["code"] == "ReadOnlyJobError"
    assert (await bulk(world, action="delete", jobs=ids))["done"] == 2
    assert await world.get("/jobs", archived="true") == []
    assert (await bulk(world, action="start", jobs=["one"]))["done"] == 1
    assert (await states(world))["one"] == "WAITING"


async def test_no_more_than_a_thousand_at_a_time_and_the_rest_is_counted(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr("openpai.api.routes.job_bulk.JOBS_MAX", 2)
    message = await bulk(world, action="tag", tag="red", where={"username": "ann"})
    assert (message["done"], message["more"]) == (2, 1)


@pytest.mark.parametrize(
    "promise",
    [
        {},
        {"action": "stop"},
        {"action": "explode", "jobs": ["one"]},
        {"action": "stop", "jobs": []},
        {"action": "stop", "jobs": ["one"] * 1001},
        {"action": "stop", "jobs": ["one"], "where": {"state": "WAITING"}},
        {"action": "stop", "where": {}},
        {"action": "stop", "where": {"stat": "WAITING"}},
        {"action": "stop", "where": {"limit": 1}},
        {"action": "tag", "jobs": ["one"]},
        {"action": "tag", "tag": "a,b", "jobs": ["one"]},
        {"action": "stop", "tag": "red", "jobs": ["one"]},
    ],
)
async def test_a_change_that_is_not_clear_is_refused_and_nothing_is_done(world: World, promise: dict[str, Any]) -> None:
    answer = await world.ask("POST", "/jobs/bulk", json=promise)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")
    assert set((await states(world)).values()) == {"WAITING"}

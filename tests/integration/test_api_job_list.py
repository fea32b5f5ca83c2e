"""The list of jobs: every filter, order and page parameter, alone and together."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa

from openpai.api.services import Rate
from openpai.store.schema import job_details, jobs

from .api_world import World, open_world

AT = 1_700_000_000_000
ORDERS = [
    f"{field},{way}"
    for way in ("ASC", "DESC")
    for field in (
        "jobName",
        "submissionTime",
        "username",
        "vc",
        "retries",
        "totalTaskNumber",
        "totalGpuNumber",
        "state",
        "completionTime",
        "jobPriority",
    )
]


@asynccontextmanager
async def four_jobs(root: Path) -> AsyncIterator[World]:
    async with open_world(root, lists=Rate(1_000_000, 1_000_000)) as world:
        await world.submit("alpha", "ann", gpus=1)
        await world.submit("beta", "bob", instances=2, more="extras: {hivedScheduler: {jobPriorityClass: prod}}")
        await world.submit("gamma", "ann", more="extras: {hivedScheduler: {jobPriorityClass: oppo}}")
        await world.submit("annex", "bob")
        await world.commands.stop("ann", "gamma", "ann")
        for name, tag in (("beta", "red"), ("annex", "red"), ("annex", "blue")):
            await world.ask("PUT", f"/jobs/{name}/tag", "bob", json={"value": tag})
        yield world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with four_jobs(tmp_path) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def listed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The same jobs for all tests that only read."""
    async with four_jobs(tmp_path_factory.mktemp("listed")) as world:
        yield world


reads = pytest.mark.asyncio(loop_scope="module")


async def names(world: World, **params: Any) -> list[str]:
    return [job["name"] for job in await world.get("/jobs", **params)]


@reads
async def test_an_entry_has_openpais_fields(listed: World) -> None:
    [entry] = await listed.get("/jobs", keyword="beta")
    assert entry == {
        "debugId": entry["debugId"],
        "name": "beta",
        "username": "bob",
        "state": "WAITING",
        "subState": "AttemptCreationPending",
        "executionType": "START",
        "tags": ["red"],
        "retries": 0,
        "retryDetails": {"user": 0, "platform": 0, "resource": 0},
        "retryDelayTime": None,
        "submissionTime": 1_700_000_001_000,
        "createdTime": 1_700_000_001_000,
        "launchedTime": None,
        "completedTime": None,
        "appLaunchedTime": None,
        "appCompletedTime": None,
        "appExitCode": None,
        "virtualCluster": "default",
        "progress": None,
        "totalGpuNumber": 0,
        "totalTaskNumber": 2,
        "totalTaskRoleNumber": 1,
        "jobPriority": "prod",
        "rank": 0,
        "private": False,
        "archivedTime": None,
    }


@reads
@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({}, "annex gamma beta alpha"),
        ({"username": "ann"}, "gamma alpha"),
        ({"username": "ann,bob"}, "annex gamma beta alpha"),
        ({"username": "an"}, ""),
        ({"vc": "default"}, "annex gamma beta alpha"),
        ({"vc": "other"}, ""),
        ({"state": "WAITING"}, "annex beta alpha"),
        ({"state": "STOPPED"}, "gamma"),
        ({"state": "STOPPED,WAITING"}, "annex gamma beta alpha"),
        ({"state": "UNKNOWN"}, ""),
        ({"state": "UNKNOWN,STOPPED"}, "gamma"),
        ({"keyword": "ann"}, "annex gamma alpha"),
        ({"keyword": "Ann"}, ""),
        ({"keyword": "%"}, ""),
        ({"keyword": "default"}, "annex gamma beta alpha"),
        ({"tagsContain": "red"}, "annex beta"),
        ({"tagsContain": "blue,green"}, "annex"),
        ({"tagsNotContain": "red"}, "gamma alpha"),
        ({"tagsContain": "red", "tagsNotContain": "blue"}, "beta"),
        ({"jobPriority": "prod"}, "beta"),
        ({"jobPriority": "default"}, "annex alpha"),
        ({"jobPriority": "default,oppo"}, "annex gamma alpha"),
        ({"jobPriority": "default", "keyword": "alp"}, "alpha"),
        ({"username": "bob", "state": "WAITING", "jobPriority": "prod"}, "beta"),
        ({"offset": 1, "limit": 2}, "gamma beta"),
        ({"offset": 4}, ""),
        ({"limit": 0}, ""),
        ({"order": "jobName,ASC"}, "alpha annex beta gamma"),
        ({"order": "jobName,DESC"}, "gamma beta annex alpha"),
        ({"order": "submissionTime,ASC"}, "alpha beta gamma annex"),
        ({"order": "username,ASC", "username": "ann,bob"}, "alpha gamma beta annex"),
        ({"order": "totalTaskNumber,DESC", "limit": 1}, "beta"),
        ({"order": "totalGpuNumber,DESC", "limit": 1}, "alpha"),
        ({"order": "completionTime,ASC", "limit": 1}, "gamma"),
        ({"order": "jobPriority,DESC", "limit": 2}, "annex alpha"),
        ({"order": "jobPriority,ASC", "limit": 2}, "gamma beta"),
        ({"order": "state,ASC", "limit": 1}, "gamma"),
        ({"order": "state,DESC"}, "annex beta alpha gamma"),
        ({"order": "color,ASC"}, "annex gamma beta alpha"),
        ({"order": "jobName,UP"}, "annex gamma beta alpha"),
        ({"submittedFrom": AT + 1000}, "annex gamma beta"),
        ({"submittedTo": AT + 1000}, "alpha"),
        ({"submittedFrom": AT + 1000, "submittedTo": AT + 3000}, "gamma beta"),
        ({"jobPriority": "default", "tagsContain": "red"}, "annex"),
        ({"archived": "true"}, ""),
        ({"archived": "false"}, "annex gamma beta alpha"),
        ({"unheard": "of"}, "annex gamma beta alpha"),
    ],
)
async def test_every_filter_order_and_page(listed: World, params: dict[str, Any], found: str) -> None:
    assert await names(listed, **params) == found.split()


@reads
async def test_the_next_page_is_where_the_first_was_asked(listed: World) -> None:
    headers = await listed.login("ann")
    for gateway in ("", "/rest-server"):
        first = await listed.http.get(f"{gateway}/api/v2/jobs?limit=3", headers=headers)
        assert first.links["next"]["url"].startswith(f"{gateway}/api/v2/jobs?")
        [last] = (await listed.http.get(first.links["next"]["url"], headers=headers)).json()
        assert last["name"] == "alpha"


@reads
async def test_the_total_counts_all_that_match(listed: World) -> None:
    page = await listed.get("/jobs", withTotalCount="true", limit=1, username="bob")
    assert (page["totalCount"], [job["name"] for job in page["data"]]) == (2, ["annex"])
    assert await listed.get("/jobs", withTotalCount="true", state="UNKNOWN") == {"totalCount": 0, "data": []}
    for order in ("submissionTime,DESC", "jobName,ASC"):
        for keyword in ("", "a"):
            counted = await listed.get(
                "/jobs", withTotalCount="true", limit=0, username="bob", order=order, keyword=keyword
            )
            assert counted == {"totalCount": 2, "data": []}, "pages with numbers only ask for nothing else"
    assert isinstance(await listed.get("/jobs", withTotalCount="yes"), list)


async def followed(world: World, **params: Any) -> list[str]:
    """Return the names on all pages, going from link to link."""
    found: list[str] = []
    answer = await world.ask("GET", "/jobs", params=params)
    while True:
        found += [job["name"] for job in answer.json()]
        link = answer.headers.get("link")
        if link is None:
            return found
        path, _, rel = link.partition(">")
        assert rel == '; rel="next"'
        answer = await world.ask("GET", path.removeprefix("</api/v2"))
        assert answer.status_code == 200, answer.text


@reads
@pytest.mark.parametrize("order", ORDERS)
@reads
async def test_pages_follow_each_other_in_every_order(listed: World, order: str) -> None:
    whole = await names(listed, order=order)
    assert len(whole) == 4
    for limit in (1, 2, 3, 4):
        assert await followed(listed, order=order, limit=limit) == whole
    assert await followed(listed, order=order, limit=1, offset=2) == whole[2:]
    assert await followed(listed, order=order, limit=1, tagsNotContain="blue") == [n for n in whole if n != "annex"]


async def test_the_next_page_shows_no_job_twice_though_others_came(world: World) -> None:
    first = await world.ask("GET", "/jobs", params={"limit": 2})
    await world.submit("late")
    path = first.headers["link"].partition(">")[0].removeprefix("</api/v2")
    assert [job["name"] for job in (await world.ask("GET", path)).json()] == ["beta", "alpha"]


@reads
async def test_a_place_in_another_list_is_refused(listed: World) -> None:
    link = (await listed.ask("GET", "/jobs", params={"limit": 1})).headers["link"]
    after = link.partition("after=")[2].partition(">")[0]
    for params in ({"after": "x"}, {"after": "AAAA"}, {"after": after, "order": "jobName,ASC"}, {"after": "WzFd"}):
        answer = await listed.ask("GET", "/jobs", params=params)
        assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError"), params


@pytest.mark.parametrize(
    ("order", "value"),
    [
        ([], 1),
        ({}, 1),
        ("jobName", "\ud800"),
        ("jobName", "a\0"),
        ("submissionTime", True),
        ("submissionTime", 2**63),
        # The databases keep counts in 32 bits, and one of them minds.
        ("retries", 2**31),
        ("totalTaskNumber", 2**31),
    ],
)
async def test_a_place_that_was_made_up_is_refused(listed: World, order: Any, value: Any) -> None:
    place = base64.urlsafe_b64encode(json.dumps([order, False, value, "x"]).encode()).decode()
    answer = await listed.ask("GET", "/jobs", params={"after": place, "order": f"{order},DESC"})
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")
    end = base64.urlsafe_b64encode(json.dumps(["submissionTime", False, 1, "\ud800"]).encode()).decode()
    assert (await listed.ask("GET", "/jobs", params={"after": end})).status_code == 400


async def test_a_list_without_a_limit_is_a_page_of_two_hundred(world: World) -> None:
    row, details = await _one(world)
    copies = [{**row, "id": f"{number + 10**9:032x}", "name": f"more-{number}"} for number in range(1, 1400)]
    their_details = [{**details, "job": copy["id"]} for copy in copies]

    def work(connection: sa.Connection) -> None:
        connection.execute(jobs.insert(), copies)
        connection.execute(job_details.insert(), their_details)

    await world.database.write(work)
    page = await world.ask("GET", "/jobs")
    assert (len(page.json()), "link" in page.headers, len(page.content) < 200_000) == (200, True, True)
    long = await world.ask("GET", "/jobs", params={"limit": 1200, "withTotalCount": "true", "order": "jobName,ASC"})
    assert (long.json()["totalCount"], len(long.json()["data"])) == (1403, 1200)
    everything = (await world.ask("GET", "/jobs", params={"limit": 50_000, "order": "jobName,ASC"})).json()
    found = [job["name"] for job in everything]
    assert (len(found), found) == (1403, sorted(found))
    assert found[3:1200] == [job["name"] for job in long.json()["data"]][3:]


async def _one(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the rows of one job."""

    def work(connection: sa.Connection) -> tuple[dict[str, Any], dict[str, Any]]:
        row = dict(connection.execute(sa.select(jobs).where(jobs.c.name == "alpha")).mappings().one())
        of_it = sa.select(job_details).where(job_details.c.job == row["id"])
        return row, dict(connection.execute(of_it).mappings().one())

    return await world.database.read(work)


@reads
@pytest.mark.parametrize(
    "params", [{"limit": 50_001}, {"limit": -1}, {"offset": -1}, {"limit": "x"}, {"keyword": "\0"}]
)
async def test_a_page_that_cannot_be_is_refused(listed: World, params: dict[str, Any]) -> None:
    answer = await listed.ask("GET", "/jobs", params=params)
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError")
    assert next(iter(params)) in answer.json()["message"]


@reads
async def test_a_finished_job_shows_when_and_how_it_ended(listed: World) -> None:
    [entry] = await listed.get("/jobs", keyword="gamma")
    assert (entry["state"], entry["executionType"], entry["appExitCode"]) == ("STOPPED", "STOP", -210)
    assert entry["completedTime"] == entry["launchedTime"] == listed.clock.at_ms


async def test_one_user_cannot_ask_for_the_list_without_end(tmp_path: Path) -> None:
    async with open_world(tmp_path, lists=Rate(1, 2)) as world:
        answers = [await world.ask("GET", "/jobs") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[2].headers["retry-after"] == "1"
        assert (await world.ask("GET", "/jobs", "bob")).status_code == 200
        world.clock.at_ms += 1000
        assert (await world.ask("GET", "/jobs")).status_code == 200

"""The queue of a virtual cluster over REST: its order, and places given by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from .sharing_world import SHARED, Sharing, eventually, open_sharing


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Sharing]:
    async with open_sharing(tmp_path) as world:
        await world.put("/cluster/config", {"promises": SHARED})
        yield world


async def waiting_line(shared: Sharing, *names: str) -> None:
    await shared.submit("first", "speech", 8)
    await shared.until("first", "RUNNING")
    for name in names:
        await shared.submit(name, "speech", 8)
        await shared.until_it_waits(name)


async def next_of(shared: Sharing, ended: str) -> str:
    """Stop a job and return the name of the one that runs next."""
    await shared.put(f"/jobs/{ended}/executionType", {"value": "STOP"}, status=202)
    found: list[str] = []

    async def is_so() -> bool:
        found[:] = [job["name"] for job in await shared.get("/jobs", params={"state": "RUNNING"})]
        return bool(found) and ended not in found

    await eventually(is_so, f"a client follows {ended}")
    return found[0]


async def test_a_job_moved_to_the_front_goes_first_and_one_moved_to_the_back_last(shared: Sharing) -> None:
    await waiting_line(shared, "a", "b", "c", "d")
    await shared.put("/jobs/a/rank", {"value": "back"})
    await shared.put("/jobs/c/rank", {"value": 5})
    await shared.put("/jobs/d/rank", {"value": "front"})
    order = ["first"]
    while len(order) < 5:
        order.append(await next_of(shared, order[-1]))
    assert order == ["first", "d", "c", "b", "a"]


async def test_managers_put_jobs_beside_others_in_the_queue(shared: Sharing) -> None:
    await waiting_line(shared, "a", "b", "c", "d")
    done = await shared.put("/jobs/d/rank", {"before": "admin~b"})
    assert done["message"].endswith("~d goes before admin~b"), done
    await shared.put("/jobs/a/rank", {"after": "admin~c"})
    found = await shared.get("/virtual-clusters/speech/queue")
    assert [job["job"] for job in found["jobs"]] == [f"admin~{name}" for name in "dbca"]
    assert (found["order"], found["totalCount"]) == ("fair", 4)
    first = found["jobs"][0]
    assert (first["position"], first["gpu"], first["mayMove"]) == (1, 8, True)
    assert "virtual cluster speech uses" in first["message"]
    assert len((await shared.get("/virtual-clusters/speech/queue", params={"limit": 1}))["jobs"]) == 1
    refused = partial(shared.refused, "PUT", "/jobs/a/rank")
    assert await refused(json={"before": "admin~first"}) == (409, "ConflictJobError")
    assert await refused(json={"before": "admin~b", "value": 3}) == (400, "InvalidParametersError")
    assert await refused(json={}) == (400, "InvalidParametersError")
    assert await refused(json={"after": "admin~none"}) == (404, "NoJobError")
    await shared.add_user("ann", "speech")
    seen = (await shared.ask("GET", "/virtual-clusters/speech/queue", "ann")).json()["jobs"]
    assert [job["mayMove"] for job in seen] == [False] * 4
    # A place is kept with the job, whoever leads and whatever the order is.
    await shared.put("/scheduler/orders", {"orders": {"speech": "fifo"}})
    assert [job["job"][-1] for job in (await shared.get("/virtual-clusters/speech/queue"))["jobs"]] == list("dbca")
    assert [await next_of(shared, "first"), await next_of(shared, "d")] == ["d", "b"]
    assert await shared.refused("GET", "/virtual-clusters/none/queue") == (404, "NoVirtualClusterError")


async def test_a_more_urgent_job_goes_first_and_stops_no_other(shared: Sharing) -> None:
    await shared.submit("first", "speech", 8, extras="{hivedScheduler: {jobPriorityClass: prod}}")
    await shared.until("first", "RUNNING")
    for name in ("a", "b"):
        await shared.submit(name, "speech", 8)
        await shared.until_it_waits(name)
    await shared.put("/jobs/b/priority", {"value": "prod"})
    assert (await shared.get("/jobs/b"))["jobPriority"] == "prod"
    assert [await shared.state(name) for name in ("first", "a", "b")] == ["RUNNING", "WAITING", "WAITING"]
    assert await next_of(shared, "first") == "b"

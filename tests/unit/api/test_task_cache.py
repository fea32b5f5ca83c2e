"""Task lists of large jobs are computed once for each version, by one request at a time, and bounded."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from openpai.api.task_cache import TASKS_OF_SMALL, TaskCache
from openpai.ports.queries import JobRow

LARGE = JobRow(
    id="j1", user="ann", name="large", phase="running", virtual_cluster="default", priority_class=None,
    submitted_at_ms=1, started_at_ms=1, ended_at_ms=None, attempt=0, attempt_at_ms=1, attempt_started_at_ms=1,
    attempt_ended_at_ms=None, retries_counted=0, retries_free=0, retry_at_ms=None, is_stop_requested=False,
    outcome=None, gpus_total=0, tasks_total=TASKS_OF_SMALL + 1, roles_total=1, version=3,
)  # fmt: skip


class Computation:
    """Returns another value each time, after a turn of the loop, and counts."""

    def __init__(self, size: int = 10) -> None:
        self.times = 0
        self.size = size

    async def __call__(self) -> bytes:
        await asyncio.sleep(0)
        self.times += 1
        return b"%d" % self.times * self.size


async def test_many_requests_at_once_have_one_answer() -> None:
    jobs, compute = TaskCache(), Computation()
    answers = await asyncio.gather(*(jobs.get(LARGE, "detail", compute) for _ in range(20)))
    assert (set(answers), compute.times) == ({b"1" * 10}, 1)


@pytest.mark.parametrize(
    ("change", "what", "times"),
    [
        ({}, "detail", 1),
        ({"version": 2}, "detail", 1),
        ({"version": 4}, "detail", 2),
        ({"id": "j2"}, "detail", 2),
        ({"archived_at_ms": 5}, "detail", 2),
        ({}, "other", 2),
    ],
)
async def test_an_answer_serves_the_same_version_and_what_is_older(
    change: dict[str, object], what: str, times: int
) -> None:
    jobs, compute = TaskCache(), Computation()
    await jobs.get(LARGE, "detail", compute)
    await jobs.get(replace(LARGE, **change), what, compute)  # type: ignore[arg-type]
    assert compute.times == times


async def test_a_small_job_is_computed_each_time() -> None:
    jobs, compute = TaskCache(), Computation()
    small = replace(LARGE, tasks_total=TASKS_OF_SMALL)
    assert await jobs.get(small, "detail", compute) != await jobs.get(small, "detail", compute)


async def test_no_more_is_kept_than_there_is_room_for() -> None:
    jobs, compute = TaskCache(bytes_max=25), Computation()
    for job in ("a", "b", "c", "c", "b"):
        await jobs.get(replace(LARGE, id=job), "detail", compute)
    assert compute.times == 3
    await jobs.get(replace(LARGE, id="a"), "detail", compute)
    assert compute.times == 4, "the oldest was let go"
    huge = Computation(26)
    for _ in range(2):
        await jobs.get(replace(LARGE, id="huge"), "detail", huge)
    assert huge.times == 2


async def test_a_request_that_fails_blocks_no_other() -> None:
    async def fail() -> bytes:
        raise OSError("the disk is gone")

    jobs, compute = TaskCache(), Computation()
    with pytest.raises(OSError, match="the disk is gone"):
        await jobs.get(LARGE, "detail", fail)
    assert await jobs.get(LARGE, "detail", compute) == b"1" * 10

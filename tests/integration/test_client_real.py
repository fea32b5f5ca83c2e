"""The client in front of the real API: what only both together can show."""

from __future__ import annotations

import httpx
import pytest

from openpai.client import AsyncClient
from openpai.protocol.errors import Refused, Unavailable
from tests.integration.api_world import PASSWORD, job_file, open_world


class Lossy(httpx.AsyncBaseTransport):
    """Lets every request arrive and loses the first answers on their way back."""

    def __init__(self, inner: httpx.AsyncBaseTransport, answers_to_lose: int) -> None:
        self.inner = inner
        self.answers_to_lose = answers_to_lose
        self.arrived = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        self.arrived += 1
        if self.answers_to_lose:
            self.answers_to_lose -= 1
            raise httpx.ReadError("the connection broke")
        return response


def test_a_submission_with_a_lost_answer_makes_one_job(pai):
    with pai.client("ann") as client:
        pai.bridge.answers_to_lose = 2
        assert client.submit(job_file("train")).full_name == "ann~train"
        assert [job.name for job in client.all_jobs()] == ["train"]


def test_two_requests_for_one_name_are_still_two(pai):
    with pai.client("ann") as client:
        client.submit(job_file("train"))
        with pytest.raises(Refused) as caught:
            client.submit(job_file("train"))
    assert caught.value.code == "ConflictJobError"


async def test_a_submission_of_an_async_client_with_a_lost_answer_makes_one_job(tmp_path):
    async with open_world(tmp_path) as world:
        token = (await world.login("ann"))["Authorization"].removeprefix("Bearer ")
        lossy = Lossy(httpx.ASGITransport(world.api), 1)
        async with AsyncClient("http://pai", token, user="ann", transport=lossy, sleep=_at_once) as client:
            submitted = await client.submit(job_file("train"))
            assert submitted.full_name == "ann~train"
            assert lossy.arrived == 2
            assert [job.name async for job in client.all_jobs()] == ["train"]
            assert (await client.job("train")).state == "WAITING"


async def test_a_login_with_a_lost_answer_is_not_repeated(tmp_path):
    async with open_world(tmp_path) as world:
        lossy = Lossy(httpx.ASGITransport(world.api), 1)
        async with AsyncClient("http://pai", transport=lossy, sleep=_at_once) as client:
            with pytest.raises(Unavailable, match="broke before the answer"):
                await client.login("ann", PASSWORD)
            assert lossy.arrived == 1


def test_all_jobs_are_every_job_once(pai):
    with pai.client("ann") as client:
        for number in range(7):
            client.submit(job_file(f"job-{number}"))
        names = [job.name for job in client.all_jobs(page=3)]
    assert sorted(names) == [f"job-{number}" for number in range(7)]


async def _at_once(seconds: float) -> None:
    """Wait for nothing."""

"""The asynchronous client: the same methods and behaviour as the blocking one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest

from openpai.client import AsyncClient, Client
from openpai.client.calls_core import _Mark
from openpai.protocol.errors import Unavailable
from tests.unit.client.sse_answers import log, stream

BASE = "/api/v2/jobs/ann~hello/attempts/0/taskRoles/w/taskIndex/0/attempts/0/logs"
PLACES = httpx.Response(200, json={"locations": [{"name": "all", "uri": f"{BASE}/all"}]})
BUSY = httpx.Response(503, json={"code": "UnavailableError", "message": "starting"})


@dataclass
class Script:
    """Gives prepared answers in order, the last one repeatedly, and records the requests."""

    answers: list[httpx.Response | Exception]
    requests: list[httpx.Request] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def client(self) -> AsyncClient:
        """Return a client of this script that records its pauses instead of sleeping."""
        return AsyncClient(
            "http://pai.test", "t0ken", user="ann", transport=httpx.MockTransport(self), sleep=self.sleep
        )


def job(state: str) -> httpx.Response:
    return httpx.Response(200, json={"name": "hello", "jobStatus": {"username": "ann", "state": state}})


def public(of: type) -> dict[str, Callable[..., object]]:
    return {name: getattr(of, name) for name in dir(of) if not name.startswith("_") and callable(getattr(of, name))}


def test_both_clients_can_do_the_same():
    assert public(Client).keys() == public(AsyncClient).keys()


@pytest.mark.parametrize("name", [name for name, found in public(Client).items() if isinstance(found, _Mark)])
def test_methods_have_the_signatures_and_docstrings_of_their_descriptions(name):
    method = getattr(Client, name)
    assert inspect.getdoc(method)
    assert "self" in inspect.signature(method).parameters
    assert "self" not in inspect.signature(getattr(Client("http://pai.test"), name)).parameters


async def test_a_method_asks_when_it_is_awaited():
    server = Script([job("RUNNING")])
    async with server.client() as pai:
        asked = pai.job("hello")
        assert server.requests == []
        assert (await asked).state == "RUNNING"
    assert server.requests[0].headers["Authorization"] == "Bearer t0ken"


async def test_the_blocking_client_works_inside_a_running_loop(scripted):
    # An answer of httpx that a blocking client read cannot be read by an awaited one, so this is not PLACES itself.
    server = scripted(httpx.Response(200, content=PLACES.content), stream(log(0, "a"), log(1, "b")))
    pieces = server.client().logs("hello", "w", 0, attempt=0, job_attempt=0).follow()
    assert next(pieces).text == "a"
    pieces.close()
    assert server.pauses == []


async def test_a_busy_server_is_asked_again():
    server = Script([BUSY, httpx.ConnectError("refused"), httpx.Response(200, json=[])])
    async with server.client() as pai:
        assert await pai.nodes() == ()
    assert len(server.pauses) == 2


async def test_a_hundred_followed_logs_block_no_other_request():
    count, arrived, all_there = 120, [], asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append(await reader.readuntil(b"\r\n\r\n"))
        if len(arrived) == count:
            all_there.set()
        await all_there.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, backlog=count) as server:
        port = server.sockets[0].getsockname()[1]
        async with AsyncClient(f"http://127.0.0.1:{port}", "t0ken") as pai, asyncio.timeout(60):
            assert await asyncio.gather(*(pai.nodes() for _ in range(count))) == [()] * count


async def test_wait_returns_once_the_job_is_over():
    server = Script([job("WAITING"), job("RUNNING"), job("SUCCEEDED")])
    async with server.client() as pai:
        assert (await pai.wait("hello")).state == "SUCCEEDED"
    assert len(server.pauses) == 2


async def test_a_wait_for_a_silent_server_takes_no_longer_than_it_may(silent):
    server = silent(job("RUNNING"))
    wire = httpx.MockTransport(server.awaited)
    async with AsyncClient("http://pai.test", transport=wire, sleep=server.sleep_awaited, clock=server.clock) as pai:
        with pytest.raises(Unavailable, match="it was RUNNING, and the server does not answer"):
            await pai.wait("ann~hello", timeout_s=30)
    assert server.at_s <= 30


async def test_all_jobs_reads_page_after_page_and_yields_no_job_twice():
    def page(*names: str) -> httpx.Response:
        return httpx.Response(200, json={"totalCount": 5, "data": [{"username": "ann", "name": n} for n in names]})

    server = Script([page("e", "d"), page("d", "c"), page("b")])
    async with server.client() as pai:
        assert [found.name async for found in pai.all_jobs(page=2, state="FAILED")] == ["e", "d", "c", "b"]
    assert [request.url.params["offset"] for request in server.requests] == ["0", "2", "4"]
    assert server.requests[0].url.params["state"] == "FAILED"


async def test_a_log_is_followed_over_a_server_that_is_started_again():
    begun = httpx.Response(
        200,
        json={
            "name": "hello",
            "jobStatus": {"username": "ann", "state": "RUNNING", "attemptId": 0},
            "taskRoles": {"w": {"taskStatuses": [{"taskIndex": 0, "taskState": "RUNNING", "attemptId": 0}]}},
        },
    )
    end = "event: end\ndata: {}\n\n"
    server = Script([begun, PLACES, stream(log(0, "a")), httpx.ConnectError("down"), stream(log(1, "b"), end)])
    async with server.client() as pai:
        assert [piece.text async for piece in pai.follow("hello", "w", 0)] == ["a", "b"]
    assert [request.headers.get("Last-Event-ID") for request in server.requests[2:]] == [None, "0", "0"]
    assert len(server.pauses) == 2


async def test_a_log_is_read_as_a_whole_and_by_its_end():
    server = Script([PLACES, httpx.Response(200, text="all of it"), httpx.Response(200, text="it")])
    async with server.client() as pai:
        logs = await pai.logs("hello", "w", 0, attempt=0, job_attempt=0)
        assert (await logs.text(), await logs.tail()) == ("all of it", "it")
    assert server.requests[2].url.params["tail-mode"] == "true"

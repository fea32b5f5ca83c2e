"""What is sent again, and what is not: against a server whose answers the test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from openpai.kube import connection
from openpai.kube.client import KubeClient
from openpai.kube.config import ClusterAccess
from openpai.kube.connection_pool import OPENED_AT_ONCE
from openpai.kube.credentials import ClientCertificate
from openpai.kube.errors import KubeError, KubeRefused, KubeUnavailable, error_of
from openpai.kube.objects import CONFIG_MAPS, PODS
from openpai.protocol.errors import Broken, Refused, Unavailable
from tests.ports import free_port

Answer = Callable[[web.Request], web.Response | None]


class Server:
    """A server whose answers are set beforehand; None drops the connection."""

    def __init__(self) -> None:
        self.answers: list[web.Response | None] = []
        self.requests: list[web.Request] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        self.requests.append(request)
        answer = self.answers.pop(0)
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            raise asyncio.CancelledError
        return answer


@pytest_asyncio.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setattr(connection, "PAUSE_S", 0.001)
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


@pytest_asyncio.fixture
async def client(server: Server) -> AsyncIterator[KubeClient]:
    async with KubeClient(ClusterAccess(server=server.url)) as made:
        yield made


def failure(status: int, reason: str = "", **headers: str) -> web.Response:
    body = {"kind": "Status", "code": status, "reason": reason, "message": f"it is {reason}"}
    return web.json_response(
        body, status=status, headers={key.replace("_", "-"): text for key, text in headers.items()}
    )


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n"}, **more}


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_what_a_busy_server_refused_unread_is_sent_again(server: Server, client: KubeClient, method: str) -> None:
    server.answers = [failure(429, "TooManyRequests", Retry_After="0"), web.json_response({})]
    await client.raw(method, "/x")
    assert [request.method for request in server.requests] == [method, method]


async def test_a_disruption_budget_is_no_busy_server(server: Server, client: KubeClient) -> None:
    server.answers = [failure(429, "TooManyRequests")]
    with pytest.raises(KubeUnavailable) as refused:
        await client.raw("POST", "/x")
    assert (refused.value.http, len(server.requests)) == (429, 1)


async def test_a_busy_server_is_not_asked_for_ever(server: Server, client: KubeClient) -> None:
    server.answers = [failure(429, "TooManyRequests", Retry_After="0") for _ in range(50)]
    with pytest.raises(Unavailable):
        await client.raw("POST", "/x")
    assert len(server.requests) == connection.TRIES


@pytest.mark.parametrize("lost", [None, 503, 500])
async def test_a_read_is_repeated(server: Server, client: KubeClient, lost: int | None) -> None:
    server.answers = [failure(lost) if lost else None, web.json_response(named("a"))]
    assert (await client.get(CONFIG_MAPS, "a", "n")).name == "a"


async def test_the_end_of_a_log_is_read_over_a_connection_of_calls(server: Server, client: KubeClient) -> None:
    server.answers = [web.json_response(named("a")), web.Response(text="line\n"), web.Response(), failure(500)]

    async def log() -> bytes:
        return b"".join([piece async for piece in client.logs("p", "n", limit_bytes=1000)])

    await client.get(CONFIG_MAPS, "a", "n")
    assert [await log(), await log()] == [b"line\n", b""]
    with pytest.raises(KubeUnavailable):
        await log()
    assert len({request.transport for request in server.requests}) == 1
    assert [request.query.get("limitBytes") for request in server.requests] == [None, *3 * ["1000"]]


async def test_a_write_without_an_answer_is_not_repeated(server: Server, client: KubeClient) -> None:
    server.answers = [None]
    with pytest.raises(KubeUnavailable) as lost:
        await client.create(CONFIG_MAPS, named("a"), "n")
    assert lost.value.may_have_happened
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_a_dropped_connection_repeats_no_change(server: Server, client: KubeClient, method: str) -> None:
    # The first request leaves a connection, on which the second is lost.
    server.answers = [web.json_response({}), None, web.json_response({})]
    await client.raw("GET", "/x")
    with pytest.raises(KubeUnavailable) as lost:
        await client.raw(method, "/x")
    assert lost.value.may_have_happened
    assert [request.method for request in server.requests] == ["GET", method]


async def test_without_a_connection_nothing_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAUSE_S", 0.001)
    async with KubeClient(ClusterAccess(server=f"http://127.0.0.1:{free_port()}")) as client:
        with pytest.raises(KubeUnavailable) as lost:
            await client.create(CONFIG_MAPS, named("a"), "n")
    assert not lost.value.may_have_happened


@pytest.mark.slow
async def test_the_time_of_a_request_begins_when_it_is_sent(server: Server) -> None:
    held = asyncio.Event()

    class Held(web.Response):
        async def prepare(self, request: web.BaseRequest) -> Any:
            await held.wait()
            return await super().prepare(request)

    server.answers = [Held(text="{}"), web.json_response({})]
    async with KubeClient(ClusterAccess(server=server.url), connections=1) as client:
        first = asyncio.create_task(client.raw("POST", "/first"))
        await asyncio.sleep(0)
        second = asyncio.create_task(client.connection.call("POST", "/second", doing="x", patience_s=1.0))
        await asyncio.sleep(1.2)
        held.set()
        await asyncio.gather(first, second)
    assert [request.path for request in server.requests] == ["/first", "/second"]


async def test_a_few_connections_are_opened_at_a_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    open_ = aiohttp.TCPConnector._create_connection
    opening: list[int] = [0]

    async def noted(connector: aiohttp.TCPConnector, *given: Any) -> Any:
        opening.append(opening[-1] + 1)
        await asyncio.sleep(0.001)
        made = await open_(connector, *given)
        opening.append(opening[-1] - 1)
        return made

    monkeypatch.setattr(aiohttp.TCPConnector, "_create_connection", noted)
    server.answers = [web.json_response({}) for _ in range(20)]
    async with KubeClient(ClusterAccess(server=server.url)) as client:
        answers = await asyncio.gather(*(client.connection.stream(f"/{number}", doing="x") for number in range(20)))
        for answer in answers:
            answer.close()
    assert max(opening) == OPENED_AT_ONCE


async def test_a_refused_token_is_renewed_once(server: Server) -> None:
    class Renewed:
        certificate: ClientCertificate | None = None
        token = 0

        async def headers(self) -> dict[str, str]:
            return {"Authorization": f"Bearer {self.token}"}

        async def refresh(self) -> bool:
            self.token += 1
            return True

    server.answers = [failure(401), web.json_response({}), failure(401), failure(401)]
    async with KubeClient(ClusterAccess(server=server.url, credentials=Renewed())) as client:
        await client.raw("GET", "/x")
        with pytest.raises(Refused):
            await client.raw("GET", "/x")
    assert [request.headers["Authorization"][-1] for request in server.requests] == ["0", "1", "1", "2"]


async def test_a_list_with_expired_pages_is_read_in_one_piece(server: Server, client: KubeClient) -> None:
    server.answers = [
        web.json_response({"metadata": {"continue": "more"}, "items": [named("a")]}),
        failure(410, "Expired"),
        web.json_response({"metadata": {"resourceVersion": "9"}, "items": [named("a"), named("b")]}),
    ]
    page = await client.list_page(CONFIG_MAPS)
    assert ([found.name for found in page.items], page.resource_version) == (["a", "b"], "9")
    assert [request.query.get("continue") for request in server.requests] == [None, "more", None]


async def test_one_unreadable_object_hides_no_other(server: Server, client: KubeClient) -> None:
    odd = named("odd", spec={"containers": "none", "nodeName": "n1"})
    server.answers = [web.json_response({"metadata": {}, "items": [named("a"), odd]}) for _ in range(2)]
    page = await client.list_page(PODS)
    assert [(found.name, found.spec.node_name) for found in page.items] == [("a", ""), ("odd", "n1")]
    assert list(page.unreadable) == [("n", "odd")]
    with pytest.raises(Broken, match="odd"):
        await client.list(PODS)


async def test_a_page_of_a_proxy_is_no_empty_list(server: Server, client: KubeClient) -> None:
    server.answers = [web.Response(text="<html>please log in</html>")]
    with pytest.raises(Unavailable, match="no list"):
        await client.list(PODS)


async def test_a_redirect_does_not_take_credentials_elsewhere(server: Server, client: KubeClient) -> None:
    server.answers = [web.Response(status=307, headers={"Location": f"{server.url}/elsewhere"})]
    with pytest.raises(KubeError):
        await client.raw("GET", "/x")
    assert [request.path for request in server.requests] == ["/x"]


@pytest.mark.parametrize(
    ("http", "family"),
    [
        *((http, Refused) for http in (400, 403, 404, 409, 410, 422)),
        *((http, Unavailable) for http in (429, 500, 503, 504)),
        *((http, Broken) for http in (405, 415)),
    ],
)
def test_an_answer_has_its_family(http: int, family: type[Exception]) -> None:
    error = error_of("x", http, b'{"reason": "R", "message": "m", "details": {"retryAfterSeconds": 2}}')
    assert isinstance(error, family)
    assert (error.http, error.reason, error.retry_after_s) == (http, "R", 2.0)


@pytest.mark.parametrize("body", [b"", b"\xff\x00", b"[1]", b'{"code": "x"}', b"<html>" * 10_000])
def test_a_strange_answer_is_still_an_error(body: bytes) -> None:
    error = error_of("read pods", 403, body)
    assert isinstance(error, KubeRefused)
    assert len(error.message) < 3_000

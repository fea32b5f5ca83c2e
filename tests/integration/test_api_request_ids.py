"""The number of a request: in its answer, whatever that is, in the log, and kept on the way to the leader."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from structlog.contextvars import get_contextvars, merge_contextvars
from structlog.testing import capture_logs

from openpai.api.app import create_api

from .api_world import World
from .test_api_forwarding import follower


async def test_each_answer_has_the_number_of_its_request(world: World) -> None:
    given = await world.http.get("/healthz", headers={"X-Request-ID": "proxy-7/a"})
    assert given.headers["x-request-id"] == "proxy-7/a"
    made = [(await world.http.get("/healthz")).headers["x-request-id"] for _ in range(2)]
    assert len(set(made)) == 2
    assert all(re.fullmatch("[0-9a-f]{24}", one) for one in made)
    for path, status in (("/api/v2/jobs", 401), ("/api/v2/nothing", 404), ("/api/v2/info%00", 400)):
        answer = await world.http.get(path, headers={"X-Request-ID": "proxy-8"})
        assert (answer.status_code, answer.headers["x-request-id"]) == (status, "proxy-8")
    assert "request_id" not in get_contextvars()


@pytest.mark.parametrize("bad", ["", "a b", "x" * 129, "a;b", "\x1b[31m", "ä".encode("latin-1")])
async def test_a_number_that_could_spoil_the_log_is_replaced(world: World, bad: str | bytes) -> None:
    answer = await world.http.get("/healthz", headers={"X-Request-ID": bad})
    assert re.fullmatch("[0-9a-f]{24}", answer.headers["x-request-id"])


async def test_an_unexpected_error_is_found_in_the_log_by_its_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise KeyError("x")

    headers = {**await world.login("ann"), "X-Request-ID": "abc-1"}
    monkeypatch.setattr(world.commands, "nodes", fail)
    with capture_logs(processors=[merge_contextvars]) as lines:
        answer = await world.http.get("/api/v2/nodes", headers=headers)
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "abc-1")
    assert "request abc-1" in answer.json()["message"]
    assert [(line["event"], line["request_id"]) for line in lines] == [("a request failed", "abc-1")]


async def test_requests_leave_a_line_each_if_wanted_and_no_token(world: World) -> None:
    services = world.api.state.context.services
    api = create_api(replace(services, settings=replace(services.settings, logs_requests=True)))
    headers = await world.login("ann")
    token = headers["Authorization"].removeprefix("Bearer ")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://here") as http:
        with capture_logs(processors=[merge_contextvars]) as lines:
            await http.get("/api/v2/jobs/ann~none", headers={**headers, "X-Request-ID": "r1"})
            await http.delete(f"/api/v2/tokens/{token}", headers={**headers, "X-Request-ID": "r2"})
    first, second = lines
    assert (first["request_id"], first["path"], first["status"], first["user"]) == (
        "r1", "/api/v2/jobs/ann~none", 404, "ann",
    )  # fmt: skip
    assert (second["request_id"], second["path"]) == ("r2", "/api/v2/tokens/{token}")
    assert token not in str(lines)


async def _nodes() -> AsyncIterator[bytes]:
    yield b"[]"


async def test_a_forwarded_request_keeps_its_number(world: World) -> None:
    seen: list[str] = []

    async def leader(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["x-request-id"])
        return httpx.Response(200, content=_nodes(), headers={"x-request-id": "another"})

    headers = await world.login("ann")
    async with follower(world, httpx.MockTransport(leader)) as http:
        given = await http.get("/api/v2/nodes", headers={**headers, "X-Request-ID": "r3"})
        made = await http.get("/api/v2/nodes", headers=headers)
    assert seen == ["r3", made.headers["x-request-id"]]
    assert given.headers.get_list("x-request-id") == ["r3"]

"""A server that does not lead answers all the same: it asks the one that does."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from openpai.api import forwarding
from openpai.api.app import create_api
from openpai.api.client_address import FORWARDED
from openpai.api.forwarding import Forwarder
from openpai.ports.platform import NodeView, NotLeading
from openpai.ports.store import Sealed
from openpai.scheduler.model import Wait

from .api_world import Here, World


class Elsewhere(Here):
    """Commands of a server that does not lead."""

    leader_url = "http://leader"

    async def nodes(self) -> tuple[NodeView, ...]:
        raise NotLeading(self.leader_url)

    async def why(self, job: str) -> tuple[Wait, ...]:
        raise NotLeading(self.leader_url)

    async def stop(self, user: str, name: str, by: str, reason: str = "") -> None:
        raise NotLeading(self.leader_url)


@asynccontextmanager
async def follower(
    world: World, leader: FastAPI | httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of another server over the same store, which knows where the leader is."""
    context = world.api.state.context
    platform = copy.copy(world.commands)
    platform.__class__ = Elsewhere
    api = create_api(replace(context.services, platform=platform))
    asked = leader or world.api
    transport = asked if isinstance(asked, httpx.AsyncBaseTransport) else httpx.ASGITransport(asked)
    api.state.forwarder = Forwarder(context.services.sealer, transport)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://follower") as http:
        yield http
    await api.state.forwarder.close()


async def test_what_only_the_leader_knows_is_asked_of_it(world: World) -> None:
    await world.submit("second")
    headers = await world.login("ann")
    async with follower(world) as http:
        nodes = await http.get("/api/v2/nodes", headers=headers)
        assert (nodes.status_code, nodes.json()) == (200, await world.get("/nodes"))
        assert nodes.headers["content-type"] == "application/json"
        assert nodes.headers["x-content-type-options"] == "nosniff"
        assert (await http.get("/api/v2/jobs/second/why", headers=headers)).json()["waits"][0]["position"] == 1
        # An answer that is an error comes back as it is, too.
        mine = await http.get("/api/v2/kubernetes/nodes", headers=headers)
        assert (mine.status_code, mine.json()["code"]) == (403, "ForbiddenUserError")


async def test_tokens_hold_on_every_server_and_their_end_does_too(world: World) -> None:
    headers = await world.login("ann")
    async with follower(world) as http:
        assert (await http.get("/api/v2/nodes", headers=headers)).status_code == 200
        token = headers["Authorization"].removeprefix("Bearer ")
        assert (await world.ask("DELETE", f"/tokens/{token}")).status_code == 200
        world.clock.at_ms += 3_000
        assert (await http.get("/api/v2/jobs", headers=headers)).status_code == 401
        assert (await http.get("/api/v2/nodes", headers=headers)).status_code == 401


async def test_a_question_is_passed_on_once_only(world: World) -> None:
    headers = {**await world.login("ann"), FORWARDED: "1"}
    async with follower(world) as http:
        answer = await http.get("/api/v2/nodes", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (503, "UnavailableError")
        assert answer.headers["retry-after"] == "1"


async def test_a_leader_that_is_paused_keeps_no_client_waiting_after_another_took_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Paused(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.Event().wait()
            raise AssertionError

    looks = 0

    async def newest() -> str:
        nonlocal looks
        looks += 1
        return "http://leader" if looks < 3 else "http://other"

    async def nodes(self: Elsewhere) -> None:
        raise NotLeading("http://leader", newest)

    monkeypatch.setattr(forwarding, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(Elsewhere, "nodes", nodes)
    async with follower(world, Paused()) as http:
        answer = await http.get("/api/v2/nodes", headers=await world.login("ann"))
    assert (answer.status_code, answer.json()["message"]) == (503, "another server takes over")
    assert looks == 3


async def test_two_servers_that_each_believe_the_other_leads_come_to_an_end(world: World) -> None:
    headers = await world.login("ann")
    async with follower(world) as second, follower(world, second._transport) as first:
        assert (await first.get("/api/v2/nodes", headers=headers)).status_code == 503


async def test_no_leader_and_a_leader_that_does_not_answer_are_both_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = await world.login("ann")

    async def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    async with follower(world, httpx.MockTransport(refuse)) as http:
        answer = await http.get("/api/v2/nodes", headers=headers)
        assert (answer.status_code, answer.json()["message"]) == (503, "the server that leads does not answer")
        assert "leader" not in answer.text
        monkeypatch.setattr(Elsewhere, "leader_url", "")
        answer = await http.get("/api/v2/nodes", headers=headers)
        assert (answer.status_code, answer.json()["message"]) == (503, "no server leads at the moment")


async def test_the_leader_gets_the_question_and_the_credentials_and_nothing_else(world: World) -> None:
    seen: list[tuple[str, str, dict[str, str], bytes]] = []
    leader = FastAPI()

    @leader.api_route("/{path:path}", methods=["GET", "POST"])
    async def answer(request: Request) -> StreamingResponse:
        target = f"{request.scope['raw_path'].decode()}?{request.url.query}"
        seen.append((request.method, target, dict(request.headers), await request.body()))

        async def parts() -> AsyncIterator[bytes]:
            yield b"[1,"
            await asyncio.sleep(0)
            yield b"2]"

        headers = {"X-Internal": "secret", "Set-Cookie": "a=b", "Link": "<x>", "Server": "leader"}
        return StreamingResponse(parts(), 207, headers, "application/json")

    headers = {**await world.login("ann"), "Cookie": "c=d", "X-Forwarded-For": "1.2.3.4", "Accept": "text/csv"}
    async with follower(world, leader) as http:
        await world.submit("second")
        message = await http.get("/api/v2/jobs/ann%7Esecond/why?a=%2F&a=b", headers=headers)
    assert (message.status_code, message.json(), message.headers["link"]) == (207, [1, 2], "<x>")
    assert not {"x-internal", "set-cookie", "server"} & set(message.headers)
    [(method, target, asked, body)] = seen
    assert (method, target, body) == ("GET", "/api/v2/jobs/ann%7Esecond/why?a=%2F&a=b", b"")
    assert (asked["authorization"], asked["accept"]) == (headers["Authorization"], "text/csv")
    assert asked["host"] == "leader"
    assert world.api.state.context.services.sealer.open(Sealed(asked[FORWARDED].encode())) == {
        "address of a caller": "127.0.0.1"
    }
    assert not {"cookie", "x-forwarded-for"} & set(asked)


async def test_a_token_that_came_in_a_cookie_is_passed_on_without_the_cookies(world: World) -> None:
    seen: list[dict[str, str]] = []
    leader = FastAPI()

    @leader.get("/{path:path}")
    async def answer(request: Request) -> dict[str, Any]:
        seen.append(dict(request.headers))
        return {"status": "success", "data": {"resultType": "vector", "result": []}, "warnings": []}

    headers = await world.login("ann")
    cookies = {"Cookie": f"token={world.tokens['ann']}; other=secret"}
    async with follower(world, leader) as http:
        message = await http.get("/prometheus/api/v1/query?query=node_uname_info", headers=cookies)
    assert message.status_code == 200
    assert seen[0]["authorization"] == headers["Authorization"]
    assert "cookie" not in seen[0]


async def test_the_leader_records_where_a_change_came_from_and_believes_only_servers_about_it(world: World) -> None:
    headers = await world.login("ann")
    await world.submit("train")
    async with follower(world) as http:
        http._transport = httpx.ASGITransport(http._transport.app, client=("10.9.8.7", 1))  # type: ignore[attr-defined]
        promise = {"value": "STOP"}
        stopped = await http.put("/api/v2/jobs/train/executionType", json=promise, headers=headers)
        assert stopped.status_code == 202
    forged = {**headers, FORWARDED: "10.1.1.1"}
    assert (await world.http.put("/api/v2/jobs/train/executionType", json=promise, headers=forged)).status_code == 202
    found = (await world.get("/audit", action="job.stop"))["entries"]
    assert [entry["address"] for entry in found] == ["192.0.2.7", "10.9.8.7"]

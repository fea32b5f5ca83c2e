"""Sessions in tasks: the rights they need, how they begin and end, and what the audit log has of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI

from openpai.access.accounts import User
from openpai.api import shell_sessions
from openpai.api.app import create_api
from openpai.backends.simulated.shells import SimulatedShell, SimulatedStream
from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import Shell, ShellCommand, Stream
from openpai.ports.usage import AuditFilter

from .api_world import World
from .leading import Leading, leading

PATH = "/api/v2/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0"
PATIENCE_S = 60


class Playing(Leading):
    """Commands over tasks that are played."""

    async def shell(self, key: AttemptKey, command: ShellCommand) -> Shell:
        await self.check_shell(key)
        return SimulatedShell(command, lambda: False)

    async def connect(self, key: AttemptKey, port: int) -> Stream:
        return SimulatedStream()


class Socket:
    """A client of a WebSocket, as a server calls the API."""

    def __init__(self, api: FastAPI, path: str, headers: Mapping[str, str], **query: Any) -> None:
        place, _, output = path.partition("?")
        self.scope = {
            "type": "websocket", "path": place, "raw_path": place.encode(), "scheme": "ws", "subprotocols": [],
            "query_string": (output or urlencode(query, doseq=True)).encode(), "client": ("10.9.9.9", 1),
            "headers": [(b"host", b"pai.test"), *((k.lower().encode(), v.encode()) for k, v in headers.items())],
            "extensions": {"websocket.http.response": {}}, "root_path": "", "state": {},
        }  # fmt: skip
        self.to_api: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.from_api: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.to_api.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(api(self.scope, self.to_api.get, self.from_api.put))

    async def next(self) -> dict[str, Any]:
        """Return what the API sends next."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.from_api.get()

    async def refused(self) -> tuple[int, str]:
        """Return the status and the code with which it was refused."""
        start, body = await self.next(), await self.next()
        assert start["type"] == "websocket.http.response.start", start
        await self.task
        return start["status"], json.loads(body["body"])["code"]

    async def printed(self) -> tuple[bytes, dict[str, Any]]:
        """Return standard output until the end, and the last message."""
        assert (await self.next())["type"] == "websocket.accept"
        out = b""
        while True:
            message = (await self.next())["bytes"]
            if message[0] == 3:
                return out, json.loads(message[1:])
            out += message[1:]

    def send(self, data: bytes) -> None:
        self.to_api.put_nowait({"type": "websocket.receive", "bytes": data})

    async def leave(self) -> None:
        self.to_api.put_nowait({"type": "websocket.disconnect", "code": 1001})
        async with asyncio.timeout(PATIENCE_S):
            await self.task


@asynccontextmanager
async def playing(world: World, **settings: Any) -> AsyncIterator[FastAPI]:
    """Yield a server that leads, with ann's job, whose task runs."""
    platform = await leading(world, Playing)
    services = world.api.state.context.services
    api = create_api(replace(services, platform=platform, settings=replace(services.settings, **settings)))
    yield api
    await api.state.forwarder.close()


async def _entries(world: World) -> list[Any]:
    rows = await world.api.state.context.services.usage.audit(AuditFilter(actions=("job.exec",)))
    return [row.entry for row in reversed(rows)]


async def test_a_session_has_output_exit_code_and_two_entries(world: World) -> None:
    async with playing(world) as api:
        socket = Socket(api, f"{PATH}/exec", await world.login("ann"), command=["sh", "-c", "exit 3"])
        assert await socket.printed() == (b"", {"exitCode": 3})
        await socket.task
        start, end = await _entries(world)
        assert (start.actor, start.target, start.owner, start.address) == ("ann", "ann~train", "ann", "10.9.9.9")
        assert start.detail["command"] == "sh -c exit 3"
        assert (end.detail["event"], end.detail["exitCode"], end.detail["endedBy"]) == ("end", 3, "command")
        assert start.detail["session"] == end.detail["session"]


async def test_what_is_typed_and_shown_is_in_no_entry(world: World) -> None:
    async with playing(world) as api:
        socket = Socket(api, f"{PATH}/exec", await world.login("ann"), command=["cat"])
        socket.send(b"\x00secret words")
        socket.send(b'\x04{"columns": 10, "rows": 1e999}')
        socket.send(b"\x04[[")
        socket.send(b"\x07?")
        socket.send(b"")
        socket.send(b"\xff")
        assert await socket.printed() == (b"secret words", {"exitCode": 0})
        await socket.task
        assert "secret" not in repr(await _entries(world))


async def test_only_the_owner_and_administrators_may_and_no_token_that_reads(world: World) -> None:
    async with playing(world) as api:
        await world.users.add_user(User("vera", "", 1, is_viewer=True))
        open_ = api.state.context.sessions.open
        for user, scope, status in (
            ("bob", "all", 403),
            ("vera", "all", 403),
            ("ann", "read", 403),
            ("ann", "jobs", None),
            ("root", "all", None),
        ):
            token = await open_(user, lifetime_s=None, is_application=True, scope=scope)
            for path, query in ((f"{PATH}/exec", {"command": "true"}), (f"{PATH}/ports/8080", {})):
                socket = Socket(api, path, {"Authorization": f"Bearer {token}"}, **query)
                if status is None:
                    assert (await socket.next())["type"] == "websocket.accept", (user, scope)
                    await socket.leave()
                else:
                    assert await socket.refused() == (status, "ForbiddenUserError"), (user, scope)
        for headers in ({}, {"Authorization": "Bearer nothing"}, {"Cookie": f"token={token}"}):
            assert await Socket(api, f"{PATH}/exec", headers).refused() == (401, "UnauthorizedUserError")
        refusals = [entry for entry in await _entries(world) if entry.status == 403]
        assert {entry.actor for entry in refusals} == {"bob", "vera"}


async def test_a_ticket_opens_one_socket_of_its_path_once(world: World) -> None:
    async with playing(world) as api, httpx.AsyncClient(transport=httpx.ASGITransport(api)) as http:
        headers = await world.login("ann")

        async def ticket(path: str = f"{PATH}/exec") -> str:
            made = await http.post(f"http://pai.test{path}", headers=headers)
            assert made.status_code == 200, made.text
            return str(made.json()["uri"])

        uri = await ticket()
        opened = Socket(api, f"{uri}&command=true", {})
        assert await opened.printed() == (b"", {"exitCode": 0})
        await opened.task
        assert (await Socket(api, f"{uri}&command=true", {}).refused())[0] == 401
        other = (await ticket()).replace("/exec?", "/ports/80?")
        assert (await Socket(api, other, {}).refused())[0] == 403
        assert (await Socket(api, other.replace("/ports/80?", "/exec?"), {}).refused())[0] == 401
        late = await ticket()
        world.clock.at_ms += 60_000
        assert (await Socket(api, late, {}).refused())[0] == 401
        assert "ticket=" not in repr(await _entries(world))
        gone = await http.post(f"http://pai.test{PATH.replace('train', 'none')}/exec", headers=headers)
        assert gone.status_code == 404


@pytest.mark.parametrize(
    ("origin", "may"),
    [
        ("http://pai.test", True),
        ("http://PAI.test:80", True),
        # A proxy before the platform may end TLS.
        ("https://pai.test", True),
        ("http://pai.test.evil.org", False),
        ("http://evil.org", False),
        ("null", False),
        ("http://pai.test:8888", False),
        ("", False),
    ],
)
async def test_pages_of_other_origins_are_refused(world: World, origin: str, may: bool) -> None:
    async with playing(world) as api:
        headers = {**await world.login("ann"), "Origin": origin}
        socket = Socket(api, f"{PATH}/exec", headers, command="true")
        if may:
            assert (await socket.printed())[1] == {"exitCode": 0}
            await socket.task
        else:
            assert await socket.refused() == (403, "ForbiddenUserError")


async def test_there_is_no_session_in_a_task_that_has_ended(world: World) -> None:
    async with playing(world) as api:
        api.state.context.services.platform.running.clear()
        headers = await world.login("ann")
        assert await Socket(api, f"{PATH}/exec", headers).refused() == (409, "NoRunningTaskError")
        other = PATH.replace("taskIndex/0", "taskIndex/9")
        assert (await Socket(api, f"{other}/exec", headers).refused())[0] == 404


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (f"{PATH}/exec", "columns=0"),
        (f"{PATH}/exec", "rows=99999999999"),
        (f"{PATH}/exec", "columns=%C2%B2"),
        (f"{PATH}/exec", "command=a%00b"),
        (f"{PATH}/exec", "&".join(["command=a"] * 2000)),
        (f"{PATH}/ports/0", ""),
        (f"{PATH}/ports/65536", ""),
        (PATH.replace("attempts/0/", "attempts/-1/") + "/exec", ""),
    ],
)
async def test_bad_parameters_are_refused(world: World, path: str, query: str) -> None:
    async with playing(world) as api:
        assert (await Socket(api, f"{path}?{query}", await world.login("ann")).refused())[0] == 400


async def test_sessions_are_limited_and_freed(world: World) -> None:
    async with playing(world, shells_per_user=2) as api:
        headers = await world.login("ann")
        open_ = [Socket(api, f"{PATH}/exec", headers, command=["sleep", "infinity"]) for _ in range(2)]
        for socket in open_:
            assert (await socket.next())["type"] == "websocket.accept"
        assert await Socket(api, f"{PATH}/exec", headers).refused() == (429, "TooManyRequestsError")
        await open_[0].leave()
        again = Socket(api, f"{PATH}/exec", headers, command=["true"])
        assert (await again.printed())[1] == {"exitCode": 0}
        await again.task
        await open_[1].leave()
        ends = [entry.detail for entry in await _entries(world) if entry.detail.get("event") == "end"]
        assert [end["endedBy"] for end in ends].count("disconnected") == 2


async def test_an_idle_session_is_closed_with_a_reason(world: World) -> None:
    async with playing(world, shell_idle_s=0.05) as api:
        socket = Socket(api, f"{PATH}/exec", await world.login("ann"), command=["sleep", "infinity"])
        assert (await socket.printed())[1]["code"] == "IdleSessionError"
        await socket.task


async def test_a_session_ends_when_its_login_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_sessions, "LOOK_EVERY_S", 0.02)
    async with playing(world, token_cache_ms=0) as api:
        headers = await world.login("ann")
        socket = Socket(api, f"{PATH}/exec", headers, command=["sleep", "infinity"])
        await world.ask("DELETE", "/authn/basic/logout")
        assert (await socket.printed())[1]["code"] == "UnauthorizedUserError"
        await socket.task


async def test_a_port_passes_bytes_in_both_directions(world: World) -> None:
    async with playing(world) as api:
        socket = Socket(api, f"{PATH}/ports/8080", await world.login("ann"))
        socket.send(b"\x00ping")
        socket.send(b"\xff")
        assert await socket.printed() == (b"ping", {"exitCode": 0})
        await socket.task

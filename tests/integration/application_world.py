"""A platform with ann's running job, two servers in it that are servers of this process, and the real entrance."""

from __future__ import annotations

import asyncio
import copy
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from websockets.asyncio.server import ServerConnection, serve

from openpai.api.app import create_api
from openpai.app.application_ports import application_entrance
from openpai.app.settings import Settings
from openpai.applications.entrance import Entrance
from openpai.backends.host.streams import connect
from openpai.lifecycle.model import AttemptKey
from openpai.ports.applications import PlacedApplication
from openpai.ports.shells import Stream
from openpai.ports.usage import AuditFilter
from openpai.runtime.applications import applications_of

from .api_world import Here, World

TOKEN = "token-of-the-application"
Answering = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Leading(Here):
    """Commands of a server that leads, over tasks whose ports are those of this process."""

    placed: list[PlacedApplication]
    warned: list[str]
    stopped: list[str]

    async def require_leader(self) -> None:
        return

    async def applications(self, job: str | None = None) -> tuple[PlacedApplication, ...]:
        return tuple(one for one in self.placed if job in (None, one.job))

    async def connect(self, key: AttemptKey, port: int) -> Stream:
        return await connect("127.0.0.1", port)

    async def warn(self, job: str, reason: str, message: str) -> None:
        self.warned.append(message)

    async def stop(self, user: str, name: str, by: str, reason: str = "") -> None:
        self.stopped.append(reason)
        self.placed = []


@dataclass
class ApplicationWorld:
    """Applications `web`, which answers as the test says, and `chat`, which sends back what a WebSocket gets."""

    world: World
    api: FastAPI
    platform: Leading
    entrance: Entrance
    job: str
    heads: list[bytes] = field(default_factory=list)
    """What `web` got, up to the end of the headers of each request."""
    probes: int = 0
    answer: Answering | None = None
    """How `web` answers; None for a short text."""
    sockets: list[Any] = field(default_factory=list)
    """The requests for WebSockets that `chat` got."""

    async def uri(self, application: str = "web", user: str = "ann") -> str:
        """Return an address for a browser of a user."""
        answer = await self.ticket(application, user)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["uri"])

    async def ticket(self, application: str = "web", user: str = "ann", host: str = "127.0.0.1:80") -> httpx.Response:
        """Return the answer to a request for an address."""
        path = f"/api/v2/jobs/ann~train/applications/{application}/ticket"
        headers = {**await self.world.login(user), "Host": host}
        transport = httpx.ASGITransport(self.api, client=("192.0.2.7", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://pai") as http:
            return await http.post(path, headers=headers)

    @asynccontextmanager
    async def browser(self, application: str = "web", user: str = "ann") -> AsyncIterator[httpx.AsyncClient]:
        """Yield a client that has entered an application, and says what a browser says on a page of it."""
        uri = await self.uri(application, user)
        origin = uri.partition("/.pai/")[0]
        async with httpx.AsyncClient(base_url=origin, headers={"Sec-Fetch-Site": "same-origin"}, timeout=30) as http:
            entered = await http.get(uri, headers={"Sec-Fetch-Site": "none"})
            assert entered.status_code == 303, entered.text
            yield http

    async def entries(self) -> list[Any]:
        """Return the audit entries of sessions, oldest first."""
        rows = await self.world.api.state.context.services.usage.audit(AuditFilter(actions=("job.exec",)))
        return [row.entry for row in reversed(rows)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"user-agent: openpai\r\n" in head:
                    # The platform asks whether it is ready.
                    self.probes += 1
                    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                    continue
                self.heads.append(head)
                if self.answer is not None:
                    await self.answer(head, reader, writer)
                    if writer.is_closing():
                        return
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def chat(self, connection: ServerConnection) -> None:
        """Send back what comes, and close when it asks for that."""
        self.sockets.append(connection.request)
        async for message in connection:
            if message == "close":
                await connection.close(4001, "as you said")
                return
            await connection.send(message)


@asynccontextmanager
async def application_world(world: World, tmp_path: Path, **settings: Any) -> AsyncIterator[ApplicationWorld]:
    """Yield the entrance to the applications of ann's running job `train`."""
    async with AsyncExitStack() as stack:
        found = ApplicationWorld.__new__(ApplicationWorld)
        web = await stack.enter_async_context(
            await asyncio.start_server(lambda r, w: found.serve(r, w), "127.0.0.1", 0, limit=1 << 20)
        )
        chat = await stack.enter_async_context(
            serve(lambda c: found.chat(c), "127.0.0.1", 0, subprotocols=["v2.chat"], max_size=None)  # type: ignore[list-item]
        )
        ports = [server.sockets[0].getsockname()[1] for server in (web, chat)]
        declared = [
            {"name": "web", "port": ports[0], "path": "/start?at=1"},
            {"name": "chat", "port": ports[1], "kind": "jupyter"},
        ]
        job = await world.submit("train", more=f"extras: {json.dumps({'applications': declared})}")
        await world.grant()
        key = AttemptKey(job, 0, "worker", 0, 0)
        await world.started(key)
        platform = copy.copy(world.commands)
        platform.__class__ = Leading
        assert isinstance(platform, Leading)
        spec = await world.queries.spec(job)
        assert spec is not None
        platform.placed = [
            PlacedApplication(job, "ann", "train", one, key, int(one.port), TOKEN) for one in applications_of(spec)
        ]
        platform.warned, platform.stopped = [], []
        services = world.api.state.context.services
        entrances: list[Entrance] = []
        api = create_api(replace(services, platform=platform, applications=lambda: entrances[0]))
        api.state.context = replace(api.state.context, sessions=world.api.state.context.sessions)
        chosen = Settings(**{"data_dir": tmp_path, "app_ports": _free_ports(), **settings})
        entrance = await stack.enter_async_context(application_entrance(chosen, api.state.context, tmp_path))
        assert entrance is not None
        entrances.append(entrance)
        found.__init__(world, api, platform, entrance, job)  # type: ignore[misc]
        yield found
        await api.state.forwarder.close()


def _free_ports() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    return f"{port}-{min(port + 50, 65535)}"


def cookies_of(http: httpx.AsyncClient) -> str:
    """Return the header of the cookies that a client keeps."""
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in http.cookies.jar)

"""A task with logs, a real server that serves them, and a reader of followed logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvicorn

from openpai.lifecycle.model import AttemptKey

from .api_world import World

TASK = "/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs"


async def running(world: World) -> AttemptKey:
    """Return the task attempt of a job that runs."""
    key = AttemptKey(await world.submit(), 0, "worker", 0, 0)
    await world.grant()
    await world.started(key)
    return key


@contextlib.asynccontextmanager
async def serving(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the API on a free port."""
    server = uvicorn.Server(uvicorn.Config(world.api, port=0, log_config=None, timeout_graceful_shutdown=2))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.wait({serving}, timeout=0.01)
        assert not serving.done()
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = await world.login("ann")
    url = f"http://127.0.0.1:{port}/api/v2"
    try:
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=60) as http:
            yield http
    finally:
        server.should_exit = True
        await serving


class Events:
    """Reads Server-Sent Events one by one; comments count as the event `comment`."""

    def __init__(self, response: httpx.Response) -> None:
        assert response.status_code == 200, response.status_code
        assert response.headers["content-type"].startswith("text/event-stream")
        self._lines = response.aiter_lines()
        self.last_id = ""

    async def next(self) -> tuple[str, Any]:
        kind, data = "", ""
        async for line in self._lines:
            if not line:
                return kind, json.loads(data) if data else None
            name, _, value = line.partition(": ")
            if not name or line.startswith(":"):
                kind = "comment"
            elif name == "event":
                kind = value
            elif name == "data":
                data = value
            elif name == "id":
                self.last_id = value
        raise EOFError

    async def log(self) -> Any:
        """Return the next piece of the log, or None at its end."""
        while True:
            kind, data = await self.next()
            if kind == "log":
                return data
            if kind == "end":
                return None


async def addresses(world: World, user: str = "ann", **params: str) -> dict[str, str]:
    found = await world.get(TASK, user, **params)
    return {place["name"]: place["uri"] for place in found["locations"]}

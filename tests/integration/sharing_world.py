"""A whole platform in this process: the real assembly over simulated machines, asked over its real API.

Jobs here run for as long as their commands say (`sleep infinity` for ever); what the tests await is what people would
see.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from openpai.app.assembly import Server, build
from openpai.app.settings import Settings
from openpai.app.startup import ensure_admin
from openpai.store.database import Database
from tests.newest import fill
from tests.pauses import Pauses

from .truth import truthful

PASSWORD = "correct-horse-1"
PATIENCE_S = 90.0
SHARED = "vision: 2 nodes, speech: 8 GPUs"

JOB = """
protocolVersion: 2
name: {name}
type: job
prerequisites: [{{type: dockerimage, name: image, uri: python}}]
taskRoles:
  worker:
    instances: {instances}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: {gpus}}}
    commands: ["{command}"]
defaults: {{virtualCluster: {vc}}}
extras: {extras}
"""


@dataclass(slots=True)
class Sharing:
    """A platform, and the people who use it."""

    server: Server
    http: httpx.AsyncClient
    tokens: dict[str, str] = field(default_factory=dict)

    async def ask(self, method: str, path: str, user: str = "admin", *, base: str = "/api/v2", **more: Any) -> Any:
        """Return the answer to a request of a user who is logged in."""
        if user not in self.tokens:
            body = {"username": user, "password": PASSWORD}
            answer = await self.http.post("/api/v2/authn/basic/login", json=body)
            assert answer.status_code == 200, answer.text
            self.tokens[user] = answer.json()["token"]
        headers = {"Authorization": f"Bearer {self.tokens[user]}", **more.pop("headers", {})}
        return await self.http.request(method, f"{base}{path}", headers=headers, **more)

    async def get(self, path: str, user: str = "admin", **more: Any) -> Any:
        """Return the document at a path; it must be there."""
        answer = await self.ask("GET", path, user, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def put(self, path: str, body: Any, user: str = "admin", *, status: int = 200) -> Any:
        """Return what a change answers; it must be granted."""
        answer = await self.ask("PUT", path, user, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def refused(self, method: str, path: str, user: str = "admin", **more: Any) -> tuple[int, str]:
        """Return status and name of the error that a request meets."""
        answer = await self.ask(method, path, user, **more)
        return answer.status_code, answer.json()["code"]

    async def add_user(self, name: str, *virtual_clusters: str) -> None:
        """Create a user."""
        body = {"username": name, "password": PASSWORD, "virtualCluster": list(virtual_clusters)}
        answer = await self.ask("POST", "/users", json=body)
        assert answer.status_code == 201, answer.text

    async def submit(self, name: str, vc: str = "default", gpus: int = 8, *, user: str = "admin", **more: Any) -> None:
        """Submit a job."""
        options = {"instances": 1, "command": "sleep infinity", "extras": "{}", **more}
        text = JOB.format(name=name, vc=vc, gpus=gpus, **options)
        answer = await self.ask("POST", "/jobs", user, content=text.encode())
        assert answer.status_code == 202, answer.text

    async def state(self, name: str) -> str:
        """Return the state of a job."""
        return str((await self.get(f"/jobs/{name}"))["jobStatus"]["state"])

    async def until(self, name: str, state: str) -> None:
        """Return once a job is in a state."""

        async def is_so() -> bool:
            return await self.state(name) == state

        await eventually(is_so, f"{name} is {state}")

    async def until_it_waits(self, name: str) -> Any:
        """Return why a job waits, once the scheduler has looked at it."""
        found: list[Any] = []

        async def is_so() -> bool:
            found[:] = (await self.get(f"/jobs/{name}/why"))["waits"]
            return bool(found) and found[0]["code"] != "NOT_YET_LOOKED_AT"

        await eventually(is_so, f"{name} waits")
        return found[0]


async def eventually(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    """Return once a condition on the platform's answers holds; fail when that takes too long."""
    pauses = Pauses()
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while not await is_so():  # noqa: ASYNC110 - users see the answers only by asking
                await asyncio.sleep(pauses.next_s())
            return
    raise AssertionError(f"not in {PATIENCE_S:g} s: {what}")


async def gpus(world: Sharing, kind: str = "Total") -> dict[str, int]:
    """Return how many GPUs each virtual cluster has."""
    found = await world.get("/virtual-clusters")
    return {name: vc[f"resources{kind}"]["gpu"] for name, vc in found.items()}


@asynccontextmanager
async def open_sharing(root: Path, *, nodes: int = 4, gpus: int = 8, **settings: Any) -> AsyncIterator[Sharing]:
    """Open a platform of simulated machines with one administrator, `admin`."""
    wanted = Settings(root / "data", backend="simulated", nodes=nodes, gpus_per_node=gpus, **settings)
    file = root / "data" / "openpai.db"
    if not file.exists():
        file.parent.mkdir(mode=0o700)
        database = Database(f"sqlite:///{file}", inline=True)
        fill(database)
        database.close()
    async with build(wanted) as server:
        # The full collection of garbage before a server leads would visit all that was imported for other tests.
        server.leadership._loading = nullcontext
        await server.open_api()
        services = server.api.state.context.services
        await ensure_admin(services.users, services.clock, PASSWORD)
        leading = asyncio.create_task(server.leadership.run())
        await server.leadership.is_settled.wait()
        server.is_ready = True
        transport = httpx.ASGITransport(server.api, client=("192.0.2.7", 4711))
        try:
            hooks = {"response": [truthful(server.api)]}
            async with httpx.AsyncClient(
                transport=transport, base_url="http://pai", timeout=30, event_hooks=hooks
            ) as http:
                yield Sharing(server, http)
        finally:
            leading.cancel()
            with suppress(asyncio.CancelledError):
                await leading

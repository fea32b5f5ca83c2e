"""A whole platform but for its backend: real store, orchestrator and scheduler behind the real API.

The test is the backend: it says which tasks ran and how they ended, and writes their logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from cryptography.fernet import Fernet
from fastapi import FastAPI

from openpai.api.app import create_api
from openpai.api.passwords import hash_password
from openpai.api.services import Services, Settings
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.model import AttemptKey, ExitReport, Fact, TaskExited, TaskStarted
from openpai.logs.files import FileLogs
from openpai.orchestrator.office import Office
from openpai.orchestrator.placing import place
from openpai.orchestrator.recording import News, record
from openpai.orchestrator.wishes import Wishes
from openpai.ports.backend import NodeSeen
from openpai.ports.store import User
from openpai.scheduler.fifo import FifoScheduler
from openpai.scheduler.model import Node
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.opening import migrate
from openpai.store.queries import SqlJobQueries
from openpai.store.users import SqlUserStore
from openpai.store.vault import Vault

PASSWORD = "correct horse"
_HASH = hash_password(PASSWORD)


@dataclass(slots=True)
class HandClock:
    """A clock that stands still until it is moved."""

    at_ms: int = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms


class Names:
    """Names that count up."""

    def __init__(self) -> None:
        self._given = 0

    def new(self) -> str:
        self._given += 1
        return f"{self._given:032x}"


def job_file(name: str = "train", *, role: str = "worker", instances: int = 1, more: str = "", gpus: int = 0) -> str:
    """Return a job file with one task role."""
    return f"""
protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{type: dockerimage, name: image, uri: python}}
taskRoles:
  {role}:
    instances: {instances}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: {gpus}}}
    commands: ["true"]
{more}
"""


@dataclass(slots=True)
class World:
    """What a test needs to hold in its hands."""

    api: FastAPI
    http: httpx.AsyncClient
    clock: HandClock
    office: Office
    wishes: Wishes
    queries: SqlJobQueries
    users: SqlUserStore
    logs: FileLogs
    logs_root: Path
    database: Database
    over: set[AttemptKey]
    tokens: dict[str, str] = field(default_factory=dict)
    is_ready: bool = True

    async def login(self, user: str) -> dict[str, str]:
        """Return the headers of somebody who is logged in."""
        if user not in self.tokens:
            body = {"username": user, "password": PASSWORD}
            answer = await self.http.post("/api/v2/authn/basic/login", json=body)
            assert answer.status_code == 200, answer.text
            self.tokens[user] = answer.json()["token"]
        return {"Authorization": f"Bearer {self.tokens[user]}"}

    async def ask(self, method: str, path: str, user: str = "ann", **more: Any) -> httpx.Response:
        """Return the answer to a request of somebody who is logged in."""
        headers = {**await self.login(user), **more.pop("headers", {})}
        return await self.http.request(method, f"/api/v2{path}", headers=headers, **more)

    async def get(self, path: str, user: str = "ann", **params: Any) -> Any:
        """Return the document at a path; it must be there."""
        answer = await self.ask("GET", path, user, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def submit(self, name: str = "train", user: str = "ann", **options: Any) -> str:
        """Submit a job and return its id."""
        answer = await self.ask("POST", "/jobs", user, content=job_file(name, **options).encode())
        assert answer.status_code == 202, answer.text
        id_ = await self.wishes._find(user, name)
        self.clock.at_ms += 1000
        return id_

    async def grant(self) -> None:
        """Let the scheduler place what fits."""
        await place(self.office)

    async def tell(self, job: str, *facts: Fact) -> None:
        """Let the platform hear of something that happened to a job."""
        await record(self.office, {job: News(facts)})

    async def started(self, key: AttemptKey) -> None:
        """Let a task attempt be seen running."""
        self.clock.at_ms += 1000
        await self.tell(key.job, TaskStarted(key, self.clock.at_ms))

    async def exited(self, key: AttemptKey, code: int = 0, tail: str = "") -> None:
        """Let a task attempt end."""
        self.clock.at_ms += 1000
        report = ExitReport(code)
        await self.tell(key.job, TaskExited(key, report, diagnose(report, tail), self.clock.at_ms))
        self.over.add(key)

    def write(self, key: AttemptKey, stream: str, data: bytes) -> None:
        """Let a task attempt write something."""
        path = self.logs_root / key.path() / f"{stream}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)


@asynccontextmanager
async def open_world(root: Path, **settings: Any) -> AsyncIterator[World]:
    """Open a platform with one node of 4 CPUs and 2 GPUs and the users root (an administrator), ann and bob."""
    database = Database(f"sqlite:///{root / 'pai.db'}")
    await asyncio.to_thread(migrate, database)
    clock, over = HandClock(), set[AttemptKey]()
    store, queries, users = SqlJobStore(database), SqlJobQueries(database), SqlUserStore(database)
    for name in ("root", "ann", "bob"):
        await users.add_user(User(name, _HASH, name == "root", clock.at_ms))
    logs = FileLogs(root / "logs", over.__contains__, period_s=0.02)
    vault = Vault(Fernet.generate_key().decode())
    wishes = Wishes(store, vault, clock, Names())
    epoch = await store.lease("here/test", clock.at_ms, 60_000)
    assert epoch is not None
    backend: Any = None  # the test itself
    office = wishes.office = Office(store, backend, FifoScheduler(), vault, logs, clock, epoch)
    office.nodes["n1"] = NodeSeen("n1", "10.0.0.1", 4, 4096, 2, gpu_model="H200", bad_devices=frozenset())
    office.scheduler.set_node(Node("n1", 4, 4096, 2))
    manners = Settings(**{"version": "1.2.3", "keep_alive_s": 0.05, **settings})
    world: World
    services = Services(wishes, queries, users, logs, clock, manners, lambda: world.is_ready)
    api = create_api(services)
    transport = httpx.ASGITransport(api, client=("192.0.2.7", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://pai") as http:
        world = World(api, http, clock, office, wishes, queries, users, logs, root / "logs", database, over)
        yield world
    await logs.close()
    api.state.desk.passwords.close()
    database.close()

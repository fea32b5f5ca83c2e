"""A platform that runs nothing by itself: the real store, commands, lifecycle and logs behind the real API.

The test is the scheduler and the backend: it says what is granted, which tasks ran and how they ended, and it
writes their logs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from cryptography.fernet import Fernet
from fastapi import FastAPI
from pwdlib.hashers.argon2 import Argon2Hasher

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, User
from openpai.api.app import create_api
from openpai.api.services import Services, Settings
from openpai.app.health import DatabaseHealth
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.facts import Fact, TaskExited, TasksGranted, TaskStarted
from openpai.lifecycle.model import AttemptKey, ExitReport, JobPhase, TaskId
from openpai.lifecycle.stepping import step
from openpai.logs.files import FileLogs
from openpai.notify.service import Messenger
from openpai.orchestrator.changes import build_change
from openpai.orchestrator.commands import PlatformCommands
from openpai.orchestrator.market import MarketService
from openpai.ports.platform import Holding, NodeView
from openpai.ports.store import Saved, Slot
from openpai.scheduler.interface import Amount
from openpai.scheduler.model import Wait, Why
from openpai.storage.job_code import CodeFiles
from openpai.storage.service import StorageService
from openpai.store.accounts import SqlAccountStore
from openpai.store.alerts import SqlAlertStore
from openpai.store.cluster_settings import SqlSettingsStore
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.market import SqlMarketStore
from openpai.store.queries import SqlJobQueries
from openpai.store.storages import SqlStorageStore
from openpai.store.usage import SqlUsageStore
from openpai.store.vault import Vault
from tests.clocks import HandClock
from tests.newest import fill

from .truth import truthful

PASSWORD = "correct horse"
# Comparing a password with it costs next to nothing, as with one of the platform's own it does on purpose.
_HASH = Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


class Here(PlatformCommands):
    """The real commands, and a cluster of one node to look at."""

    node = NodeView("n1", "10.0.0.1", True, "", "H200", 4, 1, 4096, 64, 2, 1, (1,), 1)
    wait = Wait("gang", Why.NOT_ENOUGH_FREE, "2 of 2 GPUs are in use", "wait for ann~first to end", ("ann~first",), 1)

    async def nodes(self) -> tuple[NodeView, ...]:
        return (self.node,)

    async def in_the_way(self, job: str) -> tuple[Holding, ...]:
        """Return nothing: no server leads here."""
        return ()

    async def borrowed(self, job: str) -> Amount:
        """Return nothing, for the same reason."""
        return Amount()

    async def why(self, job: str) -> tuple[Wait, ...]:
        return (self.wait,) if job == await self._store.find("ann", "second") else ()


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
    store: SqlJobStore
    commands: PlatformCommands
    queries: SqlJobQueries
    users: SqlAccountStore
    logs: FileLogs
    logs_root: Path
    database: Database
    over: set[AttemptKey]
    tokens: dict[str, str] = field(default_factory=dict)
    is_ready: bool = True
    granted: int = 0

    async def login(self, user: str) -> dict[str, str]:
        """Return the headers of a user who is logged in."""
        if user not in self.tokens:
            body = {"username": user, "password": PASSWORD}
            answer = await self.http.post("/api/v2/authn/basic/login", json=body)
            assert answer.status_code == 200, answer.text
            self.tokens[user] = answer.json()["token"]
        return {"Authorization": f"Bearer {self.tokens[user]}"}

    async def ask(self, method: str, path: str, user: str = "ann", **more: Any) -> httpx.Response:
        """Return the answer to a request of a user who is logged in."""
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
        id_ = await self.commands._find(user, name)
        self.clock.at_ms += 1000
        return id_

    async def grant(self) -> None:
        """Give every job that waits what it asks for, on a node without end."""
        for found in await self.store.active():
            if found.job.phase is not JobPhase.QUEUED:
                continue
            roles = {role.name: role.resources for role in found.spec.task_roles}
            slots = {id_: self._slot(roles[id_.role].gpus, roles[id_.role].ports) for id_ in found.job.tasks}
            grants = {id_: slot.grant for id_, slot in slots.items()}
            await self._save(found.job.id, TasksGranted(found.job.attempt, grants, self.clock.at_ms), slots=slots)

    def _slot(self, gpus: int, ports: Mapping[str, int]) -> Slot:
        first = self.granted
        self.granted += 10
        devices = tuple(range(first, first + gpus))
        named = {label: tuple(range(20_000 + first, 20_000 + first + count)) for label, count in ports.items()}
        return Slot("n1", "10.0.0.1", devices, named, self.granted, gpus=gpus, cpus=1, memory_mb=64)

    async def record(self, job: str, *facts: Fact) -> None:
        """Apply a fact about a job."""
        await self._save(job, *facts)

    async def _save(self, job: str, *facts: Fact, slots: Mapping[TaskId, Slot] | None = None) -> None:
        before = await self.store.load(job)
        assert before is not None
        change = build_change(before, step(before.job, facts), slots or {}, self.clock.at_ms)
        assert await self.store.save([change], None) == (Saved.YES,)

    async def started(self, key: AttemptKey) -> None:
        """Let a task attempt be seen running."""
        self.clock.at_ms += 1000
        await self.record(key.job, TaskStarted(key, self.clock.at_ms))

    async def exited(self, key: AttemptKey, code: int = 0, tail: str = "") -> None:
        """Let a task attempt end."""
        self.clock.at_ms += 1000
        report = ExitReport(code)
        await self.record(key.job, TaskExited(key, report, diagnose(report, tail), self.clock.at_ms))
        self.over.add(key)

    def write(self, key: AttemptKey, stream: str, data: bytes) -> None:
        """Let a task attempt write something."""
        path = self.logs_root / key.path() / f"{stream}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)


async def _is_job_over(store: SqlJobStore, job: str) -> bool:
    found = await store.load(job)
    return found is None or found.job.is_final


@asynccontextmanager
async def open_world(root: Path, database_url: str = "", **settings: Any) -> AsyncIterator[World]:
    """Open a platform with one node of 4 CPUs and 2 GPUs and the users root (an administrator), ann and bob.

    `database_url` names a database of the newest schema; without one there is a new one of SQLite.
    """
    database = Database(database_url or f"sqlite:///{root / 'pai.db'}")
    if not database_url:
        fill(database)
    clock, over = HandClock(), set[AttemptKey]()
    store, queries, users = SqlJobStore(database), SqlJobQueries(database), SqlAccountStore(database)
    for name in ("root", "ann", "bob"):
        groups = (Group(DEFAULT_GROUP), *((Group(ADMIN_GROUP),) if name == "root" else ()))
        await users.add_user(User(name, _HASH, clock.at_ms, groups=groups))
    logs = FileLogs(root / "logs", over.__contains__, period_s=0.02)
    vault = Vault(Fernet.generate_key().decode())
    kept = SqlSettingsStore(database)
    code = CodeFiles(root / "code", partial(_is_job_over, store))
    commands = Here(store, vault, clock, Names(), settings=kept, accounts=users, code=code)
    api_settings = Settings(**{"version": "1.2.3", "keep_alive_s": 0.05, **settings})
    world: World
    storages = StorageService(SqlStorageStore(database), vault, clock, keep_out=(root / "logs",))
    services = Services(
        commands, queries, users, logs, clock, api_settings, lambda: world.is_ready, cluster_settings=kept,
        usage=SqlUsageStore(database), storages=storages, sealer=vault, check_database=DatabaseHealth(database).check,
        code=code, alerts=SqlAlertStore(database), sender=Messenger(),
        market=MarketService(SqlMarketStore(database), kept, clock, Names()),
    )  # fmt: skip
    api = create_api(services)
    transport = httpx.ASGITransport(api, client=("192.0.2.7", 4711))
    # What a test is answered is also held against what the API says of itself.
    hooks = {"response": [truthful(api)]}
    async with httpx.AsyncClient(transport=transport, base_url="http://pai", event_hooks=hooks) as http:
        world = World(api, http, clock, store, commands, queries, users, logs, root / "logs", database, over)
        yield world
    storages.close()
    await logs.close()
    database.close()

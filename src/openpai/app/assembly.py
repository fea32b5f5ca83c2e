"""Wires the rooms together. What is opened here is closed here, in the opposite order."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from openpai.api.app import create_api
from openpai.api.services import Services
from openpai.api.services import Settings as Manners
from openpai.app.backend import make_backend
from openpai.app.datadir import DataDir, open_data_dir
from openpai.app.firstrun import ensure_admin
from openpai.app.leadership import Leadership
from openpai.app.settings import Settings
from openpai.app.world import SystemClock, SystemIdentities
from openpai.lifecycle.actions import is_current
from openpai.lifecycle.model import TASK_FINAL, AttemptKey
from openpai.logs.files import FileLogs
from openpai.logs.retention import Limits, Retention
from openpai.orchestrator.wishes import Wishes
from openpai.ports.clock import Clock
from openpai.scheduler.hived.adapter import HivedScheduler
from openpai.storage.shelf import StorageShelf
from openpai.store.accounts import SqlAccountStore
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.opening import migrate
from openpai.store.queries import SqlJobQueries
from openpai.store.settings import SqlSettingsStore
from openpai.store.storages import SqlStorageStore
from openpai.store.usage import SqlUsageStore
from openpai.store.vault import Vault, key_from

DAY_MS = 86_400_000


@dataclass(slots=True)
class House:
    """A server that is wired and not yet serving."""

    api: Any
    leadership: Leadership
    made_up_password: str | None
    """Password of the first admin if it had to be made up; told once."""
    hang_up: Callable[[], None]
    """Ends every followed log, so that a server which stops need not wait for those who read it."""
    is_ready: bool = False


@asynccontextmanager
async def build(settings: Settings, admin_password: str | None) -> AsyncIterator[House]:
    """Open everything a server needs, and close it afterwards. Raises Refused for whatever cannot work."""
    async with AsyncExitStack() as stack:
        data = open_data_dir(settings.data_dir)
        stack.callback(data.close)
        clock = SystemClock()
        database = Database(settings.database_url or data.database_url)
        stack.callback(database.close)
        await asyncio.to_thread(migrate, database)
        store, queries, users = SqlJobStore(database), SqlJobQueries(database), SqlAccountStore(database)
        vault = Vault(os.environ.get("PAI_SECRET_KEY") or key_from(data.key_file))
        made_up = await ensure_admin(users, clock, admin_password)
        storage_store = SqlStorageStore(database)
        kept, usage = SqlSettingsStore(database), SqlUsageStore(database)
        wishes = Wishes(
            store, vault, clock, SystemIdentities(), settings=kept, usage=usage, storages=storage_store
        )  # fmt: skip
        logs = FileLogs(data.logs, _IsOver(wishes, queries))
        stack.push_async_callback(logs.close)
        backend = make_backend(settings, data, clock)
        await backend.open()
        stack.push_async_callback(backend.close)
        leadership = Leadership(
            store,
            backend,
            HivedScheduler,
            wishes,
            secrets=vault,
            logs=logs,
            clock=clock,
            holder=_holder(data),
            housekeeping=_retention(settings, data, queries, clock).run_once,
            settings=kept,
            usage=usage,
            storages=storage_store,
        )
        storages = StorageShelf(storage_store, vault, clock, keep_out=(data.root,))
        stack.callback(storages.close)
        house = House(None, leadership, made_up, logs.hang_up)
        manners = Manners(version=version("openpai"))
        house.api = create_api(
            Services(
                wishes, queries, users, logs, clock, manners, lambda: house.is_ready,
                cluster_settings=kept,
                usage=usage,
                storages=storages,
            )
        )  # fmt: skip
        yield house


class _IsOver:
    """Says whether a task attempt has ended: from the desk while this server leads, else from the store."""

    def __init__(self, wishes: Wishes, queries: SqlJobQueries) -> None:
        self._wishes = wishes
        self._queries = queries

    async def __call__(self, key: AttemptKey) -> bool:
        office = self._wishes.office
        found = office.desk.records.get(key.job) if office else None
        if found is not None:
            return not is_current(found.job, key)
        rows = await self._queries.task_attempts(key.job, key.job_attempt, key.task)
        return any(row.key == key and row.phase in TASK_FINAL for row in rows)


def _holder(data: DataDir) -> str:
    return f"{socket.gethostname()}:{data.root}/{os.getpid()}-{secrets.token_hex(4)}"


def _retention(settings: Settings, data: DataDir, queries: SqlJobQueries, clock: Clock) -> Retention:
    limits = Limits(int(settings.log_retention_days * DAY_MS), settings.log_retention_bytes)
    return Retention(data.logs, queries, clock, limits)

"""Wires the rooms together, and closes in the opposite order everything that it opens."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import openpai
from openpai.api.plugin_pages import read_plugin_pages
from openpai.api.services import ServerSetting, Services, SshGateway
from openpai.api.services import Settings as ApiSettings
from openpai.app.alerting import StorageHealth, disk_free, messenger, read_commands
from openpai.app.backend import make_backend, why_unkept
from openpai.app.clock import SystemClock, SystemIdentities
from openpai.app.datadir import DataDir, open_data_dir, refuse_half_restored, visit_data_dir
from openpai.app.disk_guard import Reserve, Room, RoomGuard, require_room_to_start
from openpai.app.health import DatabaseHealth, Readiness
from openpai.app.housekeeping import DAY_MS, Housekeeping, limits_of
from openpai.app.keys import unlock
from openpai.app.leadership import Follower, Leadership
from openpai.app.log_growth import grown_logs, note_growth_forever
from openpai.app.log_places import LogPlaces
from openpai.app.market import open_market
from openpai.app.metrics import measuring, open_metrics
from openpai.app.runtime_plugins import installed_plugins
from openpai.app.settings import Settings
from openpai.app.startup import promise, promised_at_start
from openpai.backends.host.checkpoints import CHECKPOINTS
from openpai.backends.host.directory import KEPT
from openpai.lifecycle.actions import is_current
from openpai.lifecycle.model import TASK_FINAL, AttemptKey
from openpai.logs.checkpoints import KeptCheckpoints
from openpai.logs.files import FileLogs
from openpai.logs.kept_work import KeptDirectories
from openpai.logs.retention import Retention
from openpai.orchestrator.alert_state import AlertParts
from openpai.orchestrator.commands import PlatformCommands
from openpai.orchestrator.leader import KeptLimit, Leader
from openpai.orchestrator.log_progress import LogProgress, pattern_in
from openpai.orchestrator.task_ports import PORT_END, PORT_FIRST
from openpai.ports.admission import AdmitsJobs
from openpai.ports.applications import Applications
from openpai.ports.backend import Backend, SharedBackend
from openpai.ports.clock import Clock
from openpai.ports.task_usage import MeasuresTasks
from openpai.protocol.admission import queues_in
from openpai.runtime.plugins import Plugins
from openpai.storage.job_code import CodeFiles
from openpai.storage.service import StorageService
from openpai.store.accounts import SqlAccountStore
from openpai.store.alerts import SqlAlertStore
from openpai.store.cluster_settings import SqlSettingsStore
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.opening import migrate, require_newest
from openpai.store.queries import SqlJobQueries
from openpai.store.storages import SqlStorageStore
from openpai.store.usage import SqlUsageStore
from openpai.store.vault import Vault
from openpai.system.garbage import importing, loading
from openpai.system.supervision import supervise

PORTAL: Final = Path(openpai.__file__).parent / "portal"
"""Where `make portal` puts the web portal, and where a wheel has it."""


@dataclass(slots=True)
class Server:
    """A server that is wired but does not serve yet."""

    leadership: Leadership | Follower
    hang_up: Callable[[], None]
    """Ends every followed log, so that a stopping server does not wait for its readers."""
    open_api: Callable[[], Awaitable[None]]
    """Sets `api`. A start of a large cluster does this last: a second of it is no part of its first decision."""
    api: Any = None
    is_ready: bool = False
    ssh: SshGateway | None = None
    """Its SSH gateway, once that listens."""
    ssh_host_key: Path = Path()
    """Where the host key is kept."""
    root: Path = Path()
    """The data directory."""
    applications: Applications | None = None
    """The entrance to applications, once it is open."""


@dataclass(frozen=True, slots=True)
class _Rooms:
    """The parts that every server has, whether it may lead or not."""

    data: DataDir
    clock: Clock
    database: Database
    store: SqlJobStore
    queries: SqlJobQueries
    users: SqlAccountStore
    vault: Vault
    kept: SqlSettingsStore
    usage: SqlUsageStore
    storages: SqlStorageStore
    commands: PlatformCommands
    logs: FileLogs
    log_places: LogPlaces
    work: KeptDirectories
    checkpoints: KeptCheckpoints
    database_health: DatabaseHealth
    readiness: Readiness
    plugins: Plugins
    code: CodeFiles
    alerts: SqlAlertStore


@asynccontextmanager
async def build(settings: Settings, shown: tuple[ServerSetting, ...] = ()) -> AsyncIterator[Server]:
    """Open everything a server needs, and close it afterwards. Raises Refused for settings that cannot work."""
    promised = promised_at_start(settings)
    sign_on_of = None
    if settings.identity is not None:
        # Most servers have none.
        from openpai.app.identity import open_sign_on, read_identity

        sign_on_of = partial(open_sign_on, read_identity(settings.identity))
    async with AsyncExitStack() as stack:
        rooms = await _open(settings, stack)
        storages = StorageService(rooms.storages, rooms.vault, rooms.clock, keep_out=(rooms.data.root,))
        stack.callback(storages.close)
        find = partial(getattr, rooms.commands, "leader")
        metrics = open_metrics(settings, rooms.data.root, rooms.clock, find)
        parts = rooms.commands.alert_parts = replace(_alert_parts(settings, rooms, stack, storages), metrics=metrics)
        leadership = Follower() if settings.api_only else await _leadership(settings, rooms, stack, promised)
        sign_on = None
        if sign_on_of is not None:
            sign_on, provider = sign_on_of(rooms.vault, rooms.clock)
            if provider is not None:
                stack.push_async_callback(provider.close)
        plugin_pages = read_plugin_pages(settings.plugin_pages or "")

        async def open_api() -> None:
            # In a thread: the pods of the first decision are being created meanwhile.
            create_api = await asyncio.to_thread(_read_api)
            market = await open_market(rooms.database, rooms.kept, rooms.clock, is_seeded=not settings.api_only)
            of_api = ApiSettings(version=version("openpai"), logs_requests=settings.log_requests)
            server.api = create_api(
                Services(
                    rooms.commands, rooms.queries, rooms.users, rooms.logs, rooms.clock, of_api,
                    lambda: server.is_ready,
                    cluster_settings=rooms.kept,
                    usage=rooms.usage,
                    storages=storages,
                    sealer=rooms.vault,
                    sign_on=sign_on,
                    check_database=rooms.database_health.check,
                    readiness=rooms.readiness.check,
                    leads=lambda: rooms.commands.leader is not None,
                    work=rooms.work,
                    find_log=rooms.log_places.require,
                    find_work=rooms.log_places.require_work,
                    portal=PORTAL,
                    code=rooms.code,
                    ssh=lambda: server.ssh,
                    applications=lambda: server.applications,
                    alerts=rooms.alerts,
                    sender=parts.sender,
                    metrics=metrics,
                    market=market,
                    server_settings=shown,
                    plugin_pages=plugin_pages,
                )
            )  # fmt: skip
            stack.push_async_callback(server.api.state.forwarder.close)
            metrics.add_source("requests", server.api.state.context.times.readings)
            await stack.enter_async_context(
                measuring(settings, metrics, rooms.data.root, rooms.database, rooms.clock, find)
            )

        server = Server(
            leadership, rooms.logs.hang_up, open_api, ssh_host_key=rooms.data.ssh_host_key, root=rooms.data.root
        )
        yield server


def _read_api() -> Callable[[Services], Any]:
    with importing():
        from openpai.api.app import create_api
    return create_api


async def _open(settings: Settings, stack: AsyncExitStack) -> _Rooms:
    if settings.api_only:
        data = visit_data_dir(settings.data_dir)
    else:
        refuse_half_restored(settings.data_dir)
        require_room_to_start(settings.data_dir)
        data = open_data_dir(settings.data_dir, may_pass=settings.has_task_users)
    stack.callback(data.close)
    if not settings.api_only:
        data.refuse_other_database(settings.database_url, may_move=True)
        Reserve(data.root).own_database()
    clock = SystemClock()
    database = Database(settings.database_url or data.database_url)
    stack.callback(database.close)
    await asyncio.to_thread(require_newest if settings.api_only else migrate, database)
    if not settings.api_only:
        data.remember_database(settings.database_url)
    store, queries, storages = SqlJobStore(database), SqlJobQueries(database), SqlStorageStore(database)
    users = SqlAccountStore(database)
    kept, usage = SqlSettingsStore(database), SqlUsageStore(database)
    vault = await asyncio.to_thread(unlock, data, database, may_make=not settings.api_only)
    plugins = installed_plugins()
    code = CodeFiles(data.code, partial(_is_job_over, store))
    commands = PlatformCommands(
        store, vault, clock, SystemIdentities(),
        settings=kept, usage=usage, accounts=users, storages=storages, check_room=Room(data.root).check,
        plugins=plugins, code=code, why_unkept=why_unkept(settings),
        queues=queues_in(settings.kueue_queues),
    )  # fmt: skip
    kept_ms = int(settings.work_retention_hours * 3_600_000)
    places = data.tasks / settings.backend
    checkpoints = KeptCheckpoints(
        places / CHECKPOINTS, queries, clock, int(settings.checkpoint_retention_days * DAY_MS)
    )
    work = KeptDirectories(places / KEPT, clock, kept_ms, checkpoints)
    logs = FileLogs(data.logs, _IsOver(commands, queries), kept=work, may_arrive=settings.backend == "kubernetes")
    stack.push_async_callback(logs.close)
    log_places = LogPlaces(data.logs, store, kept, commands, clock)
    database_health = DatabaseHealth(database)
    readiness = Readiness(database, store, Room(data.root).check, lambda: commands.leader)
    return _Rooms(
        data, clock, database, store, queries, users, vault, kept, usage, storages, commands, logs, log_places, work,
        checkpoints, database_health, readiness, plugins, code, SqlAlertStore(database),
    )  # fmt: skip


async def _leadership(
    settings: Settings, rooms: _Rooms, stack: AsyncExitStack, promised: Mapping[str, Any] | None
) -> Leadership:
    backend = await make_backend(settings, rooms.data, rooms.clock, rooms.users, rooms.kept)
    # Until it is known what runs.
    may_have_tasks = threading.Event()
    may_have_tasks.set()
    running = partial(_running, settings, rooms, backend, promised, may_have_tasks)
    term: Callable[[int], AbstractAsyncContextManager[object]] = nullcontext
    if isinstance(backend, SharedBackend):
        await backend.reach()
        term = partial(_term, backend, running, rooms.log_places)
    else:
        await stack.enter_async_context(running())
    new_leader = partial(
        Leader,
        store=rooms.store,
        backend=backend,
        secrets=rooms.vault,
        logs=rooms.logs,
        clock=rooms.clock,
        settings=rooms.kept,
        usage=rooms.usage,
        measures=rooms.commands.measures,
        kept=KeptLimit(rooms.work, rooms.queries, int(settings.work_kept_gb * (1 << 30)), why_unkept(settings)),
        admits=backend if settings.kueue_queues and isinstance(backend, AdmitsJobs) else None,
        queues=queues_in(settings.kueue_queues),
        alert_parts=rooms.commands.alert_parts,
        storages=rooms.storages,
        plugins=rooms.plugins,
        code=rooms.code,
        first_port=PORT_FIRST + secrets.randbelow(PORT_END - PORT_FIRST),
        before_launch=may_have_tasks.set,
    )
    holder = f"{socket.gethostname()}:{rooms.data.root}/{os.getpid()}-{secrets.token_hex(4)}"
    housekeeping = Housekeeping(
        settings, rooms.clock, rooms.store, rooms.usage, rooms.alerts,
        logs=Retention(rooms.data.logs, rooms.queries, rooms.clock, limits_of(settings)),
        others=(partial(asyncio.to_thread, rooms.work.expire), rooms.checkpoints.expire, rooms.code.expire),
    )  # fmt: skip
    return Leadership(
        rooms.store,
        rooms.clock,
        rooms.commands,
        new_leader,
        holder=holder,
        housekeeping=housekeeping.clean_up,
        term=term,
        loading=loading,
    )


def _alert_parts(settings: Settings, rooms: _Rooms, stack: AsyncExitStack, storages: StorageService) -> AlertParts:
    sender, health = messenger(settings), StorageHealth(storages)
    stack.push_async_callback(sender.close)
    stack.callback(health.close)
    return AlertParts(
        rooms.alerts,
        sender,
        rooms.users,
        rooms.queries,
        rooms.usage,
        rooms.commands,
        readiness=rooms.readiness.check,
        disk_free=partial(disk_free, rooms.data.root),
        storages=health,
        commands=read_commands(settings.alert_commands),
    )


@asynccontextmanager
async def _term(
    backend: SharedBackend, running: Callable[[], AbstractAsyncContextManager[None]], places: LogPlaces, epoch: int
) -> AsyncIterator[None]:
    """Use a cluster that several servers share only while this one leads."""
    backend.lead_in(epoch)
    async with running():
        await places.announce(epoch)
        yield


@asynccontextmanager
async def _running(
    settings: Settings,
    rooms: _Rooms,
    backend: Backend,
    promised: Mapping[str, Any] | None,
    may_have_tasks: threading.Event,
) -> AsyncIterator[None]:
    """Open the backend, with what watches its tasks, and close it afterwards."""
    async with AsyncExitStack() as stack:
        await backend.open()
        stack.push_async_callback(backend.close)
        watching = partial(note_growth_forever, backend, rooms.data.logs, rooms.clock)
        stack.callback(supervise("note when logs grow", watching).cancel)
        _guard_room(settings, rooms, stack, backend, may_have_tasks)
        if isinstance(backend, MeasuresTasks):
            progress = LogProgress(rooms.logs, lambda job: pattern_in(rooms.commands.leader, job))
            measures = rooms.commands.measures
            measuring = supervise("measure tasks", partial(measures.measure_forever, backend, progress.add))
            stack.callback(measuring.cancel)
        if promised is not None:
            await promise(promised, rooms.kept, backend, rooms.clock)
        yield


def _guard_room(
    settings: Settings, rooms: _Rooms, stack: AsyncExitStack, backend: Backend, may_have_tasks: threading.Event
) -> None:
    give_up = partial(rooms.work.expire, is_scarce=True)
    log_bytes_max = settings.log_max_mb << 20
    guard = RoomGuard(
        rooms.data.root, rooms.data.logs, log_bytes_max, backend.observe, may_have_tasks, give_up, grown_logs(backend)
    )
    stack.callback(guard.close)
    guarding = supervise("guard the disk", guard.run)
    stack.callback(guarding.cancel)


async def _is_job_over(store: SqlJobStore, job: str) -> bool:
    found = await store.load(job)
    return found is None or found.job.is_final


class _IsOver:
    """Returns whether a task attempt has ended, from the active jobs on the leader, otherwise from the store."""

    def __init__(self, commands: PlatformCommands, queries: SqlJobQueries) -> None:
        self._commands = commands
        self._queries = queries

    async def __call__(self, key: AttemptKey) -> bool:
        leader = self._commands.leader
        record = leader.active.records.get(key.job) if leader else None
        if record is not None:
            return not is_current(record.job, key)
        rows = await self._queries.task_attempts(key.job, key.job_attempt, key.task)
        return any(row.key == key and row.phase in TASK_FINAL for row in rows)

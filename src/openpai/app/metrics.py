"""Measures this server and its platform: which sources there are, and the loops beside them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from openpai.app.settings import Settings
from openpai.backends.host.probing import Probe
from openpai.metrics.devices import readings_of
from openpai.metrics.history import KeptHistory
from openpai.metrics.machine import Machine, of_process
from openpai.metrics.service import History, MeasuredMetrics
from openpai.orchestrator import readings
from openpai.orchestrator.leader import Leader
from openpai.ports.clock import Clock
from openpai.ports.metrics import PERIOD_S
from openpai.ports.task_usage import Device, ReadsDevices
from openpai.series.labels import NO_LABELS, Labels
from openpai.series.model import Reading
from openpai.series.retention import DAY_MS, HOUR_MS, Tier, Tiers
from openpai.store.database import Database
from openpai.system.supervision import failures, supervise

log: Final = structlog.get_logger(__name__)
FILE: Final = "metrics.db"
_LAG_EVERY_S: Final = 0.25
_AHEAD_S: Final = 0.5
"""How long before a round this machine is read."""
Find = Callable[[], Leader | None]


class LoopLag:
    """Watches how late the event loop is."""

    def __init__(self) -> None:
        self._worst_s = 0.0

    async def watch(self) -> None:
        """Note the delay of a short sleep, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + _LAG_EVERY_S
            await asyncio.sleep(_LAG_EVERY_S)
            self._worst_s = max(self._worst_s, loop.time() - due_s)

    def take(self) -> float:
        """Return the longest delay since the last call."""
        worst_s, self._worst_s = self._worst_s, 0.0
        return worst_s


class ThisMachine:
    """Reads this machine and its devices in a thread, shortly before each round."""

    def __init__(self, data_dir: Path, clock: Clock, find: Find) -> None:
        self._machine = Machine(data_dir)
        self._clock = clock
        self._find = find
        self._backend: ReadsDevices | None = None
        self._reading: Probe[tuple[Device, ...]] = Probe(tuple)
        self._found: tuple[Reading, ...] = ()

    async def watch(self) -> None:
        """Read everything periodically."""
        while True:
            leader = self._find()
            nodes = tuple(leader.nodes.values()) if leader is not None else ()
            name, model = (nodes[0].name, nodes[0].gpu_model) if len(nodes) == 1 else (socket.gethostname(), "")
            backend = leader.backend if leader is not None else None
            here = await asyncio.to_thread(self._machine.read)
            devices = await self._devices(backend) if isinstance(backend, ReadsDevices) else ()
            self._found = (Reading(Labels.of({"node": name}), here), *readings_of(devices, name, model))
            past_s = (self._clock.now_ms() / 1000 + _AHEAD_S) % PERIOD_S
            await asyncio.sleep(PERIOD_S - past_s)

    async def _devices(self, backend: ReadsDevices) -> tuple[Device, ...]:
        """Return the devices; none while their driver hangs or fails, which leaves all other values as they are."""
        if backend is not self._backend:
            self._backend, self._reading = backend, Probe(backend.read_devices)
        try:
            return await self._reading.result() or ()
        except Exception as error:
            log.error("the GPUs of this machine cannot be read", error=str(error))
            return ()

    def readings(self) -> Iterable[Reading]:
        """Return what was read last."""
        return self._found


def of_server(database: Database, lag: LoopLag) -> Iterator[Reading]:
    """Yield what concerns this process."""
    commits, writes, commit_s = database.written()
    yield Reading(
        NO_LABELS,
        {
            "pai_commits_total": float(commits),
            "pai_writes_total": float(writes),
            "pai_commit_seconds_total": commit_s,
            "pai_loop_lag_seconds": lag.take(),
            "pai_loop_failures_total": float(sum(failures().values())),
            **dict(of_process()),
        },
    )


def tiers_of(settings: Settings) -> Tiers:
    """Return the tiers with the times for which the settings keep them."""
    return Tiers(
        Tier("10s", 10_000, int(settings.metrics_10s_days * DAY_MS)),
        Tier("5m", 300_000, int(settings.metrics_5m_days * DAY_MS)),
        Tier("1h", HOUR_MS, int(settings.metrics_1h_days * DAY_MS)),
    )


def open_metrics(settings: Settings, data_dir: Path, clock: Clock, find: Find) -> MeasuredMetrics:
    """Return the metrics of a server; `measuring` runs them."""
    history: History
    if settings.metrics_url is not None:
        from openpai.metrics.prometheus import PrometheusHistory

        history = PrometheusHistory(settings.metrics_url)
    else:
        history = KeptHistory(data_dir / FILE, tiers_of(settings))
    metrics = MeasuredMetrics(clock, history, is_asked=lambda: find() is not None)
    for name, source in (
        ("the platform", readings.of_platform),
        ("virtual clusters", readings.of_virtual_clusters),
        ("nodes", readings.of_nodes),
    ):
        metrics.add_source(name, partial(source, find))
    metrics.add_source("jobs", readings.OfJobs(find))
    return metrics


@asynccontextmanager
async def measuring(
    settings: Settings, metrics: MeasuredMetrics, data_dir: Path, database: Database, clock: Clock, find: Find
) -> AsyncIterator[None]:
    """Measure everything while the server runs."""
    lag, machine = LoopLag(), ThisMachine(data_dir, clock, find)
    writer = None
    if settings.remote_write_url is not None:
        from openpai.metrics.remote_write import RemoteWriter

        writer = RemoteWriter(settings.remote_write_url)
    metrics.add_source("this server", partial(of_server, database, lag))
    loops = [supervise("watch the event loop", lag.watch)]
    if not settings.api_only:
        metrics.add_source("this machine", machine.readings)
        if writer is not None:
            metrics.add_source("remote write", writer.readings)
            metrics.on_round(lambda _: writer.take(metrics.newest))
            loops.append(supervise("send values by remote write", writer.run))
        loops.append(supervise("read this machine", machine.watch))
    # A server that only answers measures itself, for `/metrics`, and keeps nothing.
    await metrics.open(keeps=not settings.api_only)
    loops.append(supervise("measure", metrics.measure_forever))
    try:
        yield
    finally:
        for loop in loops:
            loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*loops, return_exceptions=True)
        await metrics.close()

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

from openpai.app.settings import Settings
from openpai.backends.host.gpu_use import GpuReader, NoGpus, open_gpus
from openpai.backends.host.machine import VIRTUAL
from openpai.metrics.devices import readings_of
from openpai.metrics.history import KeptHistory
from openpai.metrics.machine import Machine, of_process
from openpai.metrics.prometheus import PrometheusHistory
from openpai.metrics.remote_write import RemoteWriter
from openpai.metrics.service import History, MeasuredMetrics
from openpai.orchestrator import readings
from openpai.orchestrator.leader import Leader
from openpai.ports.clock import Clock
from openpai.ports.metrics import PERIOD_S
from openpai.series.labels import NO_LABELS, Labels
from openpai.series.model import Reading
from openpai.series.retention import DAY_MS, HOUR_MS, Tier, Tiers
from openpai.store.database import Database
from openpai.system.supervision import failures, supervise

FILE: Final = "metrics.db"
_LAG_EVERY_S: Final = 0.25
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

    def __init__(self, settings: Settings, data_dir: Path, find: Find) -> None:
        self._machine = Machine(data_dir)
        self._find = find
        self._has_devices = settings.backend in ("process", "docker")
        self._gpus: GpuReader | None = None
        self._found: tuple[Reading, ...] = ()

    async def watch(self) -> None:
        """Read everything periodically."""
        while True:
            leader = self._find()
            nodes = tuple(leader.nodes.values()) if leader is not None else ()
            name = nodes[0].name if len(nodes) == 1 else socket.gethostname()
            devices = nodes[0].gpus if len(nodes) == 1 and nodes[0].gpu_model != VIRTUAL and self._has_devices else 0
            model = nodes[0].gpu_model if devices else ""
            self._found = await asyncio.to_thread(self._read, name, devices, model)
            await asyncio.sleep(PERIOD_S)

    def _read(self, node: str, devices: int, model: str) -> tuple[Reading, ...]:
        found = [Reading(Labels.of({"node": node}), self._machine.read())]
        if devices:
            # Only now: the driver's library takes a while to start.
            self._gpus = self._gpus or open_gpus()
            if not isinstance(self._gpus, NoGpus):
                found.extend(readings_of(self._gpus.read(range(devices)), self._health(devices), node, model))
        return tuple(found)

    def _health(self, devices: int) -> dict[int, dict[str, float]]:
        health = getattr(self._gpus, "health", None)
        return {} if health is None else health(range(devices))

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
        history = PrometheusHistory(settings.metrics_url)
    else:
        history = KeptHistory(data_dir / FILE, tiers_of(settings))
    metrics = MeasuredMetrics(clock, history, is_asked=lambda: find() is not None)
    for name, source in (
        ("the platform", readings.of_platform),
        ("virtual clusters", readings.of_virtual_clusters),
        ("nodes", readings.of_nodes),
        ("jobs", readings.of_jobs),
    ):
        metrics.add_source(name, partial(source, find))
    return metrics


@asynccontextmanager
async def measuring(
    settings: Settings, metrics: MeasuredMetrics, data_dir: Path, database: Database, find: Find
) -> AsyncIterator[None]:
    """Measure everything while the server runs."""
    lag, machine = LoopLag(), ThisMachine(settings, data_dir, find)
    writer = None if settings.remote_write_url is None else RemoteWriter(settings.remote_write_url)
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

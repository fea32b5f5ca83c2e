"""Runs the simulated cluster as a backend: passes it the time and reports its news.

Under the event loop one timer waits for the next event. A simulator that controls the time asks for
`is_driven=True` and calls `advance_to` instead; then nothing happens by itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from openpai.backends.simulated.cluster import Feed, SimulatedCluster
from openpai.backends.simulated.shells import SimulatedShells
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Action, NodeSeen, TaskSeen
from openpai.ports.clock import Clock
from openpai.ports.shells import Shell, ShellCommand, Stream, not_running
from openpai.ports.task_usage import TaskSample
from openpai.protocol.errors import Broken


class SimulatedBackend:
    """One server's connection to a simulated cluster, which stays as it is when the connection is closed."""

    def __init__(
        self, cluster: SimulatedCluster, clock: Clock, *, steady: Clock | None = None, is_driven: bool = False
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._steady = steady or clock
        """Tasks run by the monotonic clock; only the times they report are the wall clock's."""
        self._is_driven = is_driven
        self._shells = SimulatedShells(cluster.runs)
        self._feed: Feed | None = None
        self._has_news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None

    async def open(self) -> None:
        """Connect, and report every task that exists."""
        self._feed = self._cluster.connect(self._wake)
        self.advance_to(self._now_ms())

    async def close(self) -> None:
        """Release everything except the tasks."""
        self.disconnect()

    def disconnect(self) -> None:
        """Disconnect at once, like a server that was killed."""
        self._shells.close()
        if self._feed is not None:
            self._cluster.disconnect(self._feed)
            self._feed = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def nodes(self) -> tuple[NodeSeen, ...]:
        """Return the state of every virtual node."""
        return self._cluster.nodes()

    async def apply(self, actions: Sequence[Action]) -> None:
        """Send actions to the cluster. Raise Broken if the backend is not open."""
        self._opened()
        self._cluster.submit(actions, self._now_ms())
        self._wait_for_next()

    async def observe(self, among: Collection[AttemptKey] | None = None) -> tuple[TaskSeen, ...]:
        """Return every task that runs or is not forgotten."""
        return self._cluster.observe(among)

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait for news and return all of it."""
        feed = self._opened()
        while not feed.news:
            self._has_news.clear()
            await self._has_news.wait()
        return feed.take()

    async def measure(self) -> tuple[TaskSample, ...]:
        """Return an imitation of what running tasks use."""
        self._now_ms()
        return self._cluster.measure(self._clock.now_ms())

    async def shell(self, key: AttemptKey, command: ShellCommand) -> Shell:
        """Start a command in a running task attempt."""
        self._require_running(key)
        return self._shells.start(key, command)

    async def connect(self, key: AttemptKey, port: int) -> Stream:
        """Connect to a port of a running task attempt."""
        self._require_running(key)
        return self._shells.connect(port)

    def _require_running(self, key: AttemptKey) -> None:
        if not self._cluster.runs(key):
            raise not_running(key)

    def advance_to(self, now_ms: int) -> None:
        """Let everything happen that is due by `now_ms`."""
        self._cluster.advance(now_ms)
        self._shells.look()
        self._wait_for_next()

    def _opened(self) -> Feed:
        if self._feed is None:
            raise Broken("the simulated backend is used before it was opened or after it was closed")
        return self._feed

    def _wake(self) -> None:
        self._has_news.set()
        self._shells.look()
        self._wait_for_next()

    def _now_ms(self) -> int:
        now_ms = self._steady.now_ms()
        self._cluster.wall_ahead_ms = self._clock.now_ms() - now_ms
        return now_ms

    def _wait_for_next(self) -> None:
        if self._is_driven or self._feed is None:
            return
        due_ms = self._cluster.next_due_ms()
        if self._timer is not None:
            if due_ms == self._timer_due_ms:
                return
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            delay_s = max(0, due_ms - self._now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._due)
            self._timer_due_ms = due_ms

    def _due(self) -> None:
        self._timer = None
        self.advance_to(self._now_ms())


def virtual_nodes(
    count: int, gpus_per_node: int, *, cpus: int = 64, memory_mb: int = 512 * 1024, gpu_model: str = "Simulated GPU"
) -> tuple[NodeSeen, ...]:
    """Return `count` equal nodes with names and addresses of their own."""
    width = max(2, len(str(count)))
    return tuple(
        NodeSeen(
            f"node-{number:0{width}}",
            f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            cpus,
            memory_mb,
            gpus_per_node,
            gpu_model=gpu_model if gpus_per_node else "",
        )
        for number in range(1, count + 1)
    )


class LogFiles:
    """Appends to `root/<attempt>/stdout.log`; give its `say` to a `SimulatedCluster`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def say(self, key: AttemptKey, text: str) -> None:
        """Append `text` to the attempt's standard output; it is lost if it cannot be written, as on a full disk."""
        directory = f"{self._root}/{key.path()}"
        try:
            # All this happens on the event loop, for every task. A directory is enough for an empty log, and a file of
            # text takes twice as long to open as one of bytes.
            if not text:
                os.mkdir(directory)  # noqa: PTH102  # called often
                return
            log = _opened(directory)
            try:
                os.write(log, text.encode())
            finally:
                os.close(log)
        except OSError:
            return


def _opened(directory: str) -> int:
    path, flags = f"{directory}/stdout.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        os.makedirs(directory, exist_ok=True)  # noqa: PTH103
        return os.open(path, flags, 0o666)

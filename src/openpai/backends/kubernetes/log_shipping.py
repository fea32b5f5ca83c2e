"""Brings the logs of pods to the server while they grow, so that they outlive the pod and its node.

A log is followed through the API of pods. A stream that breaks is opened again where it broke. There is a bound on the
streams that are open at the same time: the logs of more pods are read every few seconds instead, and when they end.
There is a bound on these reads, too, so the logs of many thousand pods are read less often until they end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol, Self

import structlog

from openpai.backends.kubernetes.log_files import AttemptLog
from openpai.backends.kubernetes.log_lines import LogLines
from openpai.kube.errors import KubeError
from openpai.lifecycle.model import AttemptKey
from openpai.system.supervision import background

log: Final = structlog.get_logger(__name__)
STREAMS_MAX: Final = 300
POLLS_AT_ONCE: Final = 8
ENDS_AT_ONCE: Final = 16
POLL_EVERY_S: Final = 5.0
POLLS_PER_S: Final = 40.0
"""An API server must not spend its time on the logs of thousands of pods that are not followed."""
AGAIN_S: Final = 1.0
AGAIN_MAX_S: Final = 30.0
END_PATIENCE_S: Final = 5.0
"""How long a stream may be silent after the container has ended before it is cut and read once more."""
GATHERED_BYTES_MAX: Final = 256 * 1024
"""How much of a log is kept in memory before its stream has to wait."""
END_TRIES: Final = 4


class PodLogs(Protocol):
    """Where the logs of containers are read, each line with its time."""

    def __call__(self, pod: str, *, follow: bool, since: datetime | None) -> AsyncGenerator[bytes]:
        """Yield the log from `since` on, to its end now, or until the container has ended. Raises KubeError."""
        ...


class _Shipment:
    """The log of one attempt."""

    def __init__(self, root: Path, key: AttemptKey, pod: str) -> None:
        self.key = key
        self.pod = pod
        self.log = AttemptLog(root, key)
        self.is_open = False
        self.has_ended = asyncio.Event()
        """Set once the container has ended: what it wrote is complete."""
        self.is_due = asyncio.Event()
        """Set once it need not wait for its next turn: its container has ended, or a stream is free."""
        self.is_done = asyncio.Event()
        self.deadline: asyncio.Timeout | None = None
        self.failures = 0
        self.writes = 0
        self.task: asyncio.Task[None] | None = None

    def expect_end(self) -> None:
        """Cut the stream when nothing arrives for some time: the node may be gone, and it would never end."""
        if self.deadline is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time() + END_PATIENCE_S)


class LogShipper:
    """Ships the logs of many pods."""

    def __init__(
        self, logs: PodLogs, root: Path, *, streams: int = STREAMS_MAX, poll_every_s: float = POLL_EVERY_S
    ) -> None:
        self._logs = logs
        self._root = root
        self._streams = streams
        self._poll_every_s = poll_every_s
        self._shipments: dict[AttemptKey, _Shipment] = {}
        self._following: set[_Shipment] = set()
        self._waiting: dict[_Shipment, None] = {}
        self._polls = asyncio.Semaphore(POLLS_AT_ONCE)
        self._ends = asyncio.Semaphore(ENDS_AT_ONCE)

    def ship(self, key: AttemptKey, pod: str) -> None:
        """Begin to ship the log of a pod whose container runs or ran, unless that has begun."""
        if key in self._shipments:
            return
        shipment = self._shipments[key] = _Shipment(self._root, key, pod)
        if len(self._following) < self._streams:
            self._following.add(shipment)
            work: Coroutine[None, None, None] = self._follow(shipment)
        else:
            self._waiting[shipment] = None
            work = self._poll(shipment)
        shipment.task = background(f"log of {pod}", work)

    def ended(self, key: AttemptKey) -> None:
        """Report that the container has ended, so its log is read to the end and no further."""
        shipment = self._shipments.get(key)
        if shipment is None or shipment.has_ended.is_set():
            return
        shipment.has_ended.set()
        shipment.is_due.set()
        shipment.expect_end()

    async def finished(self, key: AttemptKey, patience_s: float) -> bool:
        """Wait until the log of an ended container is complete, or cannot be.

        Return False if nothing of it arrives for `patience_s`.
        """
        shipment = self._shipments.get(key)
        if shipment is None:
            return True
        writes = -1
        while not shipment.is_done.is_set() and shipment.writes != writes:
            writes = shipment.writes
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await shipment.is_done.wait()
        return shipment.is_done.is_set()

    def forget(self, key: AttemptKey) -> None:
        """Stop to ship a log; what was shipped stays."""
        shipment = self._shipments.pop(key, None)
        if shipment is not None and shipment.task is not None:
            shipment.task.cancel()

    async def close(self) -> None:
        """Stop to ship. A later server goes on where this one stopped."""
        tasks = [shipment.task for shipment in self._shipments.values() if shipment.task is not None]
        self._waiting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, shipment: _Shipment) -> None:
        try:
            while not await self._round(shipment, follow=True):
                await _pause(shipment, _again_s(shipment))
            shipment.is_done.set()
        finally:
            self._following.discard(shipment)
            if self._waiting and len(self._following) < self._streams:
                # The one that waits longest is followed from now on.
                first = next(iter(self._waiting))
                del self._waiting[first]
                self._following.add(first)
                first.is_due.set()

    async def _poll(self, shipment: _Shipment) -> None:
        """Read a log now and then, until a stream is free for it."""
        try:
            # The reads of many pods that begin together are spread, too.
            due_s = len(self._waiting) / POLLS_PER_S
            while shipment in self._waiting:
                again_s = _again_s(shipment) if shipment.failures else 0.0
                await _pause(shipment, again_s if shipment.has_ended.is_set() else max(due_s, again_s))
                # A task that ended waits for its log, and that not for the logs of tasks that run.
                async with self._ends if shipment.has_ended.is_set() else self._polls:
                    if await self._round(shipment, follow=False):
                        shipment.is_done.set()
                        return
                due_s = max(self._poll_every_s, len(self._waiting) / POLLS_PER_S)
        finally:
            self._waiting.pop(shipment, None)
        if not shipment.has_ended.is_set():
            shipment.is_due.clear()
        await self._follow(shipment)

    async def _round(self, shipment: _Shipment, *, follow: bool) -> bool:
        """Read a log once; return whether that is all of it, or all that can be read."""
        had_ended = shipment.has_ended.is_set()
        try:
            if not shipment.is_open:
                await asyncio.to_thread(shipment.log.open)
                shipment.is_open = True
            if shipment.log.is_complete:
                return True
            await self._read(shipment, follow=follow and not had_ended)
            shipment.failures = 0
            if had_ended:
                await asyncio.to_thread(shipment.log.complete)
            return had_ended
        except TimeoutError:
            return False
        except OSError as error:
            # As on a full disk: the files and the cursor in memory no longer fit each other.
            shipment.is_open = False
            shipment.failures += 1
            log.warning("a log cannot be written", attempt=shipment.key.path(), error=str(error))
            return False
        except KubeError as error:
            shipment.failures += 1
            return await self._is_lost(shipment, error, had_ended=had_ended)

    async def _read(self, shipment: _Shipment, *, follow: bool) -> None:
        store = shipment.log
        since = store.cursor.since_s
        lines = LogLines(store.cursor)
        since_time = None if since is None else datetime.fromtimestamp(since, UTC)
        try:
            async with (
                asyncio.timeout(None) as shipment.deadline,
                _Writer(shipment, lines) as writer,
                aclosing(self._logs(shipment.pod, follow=follow, since=since_time)) as chunks,
            ):
                async for chunk in chunks:
                    await writer.add(chunk)
        finally:
            shipment.deadline = None
        if shipment.has_ended.is_set():
            await asyncio.to_thread(store.add, lines, None)

    async def _is_lost(self, shipment: _Shipment, error: KubeError, *, had_ended: bool) -> bool:
        """Return whether nothing more of a log can be read."""
        if not error.is_missing and not (had_ended and shipment.failures >= END_TRIES):
            return False
        with contextlib.suppress(OSError):
            await asyncio.to_thread(shipment.log.note, f"the end of the log may be missing: {error.message}")
            await asyncio.to_thread(shipment.log.complete)
        return True


class _Writer:
    """Writes what arrives, and gathers what arrives meanwhile: a busy log comes in thousands of small pieces."""

    def __init__(self, shipment: _Shipment, lines: LogLines) -> None:
        self._shipment = shipment
        self._lines = lines
        self._gathered: list[bytes] = []
        self._size = 0
        self._task: asyncio.Task[None] | None = None
        self._has_said_gap = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write the rest, also of a stream that broke. Raises OSError."""
        if self._task is not None:
            await self._task

    async def add(self, chunk: bytes) -> None:
        """Take a piece; waits while too much is not written yet. Raises OSError."""
        self._gathered.append(chunk)
        self._size += len(chunk)
        if self._task is not None and (self._task.done() or self._size > GATHERED_BYTES_MAX):
            await self._task
            self._task = None
        if self._task is None and self._gathered:
            self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        shipment = self._shipment
        while self._gathered:
            data = b"".join(self._gathered)
            self._gathered.clear()
            self._size = 0
            if await asyncio.to_thread(shipment.log.add, self._lines, data):
                shipment.failures = 0
                shipment.writes += 1
            if self._lines.may_have_gap and not self._has_said_gap:
                self._has_said_gap = True
                await asyncio.to_thread(shipment.log.note, "lines may be missing here: the node removed them unread")
            if shipment.has_ended.is_set():
                shipment.expect_end()


def _again_s(shipment: _Shipment) -> float:
    return min(AGAIN_S * 2.0 ** min(shipment.failures, 10), AGAIN_MAX_S)


async def _pause(shipment: _Shipment, seconds: float) -> None:
    """Wait before a log is read again, until it is due: its container ends, or a stream is free for it."""
    if shipment.has_ended.is_set():
        await asyncio.sleep(seconds if shipment.failures else 0)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await shipment.is_due.wait()

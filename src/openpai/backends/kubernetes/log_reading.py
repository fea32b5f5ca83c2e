"""Reads the log of one pod into its files: once, or followed to its end.

A log that could be read only in part is read again from where it broke. Whoever calls decides when.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol, Self

import structlog

from openpai.backends.kubernetes.log_files import GAP, AttemptLog
from openpai.backends.kubernetes.log_lines import NO_STAMP, LogLines, stamp_of
from openpai.kube.errors import KubeError
from openpai.lifecycle.model import AttemptKey

log: Final = structlog.get_logger(__name__)
AGAIN_S: Final = 1.0
AGAIN_MAX_S: Final = 30.0
END_PATIENCE_S: Final = 5.0
"""How long a stream may be silent after the container has ended before it is cut and read once more."""
GATHERED_BYTES_MAX: Final = 256 * 1024
"""How much of a log is kept in memory before its stream has to wait."""
ANSWER_BYTES: Final = 256 * 1024
"""So much of a log that is not followed is asked for in one answer. A longer one is read as a stream."""
END_TRIES: Final = 4
PART_BYTES: Final = 1 << 20
"""After so much of a followed log it is asked whether its node has begun a new part. Parts are ten times as large."""
_STAMPED_BYTES: Final = 64
"""Enough for the time of a line."""


class PodLogs(Protocol):
    """Where the logs of containers are read, each line with its time."""

    def __call__(
        self, pod: str, *, follow: bool, since: datetime | None, limit_bytes: int | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield the log from `since` on, to its end now, or until the container has ended. Raises KubeError.

        The node has the newest part of a log only: a new one begins when the log has grown by some megabytes.
        """
        ...


class Shipment:
    """The log of one attempt. Of many thousand, few are read at a time: until then it holds little."""

    __slots__ = (
        *("deadline", "done", "due", "failures", "has_ended", "is_done", "is_read", "key", "log", "part_at", "pod"),
        *("task", "writes"),
    )

    def __init__(self, key: AttemptKey, pod: str) -> None:
        self.key = key
        self.pod = pod
        self.log: AttemptLog | None = None
        """Its files, while they are read into."""
        self.has_ended = False
        """Whether the container has ended: what it wrote is complete."""
        self.is_done = False
        """Whether all was read that can be."""
        self.is_read = False
        """Whether it is being read as one of many that take turns."""
        self.done: asyncio.Event | None = None
        """Set when it is done, if that is awaited."""
        self.due: asyncio.Event | None = None
        """Wakes a follower that waits before it tries again: its container has ended."""
        self.deadline: asyncio.Timeout | None = None
        self.failures = 0
        self.writes = 0
        self.part_at = NO_STAMP
        """The time of the first line of the newest part that the node has; negative if it was not asked yet."""
        self.task: asyncio.Task[None] | None = None

    def expect_end(self) -> None:
        """Cut the stream when nothing arrives for some time: the node may be gone, and it would never end."""
        if self.deadline is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time() + END_PATIENCE_S)

    def finish(self) -> None:
        """Record that all was read."""
        self.is_done = True
        if self.done is not None:
            self.done.set()

    def again_s(self) -> float:
        """Return how long to wait before the log is read again."""
        return min(AGAIN_S * 2.0 ** min(self.failures, 10), AGAIN_MAX_S)


class LogReading:
    """Reads logs into their files."""

    def __init__(self, logs: PodLogs, root: Path) -> None:
        self._logs = logs
        self._root = root
        self.growth: list[set[AttemptKey]] = []
        """Where to add each attempt whose files have grown."""

    async def once(self, shipment: Shipment, *, follow: bool) -> bool:
        """Read a log once; return whether that is all of it, or all that can be read."""
        had_ended = shipment.has_ended
        try:
            store = await self._opened(shipment)
            if store.is_complete:
                await asyncio.to_thread(store.expect_nothing)
                return True
            if follow and not had_ended:
                await self._read(shipment, store, follow=True)
            elif shipment.failures or not await self._read_answer(shipment, store, is_end=had_ended):
                # Of a stream that breaks, what came before is kept.
                lines = await self._read(shipment, store, follow=False)
                if had_ended:
                    if lines.has_found_nothing:
                        # The node has begun a new part, and no API serves the one that was not read to its end.
                        await self._note(shipment, store, GAP.decode())
                    await asyncio.to_thread(store.complete)
            shipment.failures = 0
            return had_ended
        except TimeoutError:
            return False
        except OSError as error:
            # As on a full disk: the files and the cursor in memory no longer fit each other.
            if shipment.log is not None:
                shipment.log.is_open = False
            shipment.failures += 1
            log.warning("a log cannot be written", attempt=shipment.key.path(), error=str(error))
            return False
        except KubeError as error:
            shipment.failures += 1
            return await self._is_lost(shipment, error, had_ended=had_ended)

    def expect(self, shipment: Shipment) -> None:
        """Mark the end of a log as on its way. Quick enough for the loop, and done once this returns."""
        try:
            (shipment.log or AttemptLog(self._root, shipment.key)).expect()
        except OSError as error:
            log.warning("a log cannot be written", attempt=shipment.key.path(), error=str(error))

    async def note(self, shipment: Shipment, text: str) -> None:
        """Write a message of the platform to a log, if that can be written."""
        try:
            await self._note(shipment, await self._opened(shipment), text)
        except OSError as error:
            log.warning("a log cannot be written", attempt=shipment.key.path(), error=str(error))

    async def _note(self, shipment: Shipment, store: AttemptLog, text: str) -> None:
        await asyncio.to_thread(store.note, text)
        self._grew(shipment)

    def _grew(self, shipment: Shipment) -> None:
        for grown in self.growth:
            grown.add(shipment.key)

    async def _opened(self, shipment: Shipment) -> AttemptLog:
        found = shipment.log = shipment.log or AttemptLog(self._root, shipment.key)
        if not found.is_open:
            await asyncio.to_thread(found.open)
        return found

    async def _read_answer(self, shipment: Shipment, store: AttemptLog, *, is_end: bool) -> bool:
        """Read a log in one answer, if it is short; return whether that was all of it."""
        since = _since(store)
        async with aclosing(self._logs(shipment.pod, follow=False, since=since, limit_bytes=ANSWER_BYTES)) as chunks:
            data = b"".join([chunk async for chunk in chunks])
        # An answer that was cut may be a little shorter than its limit.
        is_all = len(data) < ANSWER_BYTES // 2
        if since is None and shipment.part_at == NO_STAMP:
            shipment.part_at = stamp_of(data)
        if data or (is_all and is_end):
            lines = LogLines(store.cursor)
            if await asyncio.to_thread(store.take, lines, data, is_end=is_all and is_end):
                shipment.writes += 1
                self._grew(shipment)
        return is_all

    async def _read(self, shipment: Shipment, store: AttemptLog, *, follow: bool) -> LogLines:
        since = _since(store)
        lines = LogLines(store.cursor)
        try:
            async with (
                asyncio.timeout(None) as shipment.deadline,
                _Writer(shipment, store, lines, self._grew) as writer,
                aclosing(self._logs(shipment.pod, follow=follow, since=since)) as chunks,
            ):
                size = 0
                async for chunk in chunks:
                    if since is None and shipment.part_at == NO_STAMP:
                        shipment.part_at = stamp_of(chunk)
                    await writer.add(chunk)
                    size += len(chunk)
                    if follow and size >= PART_BYTES:
                        size = 0
                        await self._look_for_new_part(shipment, store)
        finally:
            shipment.deadline = None
        if shipment.has_ended:
            written = await asyncio.to_thread(store.add, lines, None)
            if written:
                self._grew(shipment)
        return lines

    async def _look_for_new_part(self, shipment: Shipment, store: AttemptLog) -> None:
        """Say in the log where its node began a new part.

        A kubelet that follows a log goes on to the new part at once, while the runtime may still write what its pipe
        holds to the old one, which no API serves: some hundred lines may be lost, without a trace in the stream.
        """
        try:
            async with (
                asyncio.timeout(END_PATIENCE_S),
                aclosing(self._logs(shipment.pod, follow=False, since=None, limit_bytes=_STAMPED_BYTES)) as chunks,
            ):
                began_at = stamp_of(b"".join([chunk async for chunk in chunks]))
        except (KubeError, TimeoutError):
            return
        before, shipment.part_at = shipment.part_at, max(shipment.part_at, began_at)
        if NO_STAMP < before < began_at:
            when = datetime.fromtimestamp(began_at / 1e9, UTC).isoformat(timespec="milliseconds")
            text = f"the node began a new part of this log at {when}: it may have lost lines of that moment"
            await self._note(shipment, store, text)

    async def _is_lost(self, shipment: Shipment, error: KubeError, *, had_ended: bool) -> bool:
        """Return whether nothing more of a log can be read."""
        if not error.is_missing and not (had_ended and shipment.failures >= END_TRIES):
            return False
        with contextlib.suppress(OSError):
            store = await self._opened(shipment)
            await self._note(shipment, store, f"the end of the log may be missing: {error.message}")
            await asyncio.to_thread(store.complete)
        return True


def _since(store: AttemptLog) -> datetime | None:
    since_s = store.cursor.since_s
    return None if since_s is None else datetime.fromtimestamp(since_s, UTC)


class _Writer:
    """Writes what arrives, and gathers what arrives meanwhile: a busy log comes in thousands of small pieces."""

    def __init__(
        self, shipment: Shipment, store: AttemptLog, lines: LogLines, grew: Callable[[Shipment], None]
    ) -> None:
        self._grew = grew
        self._shipment = shipment
        self._store = store
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
            if await asyncio.to_thread(self._store.add, self._lines, data):
                shipment.failures = 0
                shipment.writes += 1
                self._grew(shipment)
            if self._lines.may_have_gap and not self._has_said_gap:
                self._has_said_gap = True
                await asyncio.to_thread(self._store.note, GAP.decode())
                self._grew(shipment)
            if shipment.has_ended:
                shipment.expect_end()

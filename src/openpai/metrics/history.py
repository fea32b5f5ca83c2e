"""Keeps rounds in a file in the background, and reads the past from memory and file together.

One thread writes and one reads, so that a long chart delays no round. A full disk or a damaged file costs history and
nothing else: the newest values are in memory, the platform goes on, and the log has the reason once.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import structlog

from openpai.metrics.file import Reader, Writer, open_file, spans_of
from openpai.protocol.errors import Broken, Unavailable
from openpai.series.labels import Labels
from openpai.series.model import Answer, Query, Series
from openpai.series.open_block import STEP_MS, OpenBlock
from openpai.series.retention import Grid, Points, Tiers
from openpai.series.rounds import Round

log: Final = structlog.get_logger(__name__)
T = TypeVar("T")
_PAUSE_S: Final = 0.05
_BLOCKS_MAX: Final = 4
"""Blocks in memory while the disk takes none."""
"""Between two parts of long work, so that the event loop is not slowed down."""


class KeptHistory:
    """The past of all series in a file, with the present hour in memory."""

    def __init__(self, path: Path, tiers: Tiers | None = None, *, pause_s: float = _PAUSE_S) -> None:
        self._path = path
        self._tiers = tiers or Tiers()
        self._pause_s = pause_s
        self._writing = ThreadPoolExecutor(1, "metrics-writer")
        self._reading = ThreadPoolExecutor(1, "metrics-reader")
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._connections: list[sqlite3.Connection] = []
        self._blocks: list[OpenBlock] = []
        """The open block, after those that are being closed."""
        self._last_error = ""

    async def open(self, now_ms: int) -> None:
        """Open the file, and take over what an earlier server had not closed yet."""
        self._blocks = await self._in(self._writing, self._opened)
        if self._blocks and not self._blocks[-1].takes(now_ms):
            self._close_in_background(now_ms)

    async def close(self) -> None:
        """Finish what is being written, and close the file."""
        await asyncio.to_thread(self._writing.shutdown)
        await asyncio.to_thread(self._reading.shutdown)
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def keep(self, now: Round) -> None:
        """Add a round; it is written in the background."""
        if not self._blocks or not self._blocks[-1].takes(now.at_ms):
            self._blocks = [*self._blocks[1 - _BLOCKS_MAX :], OpenBlock(now.at_ms)]
            self._close_in_background(now.at_ms)
        block = self._blocks[-1]
        if (added := block.add(now)) is not None and self._writer is not None:
            self._write(partial(self._writer.append, block.start_ms, *added))

    async def written(self) -> None:
        """Wait until everything that was kept so far is in the file."""
        await self._in(self._writing, lambda: None)

    @property
    def open_blocks(self) -> int:
        """Return how many blocks are in memory: one, unless some are being closed."""
        return len(self._blocks)

    async def range(self, query: Query, now_ms: int) -> Answer:
        """Return the past of the matching series."""
        closed_ms = self._blocks[0].start_ms if self._blocks else now_ms
        recent = self._recent(query)
        found: dict[Labels, Grid] = {}
        matched = set(recent)
        if query.start_ms < closed_ms and self._reader is not None:
            try:
                found, older = await self._in(self._reading, partial(self._read, query, closed_ms, now_ms, set(recent)))
            except (sqlite3.Error, Broken) as error:
                raise Unavailable(f"the file of metrics cannot be read: {error}") from error
            matched |= older
        for labels in list(recent)[: query.series_max]:
            grid = found.setdefault(labels, Grid(query.start_ms, query.end_ms, query.step_ms))
            for block, column in recent[labels]:
                first = max(0, (query.start_ms - block.start_ms) // STEP_MS)
                values = block.values(column, first)
                start_ms = block.start_ms + first * STEP_MS
                grid.add(start_ms, STEP_MS, Points(values, values, values), (query.start_ms, query.end_ms))
        return answer_of(query, found, len(matched))

    def _recent(self, query: Query) -> dict[Labels, list[tuple[OpenBlock, int]]]:
        found: dict[Labels, list[tuple[OpenBlock, int]]] = {}
        for block in self._blocks:
            if block.start_ms > query.end_ms or block.start_ms + block.length * STEP_MS <= query.start_ms:
                continue
            for labels, column in block.matching(query.name, query.matchers):
                found.setdefault(labels, []).append((block, column))
        return found

    def _read(
        self, query: Query, closed_ms: int, now_ms: int, recent: set[Labels]
    ) -> tuple[dict[Labels, Grid], set[Labels]]:
        reader = self._reader
        number = reader.number_of(query.name) if reader is not None else None
        if reader is None or number is None:
            return {}, set()
        end_ms = min(query.end_ms, closed_ms)
        subjects = reader.subjects(query.name, query.matchers, (query.start_ms, end_ms))
        spans = spans_of(self._tiers, (query.start_ms, end_ms), query.step_ms, now_ms, reader.compacted_ms())
        # Those that are still measured come first.
        chosen = sorted(subjects, key=lambda labels: labels not in recent)[: query.series_max]
        grids = {}
        for labels in chosen:
            grids[labels] = Grid(query.start_ms, query.end_ms, query.step_ms)
            reader.fill(grids[labels], subjects[labels], number, spans)
        return grids, set(subjects)

    def _opened(self) -> list[OpenBlock]:
        try:
            connection = open_file(self._path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) or not self._path.exists():
                raise Unavailable(f"the file of metrics {self._path} cannot be opened: {error}") from error
            # History is worth less than a platform that starts.
            aside = self._path.with_name(f"{self._path.name}.damaged-{int(time.time())}")
            self._path.replace(aside)
            log.error("the file of metrics is damaged; a new one was begun", error=str(error), kept_as=str(aside))
            connection = open_file(self._path)
        self._connections = [connection, open_file(self._path)]
        self._writer, self._reader = Writer(connection, self._tiers), Reader(self._connections[1], self._tiers)
        return self._writer.unfinished()

    def _close_in_background(self, now_ms: int) -> None:
        """Write the blocks that are over; the open one, if there is one, stays."""
        is_open = bool(self._blocks) and self._blocks[-1].takes(now_ms)
        closing = list(self._blocks[:-1] if is_open else self._blocks)
        loop = asyncio.get_running_loop()

        def work() -> Iterator[None]:
            if self._writer is None:
                return
            for block in closing:
                yield from self._writer.close_block(block)
                loop.call_soon_threadsafe(self._forget, block)
            yield from self._writer.compact(now_ms)
            yield from self._writer.expire(now_ms)

        self._continue(work())

    def _continue(self, parts: Iterator[None]) -> None:
        """Do the next part of long work after what waits, so that rounds are written in between."""

        def one() -> None:
            if next(parts, self) is self:
                return
            time.sleep(self._pause_s)
            self._continue(parts)

        self._write(one)

    def _forget(self, block: OpenBlock) -> None:
        if block in self._blocks:
            self._blocks.remove(block)

    def _write(self, work: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                work()
                self._last_error = ""
            except (sqlite3.Error, OSError) as error:
                # An outage of hours is logged once.
                if str(error) != self._last_error:
                    log.warning("metrics cannot be kept", error=str(error))
                self._last_error = str(error)
            except Exception:
                log.exception("metrics cannot be kept; this is a bug, please report it")

        try:
            self._writing.submit(guarded)
        except RuntimeError:
            # The server stops; what is left is in the journal.
            return

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work)


def answer_of(query: Query, found: dict[Labels, Grid], matched: int) -> Answer:
    """Return the series that were gathered, without those that have no value in the span."""
    series = tuple(
        Series(query.name, labels, grid.start_ms, grid.step_ms, *grid.points())
        for labels, grid in list(found.items())[: query.series_max]
        if not grid.is_empty
    )
    return Answer(series, query.step_ms, matched)

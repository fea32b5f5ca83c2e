"""Logs as files: one directory per task attempt, one file per stream.

Reading works while the task runs, after its end and after a restart of the server, because the files are the only
state. A follower is a cursor over a file: it costs no thread, and it holds one small piece at a time.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final, TypeVar

from openpai.lifecycle.model import AttemptKey
from openpai.logs.kept_work import KeptDirectories
from openpai.logs.reading import (
    CHUNK_BYTES,
    Piece,
    directory_of,
    is_arriving,
    no_logs,
    path_of,
    read_piece,
    sizes_of,
)
from openpai.logs.removing import remove_logs
from openpai.logs.searching import Block, compiled, read_block, search_block
from openpai.logs.watching import PERIOD_S, IsOver, Watch, Watcher
from openpai.logs.write_times import read_moments
from openpai.ports.logs import STREAMS, Growth, LogChunk, LogHit, LogPattern, Searched

T = TypeVar("T")

THREADS: Final = 4
SEARCH_THREADS: Final = 2
READ_MAX_BYTES: Final = 1024 * 1024
ARRIVAL_PERIOD_S: Final = 0.05
ARRIVAL_PATIENCE_S: Final = 10.0
_REMOVED_AT_ONCE: Final = 100
_NO_DIRECTORY: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM})


class FileLogs:
    """`ports.logs.LogReader` over `root/<key.path()>/{stdout,stderr,runtime}.log`.

    `is_over` says whether an attempt has ended; it may answer at once or be awaited.
    """

    def __init__(
        self,
        root: Path,
        is_over: IsOver,
        *,
        period_s: float = PERIOD_S,
        kept: KeptDirectories | None = None,
        may_arrive: bool = False,
    ) -> None:
        """`may_arrive` is whether the end of a log may come from elsewhere after its attempt has ended."""
        self._kept = kept
        self._root = root
        self._may_arrive = may_arrive
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="logs")
        # Searches have threads of their own, so that no reader waits for them.
        self._search_pool = ThreadPoolExecutor(SEARCH_THREADS, thread_name_prefix="log search")
        self._watcher = Watcher(self._ended(is_over) if may_arrive else is_over, self._pool, period_s)
        self._reads: dict[tuple[str, int], asyncio.Future[Piece]] = {}

    @property
    def is_idle(self) -> bool:
        """Return whether there is no follower."""
        return self._watcher.is_idle

    async def arrived(self, key: AttemptKey) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(ARRIVAL_PATIENCE_S):
                while await self._is_arriving(key):  # noqa: ASYNC110  # files have no events
                    await asyncio.sleep(ARRIVAL_PERIOD_S)

    async def streams(self, key: AttemptKey) -> tuple[str, ...]:
        directory = directory_of(self._root, key)
        found = await self._in_thread(_streams_in, directory)
        if found is None:
            raise no_logs(key)
        return found

    async def read(self, key: AttemptKey, stream: str, offset: int, limit: int) -> LogChunk:
        directory = directory_of(self._root, key)
        path = path_of(directory, stream)
        piece = await self._in_thread(read_piece, path, offset, min(max(limit, 0), READ_MAX_BYTES))
        if piece.size == 0 and await self._in_thread(_streams_in, directory) is None:
            raise no_logs(key)
        return LogChunk(stream, piece.offset, piece.data, piece.size)

    async def sizes(self, keys: Sequence[AttemptKey]) -> Sequence[int]:
        # In one thread for all: to pass each task to a thread would cost more than what is done there.
        return await self._in_thread(sizes_of, self._root, keys)

    async def follow(
        self, key: AttemptKey, streams: tuple[str, ...], offsets: dict[str, int]
    ) -> AsyncGenerator[LogChunk, None]:
        """Yield pieces as they are written until the attempt has ended; see `LogReader.follow`.

        Waits for an attempt that has not started; one that ended without logs raises NoTaskLogError. When the reader
        is closed first, the stream ends with Unavailable.
        """
        directory = directory_of(self._root, key)
        paths = {stream: path_of(directory, stream) for stream in STREAMS}
        cursors = {stream: max(offsets.get(stream, 0), 0) for stream in streams if path_of(directory, stream)}
        watch = await self._watcher.join(key, paths)
        try:
            while True:
                news, is_over = watch.news, watch.is_over
                async for chunk in self._unread(watch, cursors):
                    yield chunk
                if is_over:
                    break
                self._watcher.check_open()
                await news.wait()
        finally:
            self._watcher.leave(watch)
        if not any(watch.sizes.values()) and await self._in_thread(_streams_in, directory) is None:
            raise no_logs(key)

    async def search(
        self, key: AttemptKey, stream: str, pattern: LogPattern, offset: int, *, hits_max: int, bytes_max: int
    ) -> Searched:
        expression = compiled(pattern)
        path = path_of(directory_of(self._root, key), stream)
        loop = asyncio.get_running_loop()
        hits: list[LogHit] = []
        searches: deque[tuple[Block, asyncio.Future[list[tuple[LogHit, int]]]]] = deque()
        start = read_to = max(offset, 0)
        at, size = start, read_to + 1
        while True:
            while len(searches) < SEARCH_THREADS and read_to < size and read_to - start < bytes_max:
                block = await loop.run_in_executor(self._search_pool, read_block, path, read_to)
                read_to, size = block.after, block.size
                work = (block, expression, hits_max)
                searches.append((block, loop.run_in_executor(self._search_pool, search_block, *work)))
            if not searches:
                return Searched(tuple(hits), at, size)
            block, searching = searches.popleft()
            at = block.after
            for hit, after in await searching:
                hits.append(hit)
                if len(hits) == hits_max:
                    return Searched(tuple(hits), after, size)

    async def moments(self, key: AttemptKey) -> Growth:
        return await self._in_thread(read_moments, directory_of(self._root, key))

    async def remove(self, keys: Sequence[AttemptKey]) -> None:
        for start in range(0, len(keys), _REMOVED_AT_ONCE):
            some = [directory_of(self._root, key) for key in keys[start : start + _REMOVED_AT_ONCE]]
            await self._in_thread(_remove, some)
            if self._kept is not None:
                await self._in_thread(self._kept.remove, keys[start : start + _REMOVED_AT_ONCE])

    def hang_up(self) -> None:
        """End every followed stream at once, so that a stopping server does not wait for its readers."""
        self._watcher.hang_up()

    async def close(self) -> None:
        """End every followed stream and the threads."""
        await self._watcher.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._search_pool.shutdown(wait=False, cancel_futures=True)

    async def _is_arriving(self, key: AttemptKey) -> bool:
        return self._may_arrive and await self._in_thread(is_arriving, directory_of(self._root, key))

    def _ended(self, is_over: IsOver) -> IsOver:
        """Return whether an attempt has ended and its log is all there."""

        async def is_over_and_there(key: AttemptKey) -> bool:
            answer = is_over(key)
            return (await answer if isawaitable(answer) else answer) and not await self._is_arriving(key)

        return is_over_and_there

    async def _unread(self, watch: Watch, cursors: dict[str, int]) -> AsyncGenerator[LogChunk, None]:
        """Yield the known bytes after the cursors, a piece of each stream in turn."""
        behind = True
        while behind:
            behind = False
            for stream, cursor in cursors.items():
                if cursor >= watch.sizes[stream]:
                    continue
                fresh = watch.fresh.get(stream)
                piece = fresh if fresh and fresh.offset == cursor else await self._shared_read(watch, stream, cursor)
                if piece.data or piece.offset > cursor:
                    cursors[stream] = piece.offset + len(piece.data)
                    behind = True
                    yield LogChunk(stream, piece.offset, piece.data, piece.size)

    async def _shared_read(self, watch: Watch, stream: str, offset: int) -> Piece:
        """Read once for all requests of the same piece at the same moment."""
        wanted = (watch.paths[stream], offset)
        pending = self._reads.get(wanted)
        if pending is None:
            self._watcher.check_open()
            loop = asyncio.get_running_loop()
            pending = loop.run_in_executor(self._pool, read_piece, *wanted, CHUNK_BYTES)
            self._reads[wanted] = pending
            pending.add_done_callback(lambda _: self._reads.pop(wanted, None))
        # A cancelled reader must not cancel the read for the others.
        return await asyncio.shield(pending)

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)


def _remove(directories: Sequence[str]) -> None:
    for directory in directories:
        remove_logs(directory)


def _streams_in(directory: str) -> tuple[str, ...] | None:
    """Return which streams have a file; None if there is no such directory."""
    try:
        os.close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in _NO_DIRECTORY:
            return None
        raise
    # By name: a task may have created a million files beside these.
    return tuple(stream for stream in STREAMS if os.path.lexists(f"{directory}/{stream}.log"))

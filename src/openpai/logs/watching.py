"""Watches log files for all followers together.

One loop checks each followed file a few times a second, reads new bytes once, and wakes its followers, whatever their
number. Without followers nothing runs.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from typing import Final

import structlog

from openpai.lifecycle.model import AttemptKey
from openpai.logs.reading import Look, Piece, look
from openpai.protocol.errors import Unavailable
from openpai.system.supervision import supervise

PERIOD_S: Final = 0.25
QUESTIONS_PER_ROUND: Final = 100
"""The number of attempts per round that are checked for their end; each check may cost a query."""
FRESH_BYTES_PER_ROUND: Final = 8 * 1024 * 1024

IsOver = Callable[[AttemptKey], bool | Awaitable[bool]]

_log = structlog.get_logger(__name__)


class Watch:
    """One followed attempt. Readers take `news` before they read, so they miss nothing in between."""

    __slots__ = ("fresh", "is_over", "key", "news", "paths", "readers", "sizes")

    def __init__(self, key: AttemptKey, paths: Mapping[str, str]) -> None:
        self.key = key
        self.paths = paths
        self.sizes: dict[str, int] = dict.fromkeys(paths, 0)
        self.fresh: dict[str, Piece] = {}
        """New bytes of the last round, kept until the next: most readers need no others."""
        self.is_over = False
        self.readers = 0
        self.news = asyncio.Event()

    def wake(self) -> None:
        """Wake every follower of this attempt."""
        news, self.news = self.news, asyncio.Event()
        news.set()

    def files(self) -> tuple[Look, ...]:
        """Return the attempt's files with the lengths known so far."""
        return tuple(Look(path, self.sizes[stream]) for stream, path in self.paths.items())

    def learn(self, pieces: Iterable[Piece | None], is_over: bool) -> None:
        """Store the result of a round, and wake the readers if there is anything new."""
        self.fresh = {}
        is_new = False
        for stream, piece in zip(self.paths, pieces, strict=True):
            if piece is None:
                continue
            self.sizes[stream] = piece.size
            if piece.data:
                self.fresh[stream] = piece
            is_new = True
        if is_new or is_over != self.is_over:
            self.is_over = is_over
            self.wake()


class Watcher:
    """Checks every followed attempt, four times a second, while there are readers."""

    def __init__(self, is_over: IsOver, executor: Executor, period_s: float = PERIOD_S) -> None:
        self._ask = is_over
        self._executor = executor
        self._period_s = period_s
        self._watches: dict[AttemptKey, Watch] = {}
        self._turn = 0
        self._task: asyncio.Task[None] | None = None
        self.is_closed = False

    @property
    def is_idle(self) -> bool:
        """Return whether no attempt is followed."""
        return not self._watches and (self._task is None or self._task.done())

    async def join(self, key: AttemptKey, paths: Mapping[str, str]) -> Watch:
        """Return the watch of an attempt, up to date; every join is paired with one `leave`."""
        self.check_open()
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = Watch(key, paths)
        watch.readers += 1
        if self._task is None or self._task.done():
            self._task = supervise("look at followed logs", self._run, again_s=self._period_s)
        try:
            if watch.readers == 1:
                await self._look([watch], [watch])
        except BaseException:
            self.leave(watch)
            raise
        return watch

    def leave(self, watch: Watch) -> None:
        """Stop checking an attempt when its last reader leaves."""
        watch.readers -= 1
        if watch.readers == 0:
            self._watches.pop(watch.key, None)

    def check_open(self) -> None:
        """Raise Unavailable once the server is stopping."""
        if self.is_closed:
            raise Unavailable("the server is stopping", "open the stream again in a moment")

    def hang_up(self) -> None:
        """Wake every reader for the last time, and accept no new ones."""
        self.is_closed = True
        for watch in self._watches.values():
            watch.wake()

    async def close(self) -> None:
        """End all streams and stop."""
        self.hang_up()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._watches:
            await asyncio.sleep(self._period_s)
            watches = list(self._watches.values())
            await self._look(watches, self._next_questions(watches))

    def _next_questions(self, watches: list[Watch]) -> list[Watch]:
        """Return the attempts to check in this round: all in turn, a bounded number at a time."""
        if len(watches) > QUESTIONS_PER_ROUND:
            start = self._turn % len(watches)
            self._turn = start + QUESTIONS_PER_ROUND
            watches = (watches[start:] + watches[:start])[:QUESTIONS_PER_ROUND]
        return [watch for watch in watches if not watch.is_over]

    async def _look(self, watches: list[Watch], questions: list[Watch]) -> None:
        # Check before reading: an ended attempt writes no more, so the read that follows gets everything.
        over = {watch.key for watch in questions if await self._is_over(watch.key)}
        files = [file for watch in watches for file in watch.files()]
        loop = asyncio.get_running_loop()
        pieces = await loop.run_in_executor(self._executor, look, files, FRESH_BYTES_PER_ROUND)
        start = 0
        for watch in watches:
            end = start + len(watch.paths)
            watch.learn(pieces[start:end], watch.is_over or watch.key in over)
            start = end

    async def _is_over(self, key: AttemptKey) -> bool:
        try:
            answer = self._ask(key)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception:
            _log.warning("cannot determine whether a task attempt has ended", attempt=key.path(), exc_info=True)
            return False

"""The single writer: runs all waiting writes in one transaction, commits it, and only then answers the callers.

While a commit waits for the disk, further writes form the next group. When one of a group fails, the group is rolled
back and each write runs alone, so that each caller gets its own failure only. SQLite's statements run on the event
loop, where they cost microseconds and a change of threads would cost more. In a thread run its commits, which wait for
the disk, writes that wait for another process or change thousands of rows, and everything of a remote database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.protocol.errors import Broken, Unavailable
from openpai.store.db_errors import Outage, is_connection_lost
from openpai.store.locks import take_locks
from openpai.system.supervision import supervise

T = TypeVar("T")
Work = Callable[[sa.Connection], T]

GROUP_MAX: Final = 256
AT_ONCE: Final = "at once"
"""Makes a transaction fail instead of waiting for another process."""


@dataclass(slots=True)
class _Write:
    work: Work[Any]
    lock: str
    future: asyncio.Future[Any]
    is_long: bool = False
    result: Any = None
    error: BaseException | None = None

    def settle(self, outage: Outage) -> None:
        if isinstance(self.error, exc.DBAPIError):
            self.error = outage.met(self.error)
        elif self.error is None:
            outage.is_over()
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)

    def give_up(self, error: BaseException) -> None:
        """Fail the caller's wait because of an error outside the database."""
        if not self.future.done():
            message = Broken(f"a write was abandoned: {type(error).__name__}")
            message.__cause__ = error
            self.future.set_exception(message)


class Writer:
    """Commits writes in groups. `check` raises Unavailable if writes would be lost.

    Unless the database `is_near`, every statement waits for the network.
    """

    def __init__(self, engine: sa.Engine, outage: Outage, check: Callable[[], None], is_near: bool) -> None:
        self._engine = engine
        self._outage = outage
        self._check = check
        self._is_far = not is_near
        self._waiting: list[_Write] = []
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._is_closed = False
        self.commits = 0
        self.writes = 0
        self.commit_s = 0.0
        """How long the commits took together."""

    async def write(self, work: Work[T], lock: str = "", *, is_long: bool = False) -> T:
        """Run `work` with others in a transaction; durable when this returns.

        While it runs, no other server runs a work with the same `lock`.
        """
        if self._is_closed:
            raise Unavailable("the store is closed")
        loop = asyncio.get_running_loop()
        write = _Write(work, lock, loop.create_future(), is_long)
        self._waiting.append(write)
        if self._task is None or self._task.done():
            self._task = supervise("write to the database", self._drain, again_s=0)
        result: T = await write.future
        return result

    def close(self) -> None:
        """Accept no more writes, and wait for a running commit."""
        self._is_closed = True
        self._thread.shutdown()

    async def _drain(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
            began_s = perf_counter()
            try:
                is_slow = self._is_far or any(write.is_long for write in group)
                await (self._in_thread(self._write, group) if is_slow else self._write_near(group))
            except Exception as error:
                await self._each_alone(group, error)
            except BaseException as error:
                # No caller may wait for ever for a write that will not happen.
                for write in group:
                    write.give_up(error)
                raise
            self.commits, self.writes = self.commits + 1, self.writes + len(group)
            self.commit_s += perf_counter() - began_s
            for write in group:
                write.settle(self._outage)

    async def _each_alone(self, group: list[_Write], error: Exception) -> None:
        # A lost connection fails all alike; if it was lost at the commit, the group may have been written.
        if len(group) == 1 or is_connection_lost(error):
            for write in group:
                write.error = error
            return
        for write in group:
            try:
                write.result = await self._in_thread(run_alone, self._engine, write.work, write.lock, self._check)
            except Exception as own_error:
                write.error = own_error

    async def _write_near(self, group: list[_Write]) -> None:
        with self._engine.connect().execution_options(writes=AT_ONCE) as connection:
            try:
                transaction = connection.begin()
            except exc.OperationalError as error:
                if not is_connection_lost(error):
                    raise
                await self._in_thread(self._write, group)
                return
            try:
                for write in group:
                    write.result = write.work(connection)
                self._check()
            except BaseException:
                transaction.rollback()
                raise
            await self._in_thread(transaction.commit)
        # Check again after the commit: callers learn of success only while the files are in place.
        self._check()

    def _write(self, group: list[_Write]) -> None:
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            take_locks(connection, (write.lock for write in group))
            for write in group:
                write.result = write.work(connection)
            self._check()
        self._check()

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


def run_alone(engine: sa.Engine, work: Work[T], lock: str, check: Callable[[], None]) -> T:
    """Run `work` in a transaction of its own. `check` raises Unavailable if the write would be lost."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        take_locks(connection, (lock,))
        result = work(connection)
        check()
    check()
    return result

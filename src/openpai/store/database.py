"""The door to the database: one writer that commits in groups, several readers.

Every write is a function over a connection. A single thread runs the writes that are waiting, each in a savepoint
of its own, and commits them together: a hundred submissions cost one disk flush, and each caller hears of its own
failure only. Nobody is answered before the commit. Without threads (`inline`) everything runs in the caller, in
the order of the calls, which is what the fault simulator needs.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import StaticPool

from openpai.protocol.errors import PaiError, Refused, Unavailable

T = TypeVar("T")
Work = Callable[[sa.Connection], T]

GROUP_MAX: Final = 256
READERS: Final = 4
BUSY_TIMEOUT_S: Final = 10


@dataclass(slots=True)
class _Write:
    work: Work[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = field(default=None)

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Database:
    """Runs functions over connections; commits writes in groups."""

    def __init__(self, url: str, *, inline: bool = False) -> None:
        self.url = normal_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _engine(self.url, inline=inline)
        self._inline = inline
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._readers: ThreadPoolExecutor | None = None
        self._writer: threading.Thread | None = None
        if not inline:
            self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
            self._writer = threading.Thread(target=self._write_for_ever, name="store-writer", daemon=True)
            self._writer.start()

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction; its effects are durable when this returns. Raises Unavailable on a bad disk."""
        if self._inline:
            return self._write_now(work)
        loop = asyncio.get_running_loop()
        write = _Write(work, loop, loop.create_future())
        self._queue.put(write)
        result: T = await write.future
        return result

    async def read(self, work: Work[T]) -> T:
        """Run `work` over a consistent view. Raises Unavailable when the database cannot be read."""
        if self._readers is None:
            return self._read_now(work)
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read_now, work)

    def close(self) -> None:
        """Finish the writes that are waiting and let go of the database."""
        if self._writer is not None:
            self._queue.put(None)
            self._writer.join()
        if self._readers is not None:
            self._readers.shutdown()
        self.engine.dispose()

    def _read_now(self, work: Work[T]) -> T:
        try:
            with self.engine.connect() as connection:
                return work(connection)
        except exc.DBAPIError as error:
            raise told(error) from error

    def _write_now(self, work: Work[T]) -> T:
        try:
            with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
                return work(connection)
        except exc.DBAPIError as error:
            raise told(error) from error

    def _write_for_ever(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            ending = False
            while len(group) < GROUP_MAX and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    ending = True
                    break
                group.append(following)
            self._write_group(group)
            if ending:
                return

    def _write_group(self, group: list[_Write]) -> None:
        try:
            with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
                for write in group:
                    self._write_one(connection, write)
        except Exception as error:
            cause = told(error) if isinstance(error, exc.DBAPIError) else error
            for write in group:
                write.error = write.error or cause
        by_loop: dict[asyncio.AbstractEventLoop, list[_Write]] = {}
        for write in group:
            by_loop.setdefault(write.loop, []).append(write)
        for loop, writes in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, writes)

    def _write_one(self, connection: sa.Connection, write: _Write) -> None:
        try:
            with connection.begin_nested():
                write.result = write.work(connection)
        except exc.DBAPIError as error:
            write.error = told(error)
            if connection.invalidated or error.connection_invalidated or isinstance(error, exc.OperationalError):
                raise
        except Exception as error:
            write.error = error


def _settle(writes: list[_Write]) -> None:
    for write in writes:
        write.settle()


def normal_url(url: str) -> sa.URL:
    """Return the URL with the driver we ship for; raise Refused for one we cannot serve."""
    try:
        parsed = sa.make_url(url)
    except exc.ArgumentError as error:
        raise Refused(
            "BadConfigurationError",
            f"--database-url {url!r} is no database URL",
            "use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE",
        ) from error
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        raise Refused(
            "BadConfigurationError",
            f"the database {parsed.get_backend_name()!r} is not supported",
            "use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE",
        )
    return parsed


def told(error: exc.DBAPIError) -> PaiError:
    """Return what a database's complaint means for whoever asked."""
    reason = str(error.orig).strip().splitlines()[0] if error.orig else str(error)
    if "disk is full" in reason or "No space left" in reason:
        return Unavailable(
            "the disk that holds the database is full; nothing was changed", "free some space, try again"
        )
    if "malformed" in reason or "not a database" in reason:
        return Refused(
            "BadConfigurationError",
            f"the database file is damaged ({reason})",
            "restore it from a backup, or move it away to start with an empty one",
        )
    return Unavailable(f"the database does not answer: {reason}")


def _engine(url: sa.URL, *, inline: bool) -> sa.Engine:
    if url.get_backend_name() != "sqlite":
        return sa.create_engine(url, pool_size=READERS + 1, max_overflow=2, pool_pre_ping=True)
    options: dict[str, Any] = {"connect_args": {"check_same_thread": False, "timeout": BUSY_TIMEOUT_S}}
    if url.database in (None, "", ":memory:"):
        options["poolclass"] = StaticPool
    else:
        options |= {"pool_size": 1 if inline else READERS + 1, "max_overflow": 2}
    engine = sa.create_engine(url, **options)
    sa.event.listen(engine, "connect", _tune_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _tune_sqlite(connection: Any, _record: Any) -> None:
    # The driver's own transactions begin late and break savepoints; we say BEGIN ourselves.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A writer that begins as a reader may find that it cannot become a writer any more.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

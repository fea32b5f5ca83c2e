"""Access to the database: one writer that commits in groups, several readers.

Every write is a function over a connection; `store.writer` runs all that wait in one transaction, so a hundred
submissions cost one disk flush. No caller gets its answer before the commit. Without threads (`inline`) everything runs
in the caller, in the order of the calls, which the fault simulator needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import StaticPool

from openpai.protocol.errors import BadConfiguration
from openpai.store import sqlite_transactions
from openpai.store.db_errors import Outage
from openpai.store.sqlite_files import OpenFiles
from openpai.store.writer import Work, Writer, run_alone
from openpai.system.tracing import span

T = TypeVar("T")

READERS: Final = 4
_MAPPED_BYTES: Final = 2**30
# By default the driver waits two minutes for a machine that is down, and for ever for one that is silent.
_CONNECTING: Final[dict[str, int | str]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    # From a database without an encoding the driver would return bytes.
    "client_encoding": "utf8",
}


class Database:
    """Runs functions over connections; commits writes in groups."""

    def __init__(self, url: str, *, inline: bool = False) -> None:
        self.url = normal_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        files = OpenFiles(str(self.url.database)) if _is_file(self.url) else None
        self.check_files: Callable[[], None] = (lambda: None) if files is None else files.check
        # Another connection would create an empty database in place of removed files.
        self.engine = _engine(self.url, self.check_files, inline=inline)
        if files is not None:
            sa.event.listen(self.engine, "connect", lambda *_: files.opened())
        # All queries of one reader see one snapshot, which PostgreSQL gives at this level only; SQLite always does.
        one_moment = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        self._reading_engine = self.engine.execution_options(**one_moment)
        self._readers = None if inline else ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._reading, self._writing = Outage("read"), Outage("written")
        self._writer = None if inline else Writer(self.engine, self._writing, self.check_files, self.is_sqlite)

    def written(self) -> tuple[int, int, float]:
        """Return how many transactions were committed, the writes in them, and the seconds that they took."""
        writer = self._writer
        return (0, 0, 0.0) if writer is None else (writer.commits, writer.writes, writer.commit_s)

    async def write(self, work: Work[T], lock: str = "", *, is_long: bool = False) -> T:
        """Run `work` in a transaction; its effects are durable when this returns. Raises Unavailable on a bad disk.

        `work` may run more than once; only the result of the committed run is returned. Meanwhile no other server runs
        a `work` with the same `lock`. One that `is_long`, because it writes many rows, runs in a thread.
        """
        if self._writer is not None:
            with span("database.write"):
                return await self._writer.write(work, lock, is_long=is_long)
        try:
            return run_alone(self.engine, work, lock, self.check_files)
        except exc.DBAPIError as error:
            raise self._writing.met(error) from error

    async def read(self, work: Work[T]) -> T:
        """Run `work` over a consistent view. Raises Unavailable when the database cannot be read."""
        if self._readers is None:
            return self._read_now(work)
        with span("database.read"):
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read_now, work)

    async def read_inline(self, work: Work[T]) -> T:
        """Read a few rows by their keys like `read`, but on the event loop, which is faster than waking a thread.

        A thread waits for the event loop to release the interpreter, again with every row. In SQLite, readers do not
        wait for writers.
        """
        return self._read_now(work) if self.is_sqlite else await self.read(work)

    def close(self) -> None:
        """Close all connections."""
        if self._writer is not None:
            self._writer.close()
        if self._readers is not None:
            self._readers.shutdown()
        self.engine.dispose()

    def _read_now(self, work: Work[T]) -> T:
        try:
            with self._reading_engine.connect() as connection:
                result = work(connection)
        except exc.DBAPIError as error:
            raise self._reading.met(error) from error
        self._reading.is_over()
        return result


def normal_url(url: str) -> sa.URL:
    """Return the URL with the driver of this distribution; raise Refused for an unsupported database."""
    try:
        parsed = sa.make_url(url)
    except exc.ArgumentError as error:
        raise BadConfiguration(
            "--database-url is not a database URL", "use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from error
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() != "sqlite":
        raise BadConfiguration(
            f"the database {parsed.get_backend_name()!r} is not supported",
            "use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE",
        )
    return parsed


def place_of(url: str) -> str:
    """Return the location of a database, without user name and password."""
    full = normal_url(url)
    where = {key: value for key, value in full.query.items() if key in ("host", "port")}
    place = sa.URL.create(full.get_backend_name(), None, None, full.host, full.port, full.database, where)
    return place.render_as_string()


def _engine(url: sa.URL, check: Callable[[], None], *, inline: bool) -> sa.Engine:
    # Parameters are hidden because errors are logged, and some are hashes of passwords and digests of tokens.
    if url.get_backend_name() != "sqlite":
        engine = sa.create_engine(
            url,
            pool_size=READERS + 1,
            max_overflow=2,
            pool_pre_ping=True,
            hide_parameters=True,
            # The URL may override these.
            connect_args={name: value for name, value in _CONNECTING.items() if name not in url.query},
        )
        sa.event.listen(engine, "connect", _tune_postgres)
        return engine
    options: dict[str, Any] = {"poolclass": StaticPool}
    if _is_file(url):
        options = {"pool_size": 1 if inline else READERS + 1, "max_overflow": 2}
        _make_private(str(url.database))
    engine = sqlite_transactions.create_engine(url, check, hide_parameters=True, **options)
    sa.event.listen(engine, "connect", _tune_sqlite)
    return engine


def _is_file(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")


def _make_private(path: str) -> None:
    # SQLite would create a file that every user of the machine can read. It reports other errors itself.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _tune_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    # A search reads an index of a hundred megabytes and more; mapped into memory, it need not be copied.
    mapped = f"mmap_size={_MAPPED_BYTES}"
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY", mapped):
        connection.execute(f"PRAGMA {pragma}")


def _tune_postgres(connection: Any, _record: Any) -> None:
    # The default assumes slow disks, and reads rows where an index has everything.
    connection.execute("SET random_page_cost = 1.1")
    # Use every core for a search over many jobs, however many it finds.
    connection.execute("SET parallel_tuple_cost = 0.01")
    connection.execute("SET work_mem = '32MB'")
    connection.execute("SET jit = off")
    connection.commit()


class Stored:
    """What the stores have in common: the database that they read and write."""

    def __init__(self, database: Database) -> None:
        self._database = database

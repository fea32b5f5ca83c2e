"""Copies a whole database while a server uses it, and restores it into an empty one.

SQLite copies itself. For PostgreSQL its own tools do it, whose dumps other versions of PostgreSQL can read.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.protocol.errors import BadConfiguration, Unavailable
from openpai.store.database import Database, normal_url
from openpai.store.db_errors import translate

PAGES_AT_ONCE: Final = 4096
_VERSION: Final = "SELECT version_num FROM alembic_version"
_INSTALLED: Final = ("/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt")
_EMPTY: Final = "create one with: createdb --encoding UTF8 --template template0 NAME"


def copy_sqlite(source: Path, target: Path, progress: Callable[[int, int], None]) -> None:
    """Copy one snapshot of a database, whatever is written meanwhile.

    `progress` is called with the numbers of copied pages and of all pages. Raises OSError when the copy's disk is full.
    """
    try:
        with closing(_opened(source)) as reading, closing(sqlite3.connect(target)) as writing:
            # A transaction pins one snapshot. Without it the copy would start again with each write of
            # the server, and on a busy platform never end.
            reading.execute("BEGIN")
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()
            reading.backup(writing, pages=PAGES_AT_ONCE, progress=lambda _, left, total: progress(total - left, total))
            writing.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            # Only the copy is written to: the platform's own disk may have room enough.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
        raise translate(exc.DBAPIError(None, None, error)) from error


def schema_of_sqlite(file: Path) -> str:
    """Return the schema of a copy. Raises Refused for one that is not openpai's, or damaged."""
    try:
        with closing(_opened(file)) as reading:
            fault = _first_fault(reading)
            row = reading.execute(_VERSION).fetchone()
    except sqlite3.Error as error:
        raise translate(exc.DBAPIError(None, None, error)) from error
    if fault or not row:
        advice = "`pai admin check` shows details; to keep what is left, stop the server and copy the data directory"
        raise BadConfiguration(f"the database is damaged: {fault or 'it has no schema'}", advice)
    return str(row[0])


def dump_postgres(url: str, target: Path) -> str:
    """Write a dump of one snapshot of a PostgreSQL database; return its schema."""
    database = Database(url, inline=True)
    try:
        with database.engine.connect() as connection:
            schema = str(connection.exec_driver_sql(_VERSION).scalar_one())
    except exc.DBAPIError as error:
        raise translate(error) from error
    finally:
        database.close()
    _run("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--file={target}")
    return schema


def require_empty_postgres(url: str) -> None:
    """Raise Refused unless a PostgreSQL database has no tables and `pg_restore` is installed."""
    _tool("pg_restore")
    database = Database(url, inline=True)
    try:
        found = sa.inspect(database.engine).get_table_names()
        with database.engine.connect() as connection:
            encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    except exc.DBAPIError as error:
        raise translate(error) from error
    finally:
        database.close()
    if found:
        raise BadConfiguration(f"the database holds {len(found)} tables already", _EMPTY)
    if encoding != "UTF8":
        raise BadConfiguration(f"the database is encoded in {encoding}, not in UTF8", _EMPTY)


def restore_postgres(url: str, dump: Path) -> None:
    """Fill an empty PostgreSQL database from a dump, completely or not at all."""
    _run("pg_restore", url, "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction", str(dump))


def _opened(file: Path) -> sqlite3.Connection:
    # Not `ro`: reading the journal of a crashed server may require new files.
    return sqlite3.connect(f"file:{quote(str(file))}?mode=rw", uri=True, isolation_level=None, timeout=10)


def _first_fault(connection: sqlite3.Connection) -> str:
    found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return "" if found == "ok" else found


def has_postgres_tools() -> bool:
    """Return whether this machine can write and read dumps of PostgreSQL."""
    return all(_find_tool(name) for name in ("pg_dump", "pg_restore"))


def _find_tool(name: str) -> str | None:
    found = [path for root in _INSTALLED for path in Path(root).parent.glob(f"{Path(root).name}*/*/bin/{name}")]
    found += [path for root in _INSTALLED for path in Path(root).parent.glob(f"{Path(root).name}*/bin/{name}")]
    return shutil.which(name) or (str(max(found, key=_release)) if found else None)


def _tool(name: str) -> str:
    """Return the path of a tool of PostgreSQL, the newest one of several. Raises Refused if there is none."""
    tool = _find_tool(name)
    if tool is None:
        message = f"{name} of PostgreSQL is not on this machine"
        advice = "install PostgreSQL's client programs (Debian: postgresql-client), of the server's version or newer"
        raise BadConfiguration(message, advice)
    return tool


def _release(tool: Path) -> int:
    digits = "".join(letter for letter in str(tool.parent.parent.name) if letter.isdigit())
    return int(digits or 0)


def _run(name: str, url: str, *arguments: str) -> None:
    full = normal_url(url).set(drivername="postgresql")
    password = full.password or full.query.get("password")
    # Every user of the machine can read the arguments of a program.
    query = full.difference_update_query(["password"]).query
    shown = sa.URL.create("postgresql", full.username, None, full.host, full.port, full.database, query)
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    command = [_tool(name), "--no-password", f"--dbname={shown.render_as_string(hide_password=False)}", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    if done.returncode:
        reason = " ".join(done.stderr.split())[:500] or f"exit code {done.returncode}"
        raise Unavailable(f"{name} failed: {reason}", "correct what it names, and try again; nothing was changed")

"""A PostgreSQL of the tests' own: made from the binaries of the machine, gone with the test session.

PostgreSQL refuses to run as root, so as root its processes run as the user `postgres` or `nobody`.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from .ports import free_port


def _binary(name: str) -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


def _account() -> str | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


def _run(*command: str) -> None:
    subprocess.run(command, check=True, user=_account(), cwd="/", stdout=subprocess.DEVNULL, timeout=120)


@contextmanager
def postgres(made: Path | None = None, **settings: str) -> Iterator[str]:
    """Run a server; yield its URL without a database name. Skips the test, saying why, where there is none.

    `made` is where the processes of a run keep the files of a new server, which are copied in a tenth of the time.
    """
    initdb, pg_ctl = _binary("initdb"), _binary("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not on this machine")
    account = _account()
    # A short path of its own: sockets have a length limit and pytest's directories are closed to other users.
    root = Path(tempfile.mkdtemp(prefix="pai-pg-"))
    if account:
        shutil.chown(root, account)
    try:
        data, port = root / "data", free_port()
        init = (initdb, "-D", str(data), "-U", "pai", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        _copy_or_make(data, made, init) if made else _run(*init)
        more = "".join(f" -c {name}={value}" for name, value in settings.items())
        options = f"-p {port} -k {root} -c listen_addresses=127.0.0.1 -c fsync=off{more}"
        _run(pg_ctl, "-D", str(data), "-w", "-l", str(root / "log"), "-o", options, "start")
        try:
            yield f"postgresql://pai@127.0.0.1:{port}"
        finally:
            _run(pg_ctl, "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _copy_or_make(data: Path, made: Path, init: Sequence[str]) -> None:
    """Make the files of a server, which the first process of a run keeps for the others."""
    made.parent.mkdir(parents=True, exist_ok=True)
    with made.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _run(*init)
            shutil.move(data, made.with_suffix(".new"))
            made.with_suffix(".new").rename(made)
    subprocess.run(["cp", "-a", str(made), str(data)], check=True)


@contextmanager
def away(server: str) -> Iterator[None]:
    """Take a server down, as a power cut would, for as long as the context lasts."""
    import psycopg

    with psycopg.connect(f"{server}/postgres") as connection:
        [data] = connection.execute("SHOW data_directory").fetchone() or ("",)
    options = shlex.join(shlex.split((Path(data) / "postmaster.opts").read_text())[1:])
    pg_ctl = _binary("pg_ctl") or ""
    _run(pg_ctl, "-D", data, "-w", "-m", "immediate", "stop")
    try:
        yield
    finally:
        _run(pg_ctl, "-D", data, "-w", "-l", str(Path(data).parent / "log"), "-o", options, "start")


@contextmanager
def fresh_database(server: str, name: str, template: str = "template1", options: str = "") -> Iterator[str]:
    """Make a database on the server, empty or a copy of `template`; yield its URL; drop it afterwards."""
    _create(server, name, template, options)
    try:
        yield f"{server}/{name}"
    finally:
        _drop(server, name)


def _create(server: str, name: str, template: str, options: str = "") -> None:
    import psycopg

    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        # Without a disk to wait for, copying files takes half the time of writing a log of them.
        copied = "STRATEGY file_copy" if connection.info.server_version >= 150_000 else ""
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {copied} {options}')


def _drop(server: str, name: str) -> None:
    import psycopg

    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
_SHAPE: Final = """
SELECT md5(string_agg(concat(c.relname, c.relkind, a.attname, a.atttypid, a.attnotnull), ' '
                      ORDER BY c.relname, a.attnum))
FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = 'public'::regnamespace
"""
_EMPTY: Final = """
SET session_replication_role = replica;
DO $$
DECLARE name text; used boolean;
BEGIN
    FOR name IN SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = 'public' LOOP
        EXECUTE 'SELECT EXISTS (SELECT FROM ' || name || ')' INTO used;
        IF used THEN EXECUTE 'DELETE FROM ' || name; END IF;
    END LOOP;
    PERFORM setval(format('%I', sequencename)::regclass, start_value, false)
    FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL;
END $$
"""


class Databases:
    """Databases of one schema, which tests use one after another: to empty one is quicker than to make one."""

    def __init__(self, server: str, template: str) -> None:
        import psycopg

        self._server, self._template = server, template
        self._number = 0
        self._idle: list[str] = []
        with psycopg.connect(f"{server}/{template}") as connection:
            self._shape = connection.execute(_SHAPE).fetchone()
            names = [name for (name,) in connection.execute(_TABLES)]
            self._rows = {name: rows for name in names if (rows := _copy(connection, name))}

    @contextmanager
    def lent(self) -> Iterator[str]:
        """Yield the URL of a database as the template is; what a test has left in it is removed afterwards."""
        if self._idle:
            name = self._idle.pop()
        else:
            self._number += 1
            name = f"{self._template}{self._number}"
            _create(self._server, name, self._template)
        yield f"{self._server}/{name}"
        if self._emptied(name):
            self._idle.append(name)
        else:
            _drop(self._server, name)

    def _emptied(self, name: str) -> bool:
        """Undo what a test has done to a database, unless it has changed more than rows."""
        import psycopg

        with psycopg.connect(f"{self._server}/{name}") as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            if connection.execute(_SHAPE).fetchone() != self._shape:
                return False
            connection.execute(_EMPTY)
            for table, rows in self._rows.items():
                with connection.cursor().copy(f'COPY "{table}" FROM STDIN') as copy:
                    copy.write(rows)
        return True


def _copy(connection: Any, table: str) -> bytes:
    with connection.cursor().copy(f'COPY "{table}" TO STDOUT') as copy:
        return b"".join(map(bytes, copy))

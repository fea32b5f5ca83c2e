"""Starts that cannot work: each ends with its code and one clear sentence."""

from __future__ import annotations

import shutil
import socket
import sqlite3
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest

from openpai.store import opening, revisions
from openpai.store.database import Database
from openpai.store.schema import storages
from openpai.store.vault import Vault, key_from
from tests.e2e.server import Server, environment, refused, until
from tests.fork_server import start_pai
from tests.ports import free_port


def started(data_dir: Path, scratch: Path) -> Server:
    """Start a server on a data directory; its log lies elsewhere."""
    return Server.start(scratch, 0, "--data-dir", str(data_dir), "--backend", "simulated")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A data directory with an up-to-date database that knows no job; returns the database's file."""
    file = tmp_path / "data" / "openpai.db"
    file.parent.mkdir()
    made = Database(f"sqlite:///{file}")
    opening.migrate(made)
    made.close()
    return file


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        message = refused("--data-dir", tmp_path / "data", "--port", port)
    assert f"cannot listen on 127.0.0.1 port {port}: another program listens there" in message
    assert not (tmp_path / "data").exists()


def test_a_damaged_database_file(database: Path) -> None:
    for left in database.parent.glob("openpai.db-*"):
        left.unlink()
    database.write_bytes(b"this is no database at all " * 400)
    before = database.read_bytes()
    assert "the database file is damaged" in refused("--data-dir", database.parent)
    assert database.read_bytes() == before


def test_a_database_damaged_in_the_middle(database: Path) -> None:
    for left in database.parent.glob("openpai.db-*"):
        left.unlink()
    with database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (database.stat().st_size - 4096))
    assert "the database file is damaged" in refused("--data-dir", database.parent)


def test_a_key_that_is_missing_or_readable_by_other_users(database: Path) -> None:
    key = database.with_name("secret.key")
    sealed = Vault(key_from(key)).seal({"password": "hush"})
    assert sealed is not None
    made = Database(f"sqlite:///{database}")
    row = {"kind": "smb", "data": "{}", "is_read_only": False, "is_shared": True, "description": "", "created_at_ms": 0}
    with made.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(storages.insert(), {**row, "name": "nas", "sealed": sealed.data})
    made.close()
    for mode in (0o644, 0o602):
        key.chmod(mode)
        assert f"chmod 600 {key}" in refused("--data-dir", database.parent)
    key.unlink()
    assert "secret.key is missing, and secrets are sealed with its key" in refused("--data-dir", database.parent)
    assert not key.exists()


def test_a_data_directory_that_belongs_to_another_database(tmp_path: Path) -> None:
    (tmp_path / "database").write_text("postgresql://db.example.org/openpai")
    message = refused("--data-dir", tmp_path)
    assert "belongs to the database postgresql://db.example.org/openpai" in message
    assert not (tmp_path / "openpai.db").exists()
    elsewhere = ("--database-url", "postgresql://pai:hush@127.0.0.1:1/other")
    message = refused("--data-dir", tmp_path, *elsewhere)
    assert "belongs to the database postgresql://db.example.org/openpai" in message
    assert "hush" not in message
    assert "hush" not in refused("--data-dir", tmp_path, "--database-url", "postgresql//pai:hush@h/other")
    # A database that never answered has left no mark.
    (tmp_path / "database").unlink()
    assert "the database does not answer" in refused("--data-dir", tmp_path, *elsewhere, code=6)
    assert not (tmp_path / "database").exists()


def test_others_are_kept_out_of_a_directory_that_was_open(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    for left in (data / "logs", data / "openpai.db-wal"):
        left.mkdir(mode=0o755) if left.name == "logs" else left.touch(0o644)
    server = started(data, tmp_path)
    try:
        open_ = [path.name for path in data.iterdir() if path.stat().st_mode & 0o007]
        assert sorted(open_) == []
    finally:
        server.end()


def test_a_database_of_a_newer_version(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999_from_the_future'")
    connection.close()
    message = refused("--data-dir", database.parent)
    assert "the database was last used by a newer openpai (schema 9999_from_the_future)" in message


SECOND: Final = """
import sqlalchemy as sa
from alembic import op
revision = "9999"
down_revision = {first!r}
def upgrade():
    op.add_column("jobs", sa.Column("note", sa.Text, server_default="none yet"))
"""


def test_an_older_database_is_brought_up_to_date(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next version, which knows one more revision, opens what this version made; then this one refuses it."""
    newer = tmp_path / "migrations"
    shutil.copytree(str(files("openpai.store") / "migrations"), newer)
    first = revisions.newest_schema()
    (newer / "versions" / "9999_more.py").write_text(SECOND.format(first=first))
    server = started(database.parent, tmp_path)
    assert server.submit("old", "true").status_code == 202
    assert server.ended("old") == "SUCCEEDED"
    assert server.end() == 0
    with monkeypatch.context() as patch:
        patch.setattr(revisions, "migrations", lambda: newer)
        opened = Database(f"sqlite:///{database}")
        opening.migrate(opened)
        opened.close()
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT name, phase, note FROM jobs").fetchall() == [("old", "succeeded", "none yet")]
    connection.close()
    assert "was last used by a newer openpai (schema 9999)" in refused("--data-dir", database.parent)


def test_a_database_of_another_application(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with sqlite3.connect(tmp_path / "data" / "openpai.db") as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    assert "holds tables that are not openpai's" in refused("--data-dir", tmp_path / "data")


def test_an_empty_database_file_gets_the_newest_schema(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "openpai.db").touch()
    server = started(tmp_path / "data", tmp_path)
    try:
        assert server.submit("first", "true").status_code == 202
        assert server.ended("first") == "SUCCEEDED"
    finally:
        assert server.end() == 0


def test_a_data_directory_in_use(tmp_path: Path) -> None:
    server = started(tmp_path / "data", tmp_path)
    try:
        message = refused("--data-dir", tmp_path / "data")
        assert f"another server (process {server.process.pid}, {server.url}) uses the data directory" in message
    finally:
        assert server.end() == 0


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be used" in refused("--data-dir", tmp_path / "file")
    assert "cannot be used" in refused("--data-dir", tmp_path / "file" / "below")


def test_a_start_that_failed_leaves_no_administrator_with_an_unknown_password(tmp_path: Path) -> None:
    words = ["up", "--port", "0", "--data-dir", str(tmp_path / "data"), "--backend"]
    nowhere = ["docker", "--docker-url", f"unix://{tmp_path}/none.sock"]
    printed = tmp_path / "printed"
    with printed.open("wb") as log:
        assert start_pai([*words, *nowhere], environment(), log).wait(240) != 0
    assert (tmp_path / "data" / "openpai.db").exists()
    assert "first start" not in printed.read_text()
    with printed.open("wb") as log, start_pai([*words, "simulated"], environment(), log) as second:
        try:
            until(lambda: "first start: user admin, password " in printed.read_text(), "it says the password")
        finally:
            second.terminate()


def test_a_process_backend_open_to_the_world(tmp_path: Path) -> None:
    message = refused("--data-dir", tmp_path / "data", "--host", "0.0.0.0")
    assert "gives every job the server's own rights" in message
    assert not (tmp_path / "data").exists()


def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    away = f"postgresql://pai@127.0.0.1:{free_port()}/pai"
    message = refused("--data-dir", tmp_path / "data", "--database-url", away, code=6)
    assert "the database does not answer" in message


def test_a_database_that_says_nothing(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://pai@127.0.0.1:{silent.getsockname()[1]}/pai"
        message = refused("--data-dir", tmp_path / "data", "--database-url", url, code=6)
    assert "the database does not answer" in message
    assert "timeout" in message

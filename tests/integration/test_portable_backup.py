"""A platform that moves between SQLite and PostgreSQL in a backup, without PostgreSQL's tools, and through pipes."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

import openpai.app.main  # noqa: F401  # has `pai admin`
from openpai.protocol.errors import PaiError
from openpai.store.database import Database
from openpai.store.portable import copy_postgres, fill_postgres
from openpai.store.schema import events
from tests.integration.test_backup_commands import EXPECTED, Pai, pai, platform, secrets_of
from tests.outcome import Outcome

__all__ = ["pai"]
on_postgres = pytest.mark.parametrize("database_kind", ["postgresql"])


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.store.copying._find_tool", lambda _name: None)


@on_postgres
@pytest.mark.usefixtures("no_tools")
def test_postgres_is_backed_up_and_restored_without_its_tools(
    tmp_path: Path, pai: Pai, database_url: str, empty_url: str
) -> None:
    root, again, file = tmp_path / "data", tmp_path / "again", tmp_path / "b.tar.gz"
    platform(root, database_url)
    message = pai("backup", file, "--data-dir", root, "--database-url", database_url, "--json")
    assert message.code == 0, message.err
    assert message.json()["database"] == "postgresql"
    message = pai("restore", file, "--data-dir", again, "--database-url", empty_url)
    assert message.code == 0, message.err
    assert secrets_of(again, empty_url) == EXPECTED
    # The same file makes a single server with SQLite.
    message = pai("restore", file, "--data-dir", tmp_path / "lite")
    assert message.code == 0, message.err
    assert secrets_of(tmp_path / "lite") == EXPECTED


@on_postgres
def test_a_single_server_moves_to_postgres_and_rows_get_new_numbers(
    tmp_path: Path, pai: Pai, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, file = tmp_path / "data", tmp_path / "b.tar.gz"
    platform(root)
    row = {"job": "job-1", "at_ms": 1, "is_warning": False, "reason": "r", "message": "m", "job_attempt": 1}
    _add_event(f"sqlite:///{root / 'openpai.db'}", {"id": 41, **row})
    assert pai("backup", file, "--data-dir", root).code == 0
    with file.open("rb") as piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(piped))
        message = pai("restore", "-", "--data-dir", tmp_path / "again", "--database-url", empty_url)
    assert message.code == 0, message.err
    assert secrets_of(tmp_path / "again", empty_url) == EXPECTED
    assert _add_event(empty_url, row) == 42


@on_postgres
def test_a_full_database_is_kept_aside_and_only_on_request(
    tmp_path: Path, pai: Pai, database_url: str, empty_url: str
) -> None:
    root = tmp_path / "data"
    platform(root, database_url)
    copy = tmp_path / "copy.db"
    copy_postgres(database_url, copy, lambda *_: None)
    fill_postgres(empty_url, copy, lambda *_: None)
    with pytest.raises(PaiError, match="tables already"):
        fill_postgres(empty_url, copy, lambda *_: None)
    fill_postgres(empty_url, copy, lambda *_: None, aside="before")
    database = Database(empty_url, inline=True)
    with database.engine.connect() as connection:
        counts = [
            connection.exec_driver_sql(f"SELECT count(*) FROM {schema}.job_details").scalar_one()
            for schema in ("before", "public")
        ]
    database.close()
    assert counts == [len(EXPECTED)] * 2


@on_postgres
def test_what_breaks_off_leaves_an_empty_database(tmp_path: Path, pai: Pai, empty_url: str) -> None:
    root = tmp_path / "data"
    platform(root)

    def fail(*_: int) -> None:
        raise OSError("the connection was lost")

    for _ in range(2):
        with pytest.raises(OSError, match="lost"):
            fill_postgres(empty_url, root / "openpai.db", fail)
    fill_postgres(empty_url, root / "openpai.db", lambda *_: None)


def test_a_backup_goes_to_a_pipe_and_leaves_nothing_in_the_data_directory(
    tmp_path: Path, pai: Pai, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, again = tmp_path / "data", tmp_path / "again"
    platform(root)
    line = [str(Path(sys.executable).with_name("pai")), "admin"]
    made = subprocess.run([*line, "backup", "-", "--data-dir", str(root)], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    assert not list((root / "backup").iterdir())

    def restored(data: bytes, *options: str) -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return pai("restore", "-", "--data-dir", again, *options)

    got = restored(made.stdout)
    assert got.code == 0, got.err
    assert secrets_of(again) == EXPECTED
    assert "damaged or incomplete" in restored(made.stdout[:-20], "--force").err
    assert secrets_of(again) == EXPECTED


def _add_event(url: str, row: dict[str, object]) -> int:
    database = Database(url, inline=True)
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        key = connection.execute(events.insert(), row).inserted_primary_key
    database.close()
    assert key is not None
    return int(key[0])

"""Errors of databases, by their codes: what the caller learns of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from sqlalchemy import exc

from openpai.protocol.errors import BadConfiguration, InvalidParameters, PaiError, Unavailable
from openpai.store.db_errors import translate


def of_sqlite(file: Path, *statements: str) -> PaiError:
    *first, last = statements
    with closing(sqlite3.connect(file)) as connection:
        for statement in first:
            connection.execute(statement)
        with pytest.raises(sqlite3.Error) as caught:
            connection.execute(last)
    return translate(exc.DBAPIError(None, None, caught.value))


def test_a_full_disk_is_known_by_its_code_in_both_databases(tmp_path: Path) -> None:
    fill = "INSERT INTO t VALUES (zeroblob(1000000))"
    for found in (
        of_sqlite(tmp_path / "a.db", "CREATE TABLE t (x)", "PRAGMA max_page_count = 3", fill),
        translate(exc.OperationalError(None, None, errors.DiskFull("kein Speicherplatz mehr"))),
    ):
        assert isinstance(found, Unavailable)
        assert found.message == "the disk that holds the database is full; nothing was changed"


def test_a_damaged_file_is_known_by_its_code(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    file.write_bytes(b"no database" * 100)
    found = of_sqlite(file, "SELECT * FROM sqlite_master")
    assert isinstance(found, BadConfiguration)
    assert found.message == "the database file is damaged (file is not a database)"


@pytest.mark.parametrize(
    "cause",
    [
        errors.CharacterNotInRepertoire("x"),
        errors.UntranslatableCharacter("x"),
        psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"),
    ],
)
def test_a_nul_character_is_the_fault_of_the_request(cause: Exception) -> None:
    assert isinstance(translate(exc.DataError(None, None, cause)), InvalidParameters)


def test_any_other_error_says_what_the_database_said() -> None:
    found = translate(exc.DataError(None, None, errors.InvalidTextRepresentation("malformed array literal")))
    assert (type(found), found.message) == (Unavailable, "the database does not answer: malformed array literal")

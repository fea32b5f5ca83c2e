"""The tools of PostgreSQL as a backup calls them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openpai.protocol.errors import PaiError
from openpai.store.copying import restore_postgres

FAKE = """#!/bin/sh
echo "$@" > "$(dirname "$0")/words"; echo "$PGPASSWORD" >> "$(dirname "$0")/words"; exit 3
"""


def test_the_password_of_postgres_is_not_among_the_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "pg_restore"
    tool.write_text(FAKE)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(PaiError, match="pg_restore failed: exit code 3"):
        restore_postgres("postgresql://ann:pa%40ss@db.test:5433/pai?sslmode=require", tmp_path / "dump")
    arguments, password = (tmp_path / "words").read_text().splitlines()
    assert "--dbname=postgresql://ann@db.test:5433/pai?sslmode=require" in arguments.split()
    assert password == "pa@ss"


def test_without_the_tools_of_postgres_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("openpai.store.copying._INSTALLED", ())
    with pytest.raises(PaiError, match="pg_restore of PostgreSQL is not on this machine") as refused:
        restore_postgres("postgresql://ann@db.test/pai", tmp_path / "dump")
    assert "postgresql-client" in refused.value.advice

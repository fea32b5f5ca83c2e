"""A data directory in which something is not what it should be is refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.app.datadir import open_data_dir
from openpai.protocol.errors import Refused


@pytest.mark.parametrize("name", ["logs", "tasks"])
def test_a_file_in_the_place_of_a_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(Refused, match=f"{name}: File exists"):
        open_data_dir(tmp_path)
    (tmp_path / name).unlink()
    open_data_dir(tmp_path).close()


@pytest.mark.parametrize("name", ["secret.key", "openpai.db", "database", "task-uids"])
def test_a_directory_in_the_place_of_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(Refused, match=f"{name} is a directory, but must be a file"):
        open_data_dir(tmp_path)
    (tmp_path / name).rmdir()
    open_data_dir(tmp_path).close()


def test_a_note_of_the_database_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "database").write_bytes(b"\xb5\x00\xff")
    data = open_data_dir(tmp_path)
    with pytest.raises(Refused, match="belongs to the database"):
        data.refuse_other_database(None)
    data.close()


@pytest.mark.parametrize("name", ["logs", "code"])
def test_tasks_of_others_that_may_enter_the_directory_see_no_log_and_no_code(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(mode=0o755)
    data = open_data_dir(tmp_path, may_pass=True)
    data.let_pass(data.tasks / "process")
    data.close()
    assert tmp_path.stat().st_mode & 0o001
    assert (tmp_path / name).stat().st_mode & 0o007 == 0

"""What is written to a SQLite database whose files are gone is never taken for written."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from openpai.app.health import DatabaseHealth
from openpai.protocol.errors import Unavailable
from openpai.store.database import Database
from tests.newest import fill


def remove(path: Path) -> None:
    path.unlink()


def remove_all(path: Path) -> None:
    for file in path.parent.glob("pai.db*"):
        file.unlink()


def remove_wal(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def remove_shm(path: Path) -> None:
    Path(f"{path}-shm").unlink()


def replace_wal(path: Path) -> None:
    Path(f"{path}-wal").unlink()
    Path(f"{path}-wal").touch()


def move_directory_away(path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))


def replace_directory(path: Path) -> None:
    move_directory_away(path)
    shutil.copytree(path.parent.with_name("away"), path.parent)


def replace_by_backup(path: Path) -> None:
    shutil.copy(path, path.with_name("backup"))
    path.with_name("backup").replace(path)


def bring_directory_back(path: Path) -> None:
    path.parent.with_name("away").rename(path.parent)


def list_files(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


LOSSES = (remove, remove_all, remove_wal, remove_shm, replace_wal, move_directory_away, replace_directory,
          replace_by_backup)  # fmt: skip


def insert(name: str) -> Callable[[sa.Connection], object]:
    return lambda connection: connection.execute(sa.text("INSERT INTO kept VALUES (:name)"), {"name": name})


async def opened(root: Path, *, inline: bool) -> tuple[Path, Database]:
    path = root / "data" / "pai.db"
    path.parent.mkdir()
    database = Database(f"sqlite:///{path}", inline=inline)
    fill(database)
    await database.write(lambda connection: connection.execute(sa.text("CREATE TABLE kept (name TEXT)")))
    await database.write(insert("before"))
    return path, database


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("lose", LOSSES)
async def test_nothing_is_acknowledged_once_a_file_is_gone(
    tmp_path: Path, lose: Callable[[Path], None], inline: bool
) -> None:
    path, database = await opened(tmp_path, inline=inline)
    await DatabaseHealth(database).check()
    lose(path)
    for number in range(3):
        with pytest.raises(Unavailable, match="removed or replaced"):
            await database.write(insert(f"after {number}"))
    with pytest.raises(Unavailable, match="removed or replaced"):
        await DatabaseHealth(database).check()
    database.close()


@pytest.mark.parametrize("inline", [False, True])
async def test_a_file_that_goes_during_the_commit_is_noticed(tmp_path: Path, inline: bool) -> None:
    path, database = await opened(tmp_path, inline=inline)
    sa.event.listen(database.engine, "commit", lambda connection: path.unlink())
    with pytest.raises(Unavailable, match="removed or replaced"):
        await database.write(insert("after"))
    database.close()


async def test_no_new_connection_makes_an_empty_database_of_a_removed_one(tmp_path: Path) -> None:
    path, database = await opened(tmp_path, inline=False)
    remove_all(path)
    first = database.engine.connect()
    with pytest.raises(Unavailable, match="removed or replaced"):
        database.engine.connect()
    first.close()
    assert not list_files(path)
    database.close()


async def test_files_that_come_back_are_used_again(tmp_path: Path) -> None:
    path, database = await opened(tmp_path, inline=False)
    move_directory_away(path)
    with pytest.raises(Unavailable):
        await database.write(insert("lost"))
    bring_directory_back(path)
    await database.write(insert("after"))
    database.close()
    kept = sqlite3.connect(path).execute("SELECT name FROM kept").fetchall()
    assert kept == [("before",), ("after",)]


async def test_connections_that_end_take_their_files_along_and_that_is_no_loss(tmp_path: Path) -> None:
    path, database = await opened(tmp_path, inline=False)
    database.engine.dispose()
    assert list_files(path) == ["pai.db"]
    await database.write(insert("after"))
    await DatabaseHealth(database).check()
    database.close()

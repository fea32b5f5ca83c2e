"""A restore that is killed anywhere leaves the old platform, the restored one, or what no server takes."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import openpai.app.main  # noqa: F401  # has `pai admin`
from openpai.app.datadir import open_data_dir, refuse_half_restored, restore_mark
from openpai.app.restore import restore
from openpai.protocol.errors import PaiError, Refused
from openpai.store.copying import copy_sqlite
from openpai.store.database import Database
from openpai.store.vault import new_key
from tests.newest import fill
from tests.outcome import run_pai


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A platform with a backup and newer data."""
    data = open_data_dir(tmp_path / "data")
    database = Database(data.database_url, inline=True)
    fill(database)
    database.close()
    data.key_file.write_text(new_key())
    log = data.logs / "0123456789abcdef0123456789abcdef.0.w.0.0" / "stdout.log"
    log.parent.mkdir()
    log.write_text("said\n")
    data.close()
    return data.root


def killed_at(step: int, file: Path, root: Path) -> bool:
    """Restore in a process of its own that dies before its so-and-so-manieth change of names; return whether it did."""
    child = os.fork()
    if child == 0:
        try:
            left = [step]
            for kind in ("rename", "unlink", "rmdir"):
                setattr(Path, kind, _dying(getattr(Path, kind), left))
            os.close(1)
            os.open(os.devnull, os.O_WRONLY)
            restore(file, data_dir=root, force=True)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def _dying(real, left):  # type: ignore[no-untyped-def]
    def die_or_do(*args, **rest):  # type: ignore[no-untyped-def]
        if left[0] == 0:
            os._exit(9)
        left[0] -= 1
        return real(*args, **rest)

    return die_or_do


def is_refused(root: Path) -> bool:
    try:
        refuse_half_restored(root)
    except Refused as refusal:
        return "was interrupted" in refusal.message and "--force" in (refusal.advice or "")
    return False


def holds(root: Path) -> bool:
    with closing(sqlite3.connect(f"file:{root / 'openpai.db'}?mode=ro", uri=True)) as database:
        return bool(database.execute("SELECT version_num FROM alembic_version").fetchone())


@pytest.mark.parametrize("is_new", [False, True])
def test_killed_at_any_step_it_never_leaves_room_for_a_new_platform(root: Path, is_new: bool, tmp_path: Path) -> None:
    file = tmp_path / "b.tar.gz"
    assert run_pai("admin", "backup", str(file), "--data-dir", str(root), "--logs").code == 0
    refused = 0
    for step in range(40):
        place = tmp_path / f"place{step}"
        if not is_new:
            assert run_pai("admin", "restore", str(file), "--data-dir", str(place)).code == 0
        if not killed_at(step, file, place):
            break
        if (place / "openpai.db").exists():
            assert holds(place)
            assert not is_refused(place)
        else:
            refused += 1
            assert is_refused(place), sorted(path.name for path in place.parent.iterdir())
            again = ("admin", "restore", str(file), "--data-dir", str(place), "--force")
            assert run_pai(*again).code == 0
            assert holds(place)
            assert not restore_mark(place).exists()
            assert (place / "logs").is_dir()
    else:
        raise AssertionError("it was killed at each of forty steps")
    assert refused >= 3
    assert not is_refused(place)
    assert not restore_mark(place).exists()


def test_a_full_disk_of_the_copy_is_not_taken_for_the_platforms(root: Path, tmp_path: Path) -> None:
    """SQLite says only that a disk is full, not which."""
    copy = tmp_path / "copy"
    with closing(sqlite3.connect(copy)) as small:
        small.execute("CREATE TABLE anything (x)")

    class Small(sqlite3.Connection):
        def __init__(self, target: object, *args: object, **rest: object) -> None:
            super().__init__(target, *args, **rest)  # type: ignore[arg-type]
            if target == copy:
                self.execute("PRAGMA max_page_count=2")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3.dbapi2, "connect", Small)
        patch.setattr(sqlite3, "connect", Small)
        with pytest.raises(OSError, match="No space left") as caught:
            copy_sqlite(root / "openpai.db", copy, lambda _, __: None)
    assert not isinstance(caught.value, PaiError)
    assert caught.value.filename == str(copy)

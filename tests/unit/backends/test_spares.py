"""Task directories that are used again hold nothing of the task before, or are not used again."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from openpai.backends.host.directory import LaunchRecord, TaskDirectory
from openpai.backends.host.trash import Trash
from openpai.lifecycle.model import AttemptKey

RECORD = LaunchRecord(1, "n1", (), 5, "boot")


def prepared(root: Path, index: int, spare: str | None = None) -> TaskDirectory:
    directory = TaskDirectory(str(root), AttemptKey("j", 0, "worker", index, 0))
    directory.prepare(RECORD, "echo s3cret", "hosts", spare)
    return directory


def is_there(path: str) -> bool:
    return Path(path).exists()


async def lent(root: Path, leave: Callable[[Path], None]) -> str | None:
    """Return what the trash lends after a task that left this behind."""
    trash = Trash(str(root), spares_max=1)
    directory = prepared(root, 0)
    directory.fence()
    leave(Path(directory.path))
    trash.take(directory)
    assert not is_there(directory.path)
    spare = trash.lend()
    await trash.close()
    return spare


async def test_a_directory_in_which_nothing_was_left_is_used_again_without_ticket_or_secrets(tmp_path: Path) -> None:
    spare = await lent(tmp_path, lambda _: None)
    assert spare is not None
    assert (Path(spare) / "user.sh").read_text() == ""
    again = prepared(tmp_path, 1, spare)
    assert not is_there(spare)
    assert again.ticket() is None
    assert again.record() == RECORD
    assert (Path(again.path) / "work").is_dir()


@pytest.mark.parametrize(
    "leave",
    [
        lambda path: (path / "work" / "model.pt").touch(),
        lambda path: (path / "stray").touch(),
        lambda path: ((path / "user.sh").unlink(), (path / "user.sh").symlink_to("/etc/hostname")),
        lambda path: ((path / "work").rmdir(), (path / "work").symlink_to("/")),
    ],
    ids=["a file", "a stray file", "a link for a script", "a link for a directory"],
)
async def test_a_directory_in_which_a_task_left_something_is_not(tmp_path: Path, leave: Callable[[Path], None]) -> None:
    assert await lent(tmp_path, leave) is None


async def test_what_an_earlier_server_kept_is_thrown_away(tmp_path: Path) -> None:
    spare = await lent(tmp_path, lambda _: None)
    assert spare is not None
    trash = Trash(str(tmp_path), spares_max=1)
    assert trash.lend() is None
    assert not is_there(spare)
    await trash.close()


async def emptied(root: Path, *, but: int = 0) -> None:
    """Wait until no more than `but` directories are in the trash."""
    async with asyncio.timeout(60):
        while len([*(root / ".trash").iterdir()]) > but:  # noqa: ASYNC110  # no event says when a thread has removed it
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_deep_directory_neither_stops_the_emptying_nor_stays(tmp_path: Path) -> None:
    trash = Trash(str(tmp_path))
    deep = prepared(tmp_path, 0)
    handle = os.open(f"{deep.path}/work", os.O_RDONLY)
    # Deeper than Python's own removal may call itself.
    for _ in range(1200):
        os.mkdir("d", dir_fd=handle)
        below = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    trash.take(deep)
    trash.take(prepared(tmp_path, 1))
    await emptied(tmp_path)
    trash.take(prepared(tmp_path, 2))
    await emptied(tmp_path)
    await trash.close()


@pytest.mark.slow
async def test_the_emptying_goes_on_after_everything_was_removed_under_it(tmp_path: Path) -> None:
    root = tmp_path / "tasks" / "process"
    root.mkdir(parents=True)
    trash = Trash(str(root))
    shutil.rmtree(tmp_path / "tasks")
    trash.take(TaskDirectory(str(root), AttemptKey("j", 0, "worker", 0, 0)))
    async with asyncio.timeout(60):
        while not (root / ".trash").is_dir():  # noqa: ASYNC110  # as above
            await asyncio.sleep(0.01)
    trash.take(prepared(root, 1))
    await emptied(root)
    await trash.close()


@pytest.mark.slow
async def test_what_cannot_be_removed_keeps_nothing_else_from_going(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trash = Trash(str(tmp_path))
    real_unlink = os.unlink

    def unlink(name: str, *, dir_fd: int | None = None) -> None:
        if str(name).endswith("stays"):
            raise PermissionError(1, "Operation not permitted", name)
        real_unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    for index, name in enumerate(("stays", "goes")):
        directory = prepared(tmp_path, index)
        (Path(directory.path) / "work" / name).touch()
        trash.take(directory)
    await emptied(tmp_path, but=1)
    trash.take(prepared(tmp_path, 2))
    await emptied(tmp_path, but=1)
    await trash.close()

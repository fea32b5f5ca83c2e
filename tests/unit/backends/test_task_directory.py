"""What a task makes of its own directory neither stops the server nor leads it anywhere else."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from openpai.backends.host.directory import LaunchRecord, TaskDirectory, remove_if_unused, task_directories
from openpai.backends.host.trash import Trash
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from tests.rights import locked

RECORD = LaunchRecord(1, "n1", (0, 3), 5, "boot")
REPORT = "code 0\nreason \nmessage \nend\n"


@pytest.fixture
def directory(tmp_path: Path) -> TaskDirectory:
    found = TaskDirectory(str(tmp_path), AttemptKey("j", 0, "worker", 0, 0))
    found.prepare(RECORD, "echo hello", "hosts")
    return found


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """Return a file that no task may change, and that reads like a report."""
    found = tmp_path / "treasure"
    found.write_text(REPORT)
    found.chmod(0o600)
    return found


def swapped(path: str, make: Callable[[str], None]) -> None:
    """Put something else in a file's place."""
    Path(path).unlink(missing_ok=True)
    make(path)


@pytest.mark.timeout(60)
def test_a_pipe_in_place_of_a_file_blocks_no_reader(directory: TaskDirectory) -> None:
    for name in ("exit", "ticket", "task.json", "grace"):
        swapped(f"{directory.path}/{name}", os.mkfifo)
    assert (directory.report(), directory.ticket(), directory.record()) == (None, None, None)
    with pytest.raises(OSError, match="No such device"):
        directory.write_grace(5)
    directory.fence()
    directory.write_report(ExitReport(1, ExitReason.LOST))


def test_what_the_server_may_not_read_is_not_there(directory: TaskDirectory) -> None:
    Path(directory.path, "exit").write_text(REPORT)
    assert directory.report() is not None
    with locked(Path(directory.path, "exit")):
        assert directory.report() is None
    with locked(Path(directory.path)):
        assert (directory.report(), directory.ticket(), directory.record()) == (None, None, None)


def test_a_link_leads_to_no_file_that_is_read_or_written(directory: TaskDirectory, treasure: Path) -> None:
    for name in ("exit", "ticket", "grace", "user.sh", "wrapper.sh"):
        swapped(f"{directory.path}/{name}", lambda path: Path(path).symlink_to(treasure))
    assert (directory.report(), directory.ticket()) == (None, None)
    writes: list[Callable[[], None]] = [
        lambda: directory.write_grace(5),
        lambda: directory.prepare(RECORD, "echo again", "hosts"),
        lambda: directory.write("wrapper.sh", "text"),
        directory.let_anybody_read,
    ]
    for write in writes:
        with pytest.raises(OSError, match="symbolic links"):
            write()
    directory.fence()
    directory.write_report(ExitReport(1, ExitReason.LOST))
    assert treasure.read_text() == REPORT
    assert treasure.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["[" * 100_000, '{"devices": ["x"]}', '{"grant": [], "devices": []}', "\0"])
def test_a_record_that_a_task_wrote_over_is_none(directory: TaskDirectory, text: str) -> None:
    assert directory.record() == RECORD
    Path(directory.path, "task.json").write_text(text)
    assert directory.record() is None


def linked(path: str, goal: Path) -> None:
    """Put a link in a directory's place."""
    shutil.rmtree(path)
    Path(path).symlink_to(goal)


async def thrown_away(directory: TaskDirectory, spares_max: int) -> str | None:
    """Return what the trash lends after it took a directory."""
    trash = Trash(directory.root, spares_max=spares_max)
    trash.take(directory)
    lent = trash.lend()
    await trash.close()
    return lent


def empty_trash(root: Path) -> None:
    for left in (root / ".trash").iterdir():
        assert remove_if_unused(str(left))


@pytest.mark.parametrize("spares_max", [0, 1])
def test_a_link_in_place_of_the_directory_goes_without_what_it_leads_to(
    directory: TaskDirectory, tmp_path: Path, spares_max: int
) -> None:
    goal = tmp_path / "goal"
    goal.mkdir()
    for name in ("hosts", "user.sh", "ticket", "exit"):
        (goal / name).write_text("treasure")
    linked(directory.path, goal)
    assert list(task_directories(directory.root)) == []
    assert asyncio.run(thrown_away(directory, spares_max)) is None
    empty_trash(tmp_path)
    assert not Path(directory.path).is_symlink()
    assert [*(tmp_path / ".trash").iterdir()] == []
    assert {file.name for file in goal.iterdir()} == {"hosts", "user.sh", "ticket", "exit"}
    assert {file.read_text() for file in goal.iterdir()} == {"treasure"}


@pytest.mark.timeout(60)
def test_a_pipe_in_place_of_the_directory_goes_too(directory: TaskDirectory, tmp_path: Path) -> None:
    shutil.rmtree(directory.path)
    os.mkfifo(directory.path)
    assert asyncio.run(thrown_away(directory, 1)) is None
    empty_trash(tmp_path)
    assert [*(tmp_path / ".trash").iterdir()] == []

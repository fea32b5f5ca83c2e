"""What a task makes of its own directory neither stops the server nor leads it anywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from openpai.backends.host.directory import LaunchRecord, TaskDirectory
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport

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


@pytest.mark.timeout(10)
def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(directory: TaskDirectory) -> None:
    for name in ("exit", "ticket", "task.json", "grace"):
        swapped(f"{directory.path}/{name}", os.mkfifo)
    assert (directory.report(), directory.ticket(), directory.record()) == (None, None, None)
    with pytest.raises(OSError, match="No such device"):
        directory.write_grace(5)
    directory.fence()
    directory.write_report(ExitReport(1, ExitReason.LOST))


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

"""Checkpoint directories: what counts as a checkpoint, whatever a task puts there, and what is removed when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from openpai.backends.host.checkpoints import SPARE_PREFIX, SPARES_MAX, CheckpointDirectories
from openpai.lifecycle.model import AttemptKey

KEY = AttemptKey("j" * 32, 0, "train", 3, 0)
NOW_MS = 2_000_000_000_000


@pytest.fixture
def directories(tmp_path: Path) -> CheckpointDirectories:
    made = CheckpointDirectories(str(tmp_path))
    made.open()
    return made


def put(path: Path, at_s: int, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at_s, at_s))


def test_every_attempt_of_a_task_finds_the_same_directory_and_no_other_task_does(
    directories: CheckpointDirectories,
) -> None:
    path = directories.make(KEY)
    assert directories.make(replace(KEY, job_attempt=4, task_attempt=2)) == path
    others = [directories.make(replace(KEY, index=4)), directories.make(replace(KEY, role="eval"))]
    assert path not in others
    assert Path(path).stat().st_mode & 0o777 == 0o700
    assert Path(path).parent.stat().st_mode & 0o777 == 0o711


def test_the_newest_complete_file_counts(directories: CheckpointDirectories) -> None:
    path = Path(directories.make(KEY))
    assert directories.newest_ms(KEY, NOW_MS) is None
    put(path / "epoch-1" / "weights", 1000)
    put(path / "step-2", 900)
    for unfinished in (".hidden", "step-3.tmp", "step-3.part", ".work/step-4"):
        put(path / unfinished, 5000)
    put(path / "empty", 5000, "")
    put(path / "from-the-future", NOW_MS)
    (path / "link").symlink_to(__file__)
    (path / "loop").symlink_to(path)
    os.mkfifo(path / "pipe")
    assert directories.newest_ms(KEY, NOW_MS) == 1_000_000


def test_what_a_task_makes_of_its_directory_hurts_no_job(directories: CheckpointDirectories, tmp_path: Path) -> None:
    path = Path(directories.make(KEY))
    put(tmp_path / "elsewhere" / "file", 1000)
    deep = path.joinpath(*["deep"] * 20)
    put(deep / "file", 1000)
    assert directories.newest_ms(KEY, NOW_MS) is None
    path.rename(path.with_name("moved"))
    path.symlink_to(tmp_path / "elsewhere")
    assert directories.newest_ms(KEY, NOW_MS) is None
    with pytest.raises(FileExistsError):
        directories.make(KEY)


def test_directories_without_files_go_with_their_job_and_others_stay(directories: CheckpointDirectories) -> None:
    used = Path(directories.make(KEY))
    unused = Path(directories.make(replace(KEY, index=0)))
    put(used / "state", 1000)
    directories.remove_unused(KEY.job)
    assert (used.exists(), unused.exists()) == (True, False)
    (used / "state").unlink()
    directories.remove_unused(KEY.job)
    directories.remove_unused(KEY.job)
    assert not used.parent.exists()


def test_an_empty_directory_of_a_job_is_used_for_the_next(directories: CheckpointDirectories) -> None:
    first = Path(directories.make(KEY)).parent
    made, root = first.stat().st_ino, first.parent
    directories.remove_unused(KEY.job)
    second = Path(directories.make(replace(KEY, job="k" * 32, index=0)))
    assert second.parent.stat().st_ino == made
    assert [path.name for path in second.parent.iterdir()] == [second.name]
    assert (second.stat().st_mode & 0o777, second.parent.stat().st_mode & 0o777) == (0o700, 0o711)
    jobs = [f"{number:032}" for number in range(SPARES_MAX + 5)]
    for job in jobs:
        directories.make(replace(KEY, job=job))
    for job in jobs:
        directories.remove_unused(job)
    assert len([path for path in root.iterdir() if path.name.startswith(SPARE_PREFIX)]) == SPARES_MAX
    # Removed behind the server's back, it is made afresh; the next server removes what is left.
    for path in root.glob(f"{SPARE_PREFIX}*"):
        path.rmdir()
    assert Path(directories.make(KEY)).is_dir()
    directories.remove_unused(KEY.job)
    directories.open()
    assert [path.name for path in root.iterdir()] == [second.parent.name]

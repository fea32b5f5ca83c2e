"""Tasks of a large job share one file with the list of all hosts, and no task of another job ever meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.backends.host.directory import LaunchRecord, TaskDirectory
from openpai.backends.host.hosts import HOSTS_DIRECTORY, LISTS_MAX, SHARED_BYTES_MIN, SharedHosts
from openpai.lifecycle.model import AttemptKey

LARGE = "worker 0 10.0.0.1 ssh=20000\n" * (SHARED_BYTES_MIN // 20)
RECORD = LaunchRecord(1, "n", (), 0, "boot")


def prepared(root: Path, job: str, index: int, hosts: str, shared: SharedHosts, spare: str | None = None) -> Path:
    directory = TaskDirectory(str(root), AttemptKey(job, 0, "worker", index, 0))
    directory.prepare(RECORD, "true", hosts, spare, shared.file_of(hosts))
    return Path(directory.path)


def test_a_thousand_tasks_have_one_list_and_each_finds_it(tmp_path: Path) -> None:
    shared = SharedHosts(str(tmp_path))
    files = [prepared(tmp_path, "j", index, LARGE, shared) / "hosts" for index in range(1_000)]
    assert len({file.stat().st_ino for file in files}) == 1
    assert files[0].read_text() == files[-1].read_text() == LARGE


def test_a_task_keeps_its_list_when_all_others_and_the_server_are_gone(tmp_path: Path) -> None:
    shared = SharedHosts(str(tmp_path))
    first, last = (prepared(tmp_path, "j", index, LARGE, shared) for index in range(2))
    (first / "hosts").unlink()
    for number in range(LISTS_MAX):
        shared.file_of(f"{number}{LARGE}")
    assert len(list((tmp_path / HOSTS_DIRECTORY).iterdir())) == LISTS_MAX
    SharedHosts(str(tmp_path))
    assert not (tmp_path / HOSTS_DIRECTORY).exists()
    assert (last / "hosts").read_text() == LARGE


@pytest.mark.parametrize("hosts", ["other 0 10.0.0.2\n", f"other{LARGE}"])
def test_a_directory_that_is_used_again_for_another_job_leaves_the_list_of_the_first_alone(
    tmp_path: Path, hosts: str
) -> None:
    (tmp_path / ".spare").mkdir()
    (tmp_path / ".trash").mkdir()
    shared = SharedHosts(str(tmp_path))
    running, over = (prepared(tmp_path, "j", index, LARGE, shared) for index in range(2))
    spare = TaskDirectory(str(tmp_path), AttemptKey.parse(over.name)).spare("1")
    assert spare is not None
    other = prepared(tmp_path, "k", 0, hosts, shared, spare)
    assert (other / "hosts").read_text() == hosts
    assert (running / "hosts").read_text() == LARGE


def test_launching_again_changes_no_other_tasks_list(tmp_path: Path) -> None:
    shared = SharedHosts(str(tmp_path))
    running, again = (prepared(tmp_path, "j", index, LARGE, shared) for index in range(2))
    newer = f"newer{LARGE}"
    assert prepared(tmp_path, "j", 1, newer, shared) == again
    assert (again / "hosts").read_text() == newer
    assert (running / "hosts").read_text() == LARGE


def test_a_short_list_is_each_tasks_own(tmp_path: Path) -> None:
    shared = SharedHosts(str(tmp_path))
    files = [prepared(tmp_path, "j", index, "worker 0 10.0.0.1\n", shared) / "hosts" for index in range(2)]
    assert all(file.stat().st_nlink == 1 for file in files)
    assert not (tmp_path / HOSTS_DIRECTORY).exists()


def test_where_no_file_can_be_shared_each_task_has_its_own(tmp_path: Path) -> None:
    shared = SharedHosts(str(tmp_path))
    (tmp_path / HOSTS_DIRECTORY).write_text("something is in the way")
    files = [prepared(tmp_path, "j", index, LARGE, shared) / "hosts" for index in range(2)]
    assert [file.read_text() for file in files] == [LARGE, LARGE]
    assert all(file.stat().st_nlink == 1 for file in files)

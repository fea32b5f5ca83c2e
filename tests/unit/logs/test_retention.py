"""Which logs go and which stay, and that nothing else does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.lifecycle.model import AttemptKey
from openpai.logs.retention import Kept, Limits, Retention, plan, scan, suspects
from openpai.ports.queries import JobQueries, TaskAttemptRow
from tests.clocks import HandClock
from tests.rights import locked, open_directory

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def key(number: int) -> AttemptKey:
    return AttemptKey("a" * 32, 0, "worker", number, 0)


def kept(number: int, ended_hours_ago: int | None, size: int = 10) -> Kept:
    ended_at_ms = None if ended_hours_ago is None else NOW_MS - ended_hours_ago * HOUR_MS
    return Kept(key(number), size, NOW_MS - 1000 * HOUR_MS, ended_at_ms)


def test_what_ended_too_long_ago_goes() -> None:
    logs = [kept(0, 1), kept(1, 25), kept(2, 24), kept(3, None)]
    assert plan(logs, 40, Limits(24 * HOUR_MS, 1000), NOW_MS) == (key(1),)


def test_the_oldest_go_until_the_rest_is_small_enough() -> None:
    logs = [kept(0, 1), kept(1, 3), kept(2, 2), kept(3, None, size=100)]
    assert plan(logs, 130, Limits(24 * HOUR_MS, 115), NOW_MS) == (key(1), key(2))
    assert plan(logs, 130, Limits(24 * HOUR_MS, 130), NOW_MS) == ()
    assert plan(logs, 130, Limits(24 * HOUR_MS, 0), NOW_MS) == (key(1), key(2), key(0))


def test_logs_that_may_stay_are_not_looked_up() -> None:
    logs = [Kept(key(hours), 10, NOW_MS - hours * HOUR_MS) for hours in (1, 24, 25, 30)]
    limits = Limits(24 * HOUR_MS, 1000)
    assert [each.key for each in suspects(logs, 40, limits, NOW_MS)] == [key(25), key(30)]
    assert [each.key for each in suspects(logs, 1001, limits, NOW_MS)] == [key(1), key(24), key(25), key(30)]


ENDS = st.lists(st.tuples(st.none() | st.integers(0, 100), st.integers(0, 50)), max_size=20)


@given(ENDS, st.integers(0, 100), st.integers(0, 500))
def test_what_runs_stays_and_nothing_goes_without_need(
    ends: list[tuple[int | None, int]], age_max_h: int, bytes_max: int
) -> None:
    logs = [kept(number, ended, size) for number, (ended, size) in enumerate(ends)]
    total = sum(log.bytes for log in logs)
    limits = Limits(age_max_h * HOUR_MS, bytes_max)
    going = plan(logs, total, limits, NOW_MS)
    by_key = {log.key: log for log in logs}
    staying = [log for log in logs if log.key not in going and log.ended_at_ms is not None]
    assert all(by_key[each].ended_at_ms is not None for each in going)
    left = total - sum(by_key[each].bytes for each in going)
    assert left <= bytes_max or not staying
    assert all(NOW_MS - (log.ended_at_ms or 0) <= limits.age_max_ms for log in staying)
    if going:
        last = by_key[going[-1]]
        is_old = NOW_MS - (last.ended_at_ms or 0) > limits.age_max_ms
        assert is_old or left + last.bytes > bytes_max


class Ends:
    """Knows when attempts ended, as the store does."""

    def __init__(self) -> None:
        self.ended: dict[AttemptKey, int | None] = {}

    async def task_attempts(self, job: str, job_attempt: int) -> tuple[TaskAttemptRow, ...]:
        nothing: Any = None
        return tuple(
            TaskAttemptRow(each, "failed", 0, 0, None, nothing, nothing, ended, nothing, nothing, nothing)
            for each, ended in self.ended.items()
            if (each.job, each.job_attempt) == (job, job_attempt)
        )


class Disk:
    """A directory of logs of a chosen age."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ends = Ends()

    def put(self, number: int, hours_ago: int, *, is_over: bool = True, size: int = 4096) -> Path:
        directory = self.root / key(number).path()
        directory.mkdir(parents=True)
        file = directory / "stdout.log"
        file.write_bytes(b"x" * size)
        self.age(file, hours_ago)
        self.age(directory, hours_ago)
        self.ends.ended[key(number)] = NOW_MS - hours_ago * HOUR_MS if is_over else None
        return directory

    def age(self, path: Path, hours_ago: float) -> None:
        at_s = NOW_MS / 1000 - hours_ago * 3600
        os.utime(path, (at_s, at_s))

    def retention(self, limits: Limits) -> Retention:
        return Retention(self.root, cast("JobQueries", self.ends), HandClock(NOW_MS), limits)

    def left(self) -> list[int]:
        return sorted(logs.key.index for logs in scan(self.root))


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def test_old_logs_are_removed_and_running_ones_never(disk: Disk) -> None:
    disk.put(0, 30)
    disk.put(1, 30, is_over=False)
    disk.put(2, 1)
    assert await disk.retention(Limits(24 * HOUR_MS, 10**9)).run_once() == 1
    assert disk.left() == [1, 2]


async def test_logs_the_store_does_not_know_are_left_alone(disk: Disk) -> None:
    disk.put(0, 30)
    disk.ends.ended.clear()
    assert await disk.retention(Limits(24 * HOUR_MS, 0)).run_once() == 0
    assert disk.left() == [0]


async def test_a_full_disk_loses_its_oldest_logs(disk: Disk) -> None:
    for number in range(5):
        disk.put(number, 10 - number, size=8192)
    size = scan(disk.root)[0].bytes
    assert await disk.retention(Limits(10**12, 3 * size)).run_once() == 2
    assert disk.left() == [2, 3, 4]


async def test_attempts_that_run_silently_do_not_hide_the_others(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.logs.retention.REMOVED_AT_ONCE", 2)
    for number in range(3):
        disk.put(number, 50, is_over=False)
    disk.put(3, 40)
    retention = disk.retention(Limits(24 * HOUR_MS, 10**9))
    assert [await retention.run_once() for _ in range(2)] == [1, 0]
    assert disk.left() == [0, 1, 2]


async def test_one_pass_removes_all_that_is_beyond_the_limits(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.logs.retention.REMOVED_AT_ONCE", 2)
    for number in range(7):
        disk.put(number, 40 + number)
    disk.put(7, 3)
    disk.put(8, 2)
    size = scan(disk.root)[0].bytes
    assert await disk.retention(Limits(24 * HOUR_MS, size)).run_once() == 8
    assert disk.left() == [8]


def test_logs_that_their_task_locked_hide_no_others() -> None:
    with open_directory() as root:
        for number in (0, 1):
            (root / key(number).path()).mkdir(mode=0o755)
        with locked(root / key(0).path()):
            assert [logs.key for logs in scan(root)] == [key(1)]


async def test_a_round_over_nothing_does_nothing(tmp_path: Path) -> None:
    assert await Disk(tmp_path / "missing").retention(Limits()).run_once() == 0


async def test_what_is_no_log_is_left_alone(disk: Disk) -> None:
    strange = disk.root / "not" / "an" / "attempts" / "path" / "here"
    strange.mkdir(parents=True)
    (strange / "file").write_bytes(b"x")
    disk.age(strange, 10_000)
    assert await disk.retention(Limits(0, 0)).run_once() == 0
    assert (strange / "file").exists()


async def test_the_log_of_an_attempt_that_wrote_too_much_in_a_moment_is_cut(disk: Disk) -> None:
    disk.put(0, 1, size=9 << 20)
    disk.put(1, 1, size=3 << 20)
    assert await disk.retention(Limits(24 * HOUR_MS, 10**9, 4 << 20)).run_once() == 0
    sizes = {logs.key.index: logs.bytes for logs in scan(disk.root)}
    assert sizes[0] <= 4 << 20
    assert sizes[1] == 3 << 20

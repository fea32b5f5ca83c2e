"""When a log was written, estimated from its lengths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openpai.api.log_times import Clock, merged, since, stamped, timed_lines
from openpai.lifecycle.model import AttemptKey
from openpai.logs import write_times
from openpai.logs.files import FileLogs
from openpai.logs.write_times import FILE, Moments, read_moments
from openpai.ports.logs import Growth, Moment

KEY = AttemptKey("a" * 32, 0, "worker", 0, 0)


def write(root: Path, text: str, stream: str = "stdout") -> str:
    directory = root / KEY.path()
    directory.mkdir(exist_ok=True)
    with (directory / f"{stream}.log").open("a") as file:
        file.write(text)
    return str(directory)


async def text_of(lines) -> str:
    return b"".join([stamped(some, is_plain=False) async for some in lines]).decode()


def test_each_growth_is_written_down_once(tmp_path):
    looks = Moments()
    for at_ms, text in ((1000, "one\n"), (2000, ""), (3000, "two\nthr"), (4000, "ee\n")):
        looks.look([write(tmp_path, text)], at_ms)
    found = read_moments(write(tmp_path, ""))
    assert [(one.at_ms, one.sizes["stdout"]) for one in found] == [(1000, 4), (3000, 11), (4000, 14)]
    # A restarted server continues where the last one was.
    Moments().look([write(tmp_path, "more\n")], 9000)
    assert read_moments(write(tmp_path, ""))[-1].at_ms == 9000


def test_a_log_without_files_costs_one_look_until_its_directory_changes(tmp_path, monkeypatch):
    looks, directory, seen = Moments(), tmp_path / KEY.path(), []
    has_files = write_times._has_files
    monkeypatch.setattr(write_times, "_has_files", lambda path: seen.append(path) or has_files(path))
    directory.mkdir()
    os.utime(directory, ns=(5_000_000_000, 5_000_000_000))
    # Soon after its last change another one may not show.
    for at_ms in (5_000, 5_500, 6_000):
        looks.look([str(directory)], at_ms)
        assert seen.pop() == str(directory)
    for at_ms in (7_000, 8_000):
        looks.look([str(directory)], at_ms)
    assert seen == []
    write(tmp_path, "one\n")
    looks.look([str(directory)], 9_000)
    assert [(one.at_ms, one.sizes["stdout"]) for one in read_moments(str(directory))] == [(9_000, 4)]


async def test_lines_stand_behind_their_times_and_since_leaves_out_older_ones(tmp_path):
    looks = Moments()
    for at_ms, text in ((1000, "one\n"), (3000, "two\nthr"), (4000, "ee\n")):
        looks.look([write(tmp_path, text)], at_ms)
    write(tmp_path, "late")
    logs = FileLogs(tmp_path, lambda _: True)
    try:
        clock = Clock(await logs.moments(KEY), "stdout", 60_000)
        message = await text_of(timed_lines(logs, KEY, "stdout", (0, 18), clock))
        assert message.splitlines() == [
            "1970-01-01T00:00:01.000Z one",
            "1970-01-01T00:00:03.000Z two",
            "1970-01-01T00:00:04.000Z three",
            "1970-01-01T00:01:00.000Z late",
        ]
        starts = {at_ms: await since(logs, KEY, "stdout", clock, at_ms) for at_ms in (0, 999, 1000, 3500, 9000)}
        assert starts == {0: 0, 999: 0, 1000: 4, 3500: 8, 9000: 14}
    finally:
        await logs.close()


async def test_two_streams_are_merged_by_their_times(tmp_path):
    looks = Moments()
    for at_ms, out, err in ((1000, "one\n", ""), (2000, "", "two\n"), (3000, "three\npart", "four\nhalf")):
        write(tmp_path, out)
        looks.look([write(tmp_path, err, "stderr")], at_ms)
    looks.look([write(tmp_path, "ial\n")], 4000)
    logs = FileLogs(tmp_path, lambda _: True)
    try:
        moments = await logs.moments(KEY)
        streams = [
            timed_lines(logs, KEY, stream, (0, size), Clock(moments, stream, 9000))
            for stream, size in (("stdout", 18), ("stderr", 13))
        ]
        lines = (await text_of(merged(streams))).splitlines()
    finally:
        await logs.close()
    assert [line[17:] for line in lines] == [
        "01.000Z one", "02.000Z two", "03.000Z three", "03.000Z four", "03.000Z half", "04.000Z partial",
    ]  # fmt: skip


async def test_a_log_without_line_breaks_and_one_with_a_hole_can_be_read_with_times(tmp_path):
    write(tmp_path, "x" * 3_000_000 + "\nend\n")
    logs = FileLogs(tmp_path, lambda _: True)
    try:
        clock = Clock(Growth(), "stdout", 1000)
        message = await text_of(timed_lines(logs, KEY, "stdout", (0, 3_000_005), clock))
        stamp = "1970-01-01T00:00:01.000Z "
        assert message == f"{stamp}{'x' * 3_000_000}\n{stamp}end\n"
    finally:
        await logs.close()


@pytest.mark.parametrize("kind", ["nonsense", "numbers", "pipe", "link", "directory", "huge"])
def test_what_a_task_puts_in_its_place_harms_nothing(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(write_times, "BYTES_MAX", 1000)
    directory = Path(write(tmp_path, "text\n"))
    match kind:
        case "nonsense":
            (directory / FILE).write_bytes(b"\xff 5 5\n1 2\n" + b"9" * 400 + b" 1 1 1\n7 1 2 3\n")
        case "numbers":
            # As many as there should be, but not in each line; the last time is no time.
            (directory / FILE).write_bytes(b"7 1 2\n3 9 9 9 9\n" + b"9" * 18 + b" 1 1 1\n")
        case "pipe":
            os.mkfifo(directory / FILE)
        case "link":
            (directory / FILE).symlink_to(tmp_path / "elsewhere")
        case "directory":
            (directory / FILE).mkdir()
        case "huge":
            (directory / FILE).write_bytes(b"1 2 3 4\n" * 10_000)
    Moments().look([str(directory)], 5)
    found = read_moments(str(directory))
    assert len(found) <= 1000
    assert not (tmp_path / "elsewhere").exists()
    assert all(one.at_ms < 10**13 for one in found)
    if kind == "nonsense":
        assert tuple(found) == (
            Moment(5, {"stdout": 5, "stderr": 0, "runtime": 0}),
            Moment(7, {"stdout": 1, "stderr": 2, "runtime": 3}),
        )

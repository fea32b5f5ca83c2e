"""A log that grows too large loses its middle, and is read as if that were nothing special."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openpai.api.sse import LogEvents, cut_out
from openpai.lifecycle.model import AttemptKey
from openpai.logs.capping import HEAD_PART, cap_logs, hole, shares
from openpai.logs.files import FileLogs
from openpai.ports.logs import LogChunk
from openpai.system.disk_space import punch_hole

KEY = AttemptKey("a" * 32, 0, "worker", 0, 0)
MIB = 1 << 20
LINE = b"%015d\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with (tmp_path / "probe").open("wb+") as probe:
        probe.write(bytes(8192))
        try:
            punch_hole(probe.fileno(), 0, 4096)
        except OSError as error:
            pytest.skip(f"no holes in files here: {error}")
    place = tmp_path / KEY.path()
    place.mkdir()
    return place


@pytest.fixture
async def logs(tmp_path: Path) -> AsyncIterator[FileLogs]:
    logs = FileLogs(tmp_path, lambda _: True, period_s=0.01)
    yield logs
    await logs.close()


def write(directory: Path, count: int, stream: str = "stdout", first: int = 0) -> None:
    """Append so many numbered lines of 16 bytes, as the wrapper does."""
    with (directory / f"{stream}.log").open("ab") as file:
        file.write(b"".join(LINE % number for number in range(first, first + count)))


def taken(directory: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in directory.iterdir())


@pytest.mark.parametrize(
    ("sizes", "most", "cut"),
    [
        ({"a": 50, "b": 50}, 100, {}),
        ({"a": 400, "b": 40}, 120, {"a": 60}),
        ({"a": 400, "b": 400}, 120, {"a": 45, "b": 45}),
        ({"a": 400, "b": 0, "c": 0}, 100, {"a": 75}),
    ],
)
def test_small_streams_stay_whole_and_large_ones_share_the_rest(
    sizes: dict[str, int], most: int, cut: dict[str, int]
) -> None:
    assert shares(sizes, most) == cut


def test_nothing_is_cut_out_of_what_fits() -> None:
    assert hole(1000, 5000) is None
    assert hole(5000, 5000) is None


def test_the_first_and_the_newest_part_stay(directory: Path) -> None:
    write(directory, 1 << 18)
    assert cap_logs(str(directory), MIB) <= MIB
    assert taken(directory) <= MIB
    data = (directory / "stdout.log").read_bytes()
    assert len(data) == 16 << 18
    keep = MIB * 3 // 4
    assert data[: keep // HEAD_PART] == b"".join(LINE % number for number in range(keep // HEAD_PART // 16))
    assert data[-keep // 2 :] == b"".join(LINE % number for number in range((1 << 18) - keep // 32, 1 << 18))


async def test_a_reader_learns_where_the_log_continues(directory: Path, logs: FileLogs) -> None:
    write(directory, 1 << 18)
    cap_logs(str(directory), MIB)
    size = 16 << 18
    chunk = await logs.read(KEY, "stdout", size // 2, 32)
    assert chunk.offset > size // 2
    assert chunk.data == LINE % (chunk.offset // 16) + LINE % (chunk.offset // 16 + 1)
    assert chunk.size == size
    tail = await logs.read(KEY, "stdout", -32, 32)
    assert tail == LogChunk("stdout", size - 32, LINE % ((1 << 18) - 2) + LINE % ((1 << 18) - 1), size)


async def test_a_log_is_followed_across_the_cut(directory: Path, logs: FileLogs) -> None:
    write(directory, 1 << 18)
    cap_logs(str(directory), MIB)
    at, gaps, read = 0, 0, 0
    async for chunk in logs.follow(KEY, ("stdout",), {}):
        if chunk.offset != at:
            gaps += 1
        assert b"\0" not in chunk.data
        at = chunk.offset + len(chunk.data)
        read += len(chunk.data)
    assert (at, gaps) == (16 << 18, 1)
    assert read <= MIB


def test_an_event_says_what_was_cut_out() -> None:
    events = LogEvents({"stdout": 0})
    first = events.of(LogChunk("stdout", 0, "é".encode()[:1], 100))
    assert first == b""
    message = events.of(LogChunk("stdout", 50, b"after", 100)).decode()
    assert "\ufffd" in message
    assert cut_out(49).strip() in message
    assert '"offset":50,"text":"after"' in message
    assert "id: stdout=55" in message


async def test_a_file_without_any_data_does_not_download_without_end(directory: Path, logs: FileLogs) -> None:
    with (directory / "stdout.log").open("wb") as file:
        file.truncate(1 << 40)
    chunk = await logs.read(KEY, "stdout", 0, 100)
    assert (chunk.offset, chunk.data) == (1 << 40, b"")


def test_a_link_in_place_of_a_log_is_left_alone(directory: Path, tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.write_bytes(os.urandom(4 * MIB))
    before = treasure.read_bytes()
    (directory / "stdout.log").symlink_to(treasure)
    write(directory, 1 << 17, "stderr")
    cap_logs(str(directory), MIB)
    assert treasure.read_bytes() == before


def test_a_file_that_has_another_name_too_is_left_alone(directory: Path, tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.write_bytes(os.urandom(4 * MIB))
    before = treasure.read_bytes()
    (directory / "stdout.log").hardlink_to(treasure)
    cap_logs(str(directory), MIB)
    assert treasure.read_bytes() == before


def test_a_log_that_grows_and_grows_stays_small(directory: Path) -> None:
    for turn in range(20):
        write(directory, 1 << 15, "stdout", turn << 15)
        write(directory, 1 << 15, "stderr", turn << 15)
        assert cap_logs(str(directory), MIB) <= MIB

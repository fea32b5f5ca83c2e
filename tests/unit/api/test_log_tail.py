"""The last lines of a log are found without reading the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openpai.api.log_times import BLOCK_BYTES, BYTES_MAX, Tail, tail_of
from openpai.lifecycle.model import AttemptKey
from openpai.logs.files import FileLogs
from openpai.ports.logs import LogChunk

KEY = AttemptKey("a" * 32, 0, "worker", 0, 0)


class Counting(FileLogs):
    """Logs that count the bytes read."""

    read_bytes = 0

    async def read(self, key: AttemptKey, stream: str, offset: int, limit: int) -> LogChunk:
        chunk = await super().read(key, stream, offset, limit)
        self.read_bytes += len(chunk.data)
        return chunk


@pytest.fixture
async def logs(tmp_path: Path) -> AsyncIterator[Counting]:
    (tmp_path / KEY.path()).mkdir()
    logs = Counting(tmp_path, lambda _: True)
    yield logs
    await logs.close()


def write(tmp_path: Path, data: bytes, *, at: int = 0) -> None:
    with (tmp_path / KEY.path() / "stdout.log").open("wb") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize(
    ("data", "lines", "tail"),
    [
        (b"", 3, b""),
        (b"a\nb\nc\n", 0, b""),
        (b"a\nb\nc\n", 1, b"c\n"),
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc\n", 9, b"a\nb\nc\n"),
        (b"\n\n\n", 2, b"\n\n"),
        (b"x" * BLOCK_BYTES + b"\n" + b"y" * BLOCK_BYTES + b"\n", 1, b"y" * BLOCK_BYTES + b"\n"),
    ],
)
async def test_a_tail_is_the_last_lines(tmp_path: Path, logs: Counting, data: bytes, lines: int, tail: bytes) -> None:
    write(tmp_path, data)
    found = await tail_of(logs, KEY, "stdout", lines)
    assert data[found.start :] == tail
    assert found.lines <= lines


async def test_of_a_long_log_only_the_end_is_read(tmp_path: Path, logs: Counting) -> None:
    size = 1 << 30
    write(tmp_path, b"\nlast but one\nlast\n", at=size)
    found = await tail_of(logs, KEY, "stdout", 2)
    assert found == Tail(size + 1, 2, size + 19)
    assert logs.read_bytes <= BLOCK_BYTES


async def test_a_line_of_a_gigabyte_is_read_from_its_last_megabytes_on(tmp_path: Path, logs: Counting) -> None:
    write(tmp_path, b"x" * (BYTES_MAX + BLOCK_BYTES))
    found = await tail_of(logs, KEY, "stdout", 3)
    assert found == Tail(BLOCK_BYTES, 1, BYTES_MAX + BLOCK_BYTES)
    assert logs.read_bytes <= BYTES_MAX

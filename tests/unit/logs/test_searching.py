"""Searching logs: the right lines, whatever the blocks, the pattern and the bytes are."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.logs import searching
from openpai.logs.files import FileLogs
from openpai.logs.searching import LINE_MAX, SHOWN_BYTES, compiled, read_block, search_block
from openpai.ports.logs import LogPattern
from openpai.protocol.errors import InvalidParameters

KEY = AttemptKey("a" * 32, 0, "worker", 0, 0)


def hits_in(path: Path, pattern: LogPattern, hits_max: int = 10_000) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    search, at = compiled(pattern), 0
    while True:
        block = read_block(str(path), at)
        hits = search_block(block, search, hits_max)
        found += [(hit.offset, hit.data) for hit, _ in hits]
        after = hits[-1][1] if len(hits) == hits_max else block.after
        assert after > at or after >= block.size
        if after >= block.size:
            return found
        at = after


@pytest.mark.parametrize("block", [64, 1000, 1 << 20])
@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        (LogPattern("err"), 0),
        (LogPattern("ERR", ignores_case=True), re.IGNORECASE),
        (LogPattern("^e+r", is_regex=True), 0),
        (LogPattern("r$", is_regex=True), 0),
        (LogPattern("^$", is_regex=True), 0),
        (LogPattern("z*", is_regex=True), 0),
        (LogPattern(r"o\s*e", is_regex=True), 0),
        (LogPattern("[^o]{3}|oo", is_regex=True), 0),
    ],
)
def test_it_finds_the_lines_that_an_expression_finds_in_each_line_alone(tmp_path, monkeypatch, pattern, flags, block):
    chance = random.Random(7)
    lines = ["".join(chance.choices("eErROo ", k=chance.randrange(12))) for _ in range(3000)]
    path = tmp_path / "log"
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(searching, "BLOCK_BYTES", block)
    one = re.compile(pattern.text if pattern.is_regex else re.escape(pattern.text), flags)
    expected, offset = [], 0
    for line in lines:
        if one.search(line.encode().decode()):
            expected.append((offset, line.encode()))
        offset += len(line) + 1
    assert hits_in(path, pattern) == expected
    assert hits_in(path, pattern, hits_max=1) == expected


def test_of_a_progress_bar_the_state_is_found_and_of_a_long_line_the_part(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"a\n1%\r2% nan\r3%\n" + b"x" * 50_000 + "é".encode() * 400 + b"needle" + b"y" * 50_000)
    assert hits_in(path, LogPattern("nan")) == [(5, b"2% nan")]
    [(offset, data)] = hits_in(path, LogPattern("needle"))
    assert len(data) == SHOWN_BYTES
    assert b"needle" in data
    assert data.decode()
    assert path.read_bytes()[offset:].startswith(data)


def test_a_line_without_an_end_is_searched_in_bounded_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(searching, "BLOCK_BYTES", 4 * LINE_MAX)
    path = tmp_path / "log"
    path.write_bytes(b"x" * (20 * LINE_MAX) + b"needle\n")
    assert len(hits_in(path, LogPattern("needle"))) == 1


def test_bytes_that_are_no_text_and_holes_are_passed(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(bytes(range(256)) * 10 + b"\nfirst needle\n")
        file.seek(1 << 32)
        file.write(b"\nsecond needle \xff\n")
    assert [data for _, data in hits_in(path, LogPattern("needle"))] == [b"first needle", b"second needle \xff"]


@pytest.mark.parametrize("text", ["", "a" * 1001, "(", "a)(?i", "(?=a)", r"(a)\1", "((a{1000}){1000}){1000}"])
def test_a_pattern_that_is_none_is_refused(text):
    with pytest.raises(InvalidParameters):
        compiled(LogPattern(text, is_regex=True))


async def test_a_search_goes_on_where_it_stopped(tmp_path, monkeypatch):
    logs = FileLogs(tmp_path, lambda _: True)
    directory = tmp_path / KEY.path()
    directory.mkdir(parents=True)
    (directory / "stdout.log").write_bytes(b"".join(b"step %06d\n" % number for number in range(1000)))
    try:
        some = await logs.search(KEY, "stdout", LogPattern("0 *$", is_regex=True), 0, hits_max=7, bytes_max=1 << 30)
        assert [hit.data[-2:] for hit in some.hits] == [b"%d0" % ten for ten in range(7)]
        assert some.size == 12_000
        rest = await logs.search(KEY, "stdout", LogPattern("0$", is_regex=True), some.at, hits_max=999, bytes_max=1)
        assert len(rest.hits) == 93
        assert rest.at == rest.size
        (directory / "stdout.log").write_bytes(b"".join(b"step %06d\n" % number for number in range(100_000)))
        monkeypatch.setattr(searching, "BLOCK_BYTES", 5000)
        some = await logs.search(KEY, "stdout", LogPattern("99$", is_regex=True), 0, hits_max=2000, bytes_max=1 << 30)
        assert [hit.offset for hit in some.hits] == [12 * number for number in range(99, 100_000, 100)]
        half = await logs.search(KEY, "stdout", LogPattern("99"), 0, hits_max=2000, bytes_max=600_000)
        assert 600_000 <= half.at <= 610_000
        assert half.size == 1_200_000
        none = await logs.search(KEY, "stderr", LogPattern("x"), 0, hits_max=1, bytes_max=1)
        assert (none.hits, none.at, none.size) == ((), 0, 0)
    finally:
        await logs.close()

"""Small files are read whole, in pieces that the allocator keeps, and never beyond a limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openpai.system.kernel_files import processes_in, read_text, read_up_to


@pytest.mark.parametrize("size", [0, 1, 20_000, 32 * 1024, 100_000])
def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * size)
    assert len(read_text(str(tmp_path / "file"))) == size


def test_no_more_is_read_than_allowed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    with (tmp_path / "file").open("rb") as file:
        assert len(read_up_to(file.fileno(), 70_000)) == 70_000


def test_no_buffer_is_as_large_as_a_block_that_is_unmapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = os.read

    def read(file: int, size: int) -> bytes:
        asked.append(size)
        return real(file, size)

    monkeypatch.setattr(os, "read", read)
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    read_text(str(tmp_path / "file"))
    assert max(asked) < 64 * 1024


def test_the_processes_of_no_cgroup_are_none_and_a_foreign_one_is_left_out(tmp_path: Path) -> None:
    assert processes_in(str(tmp_path)) == []
    (tmp_path / "cgroup.procs").write_text("0\n17\n4\n")
    assert processes_in(str(tmp_path)) == [17, 4]

"""What a directory takes is measured whatever an enemy has put there."""

from __future__ import annotations

import os
from pathlib import Path

from openpai.system.directory_size import taken_by
from openpai.system.removal import remove_tree

MIB = 1 << 20
DEPTH = 1100


def test_files_at_any_depth_count_and_links_do_not(tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").write_bytes(os.urandom(4 * MIB))
    top = tmp_path / "top"
    handle, fd = top, -1
    top.mkdir()
    fd = os.open(handle, os.O_RDONLY)
    # Deeper than Python's limit of recursion.
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    file = os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd)
    os.write(file, os.urandom(MIB))
    os.close(file)
    os.symlink(treasure, "link", dir_fd=fd)
    os.close(fd)
    (top / "beside").write_bytes(os.urandom(MIB))
    assert 2 * MIB <= taken_by(str(top), 100 * MIB) < 2 * MIB + DEPTH * 5000
    # Other tools cannot remove a tree this deep.
    remove_tree(str(top))


def test_no_more_is_counted_than_it_takes_to_know(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(os.urandom(MIB))
    assert MIB < taken_by(str(tmp_path), MIB) < 4 * MIB


def test_what_is_not_there_takes_nothing(tmp_path: Path) -> None:
    assert taken_by(str(tmp_path / "nothing"), MIB) == 0
    (tmp_path / "link").symlink_to("/usr")
    assert taken_by(str(tmp_path / "link"), MIB) == 0

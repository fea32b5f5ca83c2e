"""Which files of this machine an upload takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openpai.cli.storage_files import _files
from openpai.system.removal import remove_tree


@pytest.mark.slow
def test_a_directory_deeper_than_a_program_may_call_itself_is_taken_whole(tmp_path, monkeypatch):
    (tmp_path / "d").mkdir()
    monkeypatch.chdir(tmp_path / "d")
    depth = 1200
    for _ in range(depth):
        Path("d").mkdir()
        os.chdir("d")
    Path("f").write_text("x")
    monkeypatch.chdir(tmp_path)
    ((path, goal),) = _files(Path("d"))
    assert goal == "d/" * (depth + 1) + "f"
    assert path.read_text() == "x"
    # Other tools cannot remove a tree this deep.
    remove_tree(str(tmp_path / "d"))


def test_links_to_files_are_taken_and_links_to_directories_are_not(tmp_path):
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (top / "b").write_text("b")
    (top / "sub" / "a").write_text("a")
    (top / "link").symlink_to("b")
    (top / "away").symlink_to("/etc", target_is_directory=True)
    assert [goal for _, goal in _files(top)] == ["top/b", "top/link", "top/sub/a"]

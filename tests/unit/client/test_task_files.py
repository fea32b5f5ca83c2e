"""What runs in a task to copy its files: a shell and tar are enough."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from openpai.client.task_files import _SEND, _TAKE_FILE


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Return a directory with `d/f`, and beside it a path with tar and cat only."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("data")
    (tmp_path / "bin").mkdir()
    for name in ("tar", "cat"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    return tmp_path


def ran(bare: Path, script: str, *given: str, stdin: bytes = b"") -> bytes:
    command = ["/bin/sh", "-c", script, "pai-cp", *given]
    return subprocess.run(
        command, cwd=bare, env={"PATH": str(bare / "bin")}, input=stdin, capture_output=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("path", "form", "names"),
    [
        ("d/f", "archived", ["f"]),
        ("{}/d/f", "archived", ["f"]),
        ("d", "directory", [".", "./f"]),
        ("d/", "directory", [".", "./f"]),
        ("{}/d/", "directory", [".", "./f"]),
    ],
)
def test_files_are_sent_by_an_image_without_further_programs(
    path: str, form: str, names: list[str], bare: Path
) -> None:
    head, _, archive = ran(bare, _SEND, path.format(bare)).partition(b"\n")
    assert head == form.encode()
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        assert sorted(opened.getnames()) == names


def test_a_file_is_taken_by_an_image_without_further_programs(bare: Path) -> None:
    ran(bare, _TAKE_FILE, "d", "new", "755", stdin=b"text")
    assert (bare / "d/new").read_text() == "text"

"""The code that is sent with a job: the same files that git would take, and no dangerous ones."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from openpai.client import code as packing
from openpai.client.code import code_of, pack
from openpai.protocol.errors import Refused, Unavailable

TREE = {
    ".gitignore": "*.log\n!keep.log\n/data\nbuild/\nsub/*.tmp\n# no rule\n\\#odd\n",
    "train.py": "print()",
    "a.log": "",
    "keep.log": "",
    "#odd": "",
    "data/x": "",
    "sub/data/x": "",
    "sub/build/x": "",
    "sub/build.py": "",
    "sub/y.tmp": "",
    "sub/deeper/.gitignore": "!*.log\n*.py\n",
    "sub/deeper/b.log": "",
    "sub/deeper/c.py": "",
    "sub/deeper/d/e.py": "",
    "spaces in/a name": "",
    "é/ü": "",
}


def make(root: Path, tree: dict[str, str] = TREE) -> Path:
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(root: Path) -> list[str]:
    return [file.name for file in code_of(root).files]


@pytest.mark.skipif(shutil.which("git") is None, reason="git, which knows its own rules best, is not here")
@pytest.mark.parametrize("below", ["", "sub", "sub/deeper"])
def test_the_files_sent_are_those_that_git_would_take(tmp_path, below):
    def git(*words: str) -> str:
        where, quiet = make(tmp_path) / below, {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        return subprocess.check_output(["git", *words], cwd=where, env=os.environ | quiet).decode()

    git("init", "-q")
    expected = [name for name in git("ls-files", "-co", "--exclude-standard", "-z").split("\0") if name]
    assert names(tmp_path / below) == sorted(expected)


def test_rules_of_our_own_come_after_and_bring_back(tmp_path):
    make(tmp_path, {"node_modules/x": "", ".git/x": "", "v/pyvenv.cfg": "", "v/lib/x": "", "a.bin": "", "b.py": ""})
    make(tmp_path, {".gitignore": "*.bin", ".paiignore": "!a.bin\n!node_modules/\nb.py\n.*ignore\n"})
    assert names(tmp_path) == ["a.bin", "node_modules/x"]


def test_the_archive_holds_the_files_and_is_always_the_same(tmp_path):
    root = make(tmp_path / "proj", {"run.sh": "echo", "sub/" + "long" * 60: "x"})
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("sub")
    (root / "out").symlink_to("/etc/passwd")
    (root / "up").symlink_to("../elsewhere")
    os.mkfifo(root / "pipe")
    code = code_of(root)
    assert sorted(code.left_out) == [
        "out is a link to a place outside",
        "pipe is not a regular file",
        "up is a link to a place outside",
    ]
    first, second = io.BytesIO(), io.BytesIO()
    pack(code, first)
    pack(code_of(root), second)
    assert first.getvalue() == second.getvalue()
    with tarfile.open(fileobj=io.BytesIO(first.getvalue())) as archive:
        archive.extractall(tmp_path / "there")  # our own; Python 3.11.2 has no filters yet
        assert {member.uid for member in archive} == {0}
    assert (tmp_path / "there/run.sh").stat().st_mode & 0o111
    assert (tmp_path / "there/link").readlink() == Path("sub")


def test_too_much_is_refused_with_what_is_largest(tmp_path, monkeypatch):
    make(tmp_path, {str(number): "" for number in range(6)})
    with (tmp_path / "model.bin").open("wb") as file:
        file.truncate(packing.BYTES_MAX + 1)
    with pytest.raises(Refused, match=r"model.bin \(256 MiB\)"):
        code_of(tmp_path)
    (tmp_path / "model.bin").unlink()
    monkeypatch.setattr(packing, "FILES_MAX", 5)
    with pytest.raises(Refused, match="more than 5 files"):
        code_of(tmp_path)


def test_a_home_or_no_directory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for wrong in (tmp_path, Path("/"), tmp_path / "nowhere", make(tmp_path, {"file": ""}) / "file"):
        with pytest.raises(Refused):
            code_of(wrong)


def test_what_changes_meanwhile_is_unavailable(tmp_path):
    make(tmp_path, {"a": "aaa"})
    code = code_of(tmp_path)
    (tmp_path / "a").unlink()
    with pytest.raises(Unavailable, match="changed or went"):
        pack(code, io.BytesIO())


def test_a_tree_deeper_than_paths_may_be_long_is_refused_by_name(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(30):
            os.mkdir("d" * 200, dir_fd=here)
            deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = deeper
    finally:
        os.close(here)
    with pytest.raises(Refused, match=r"cannot read .*ddd"):
        code_of(tmp_path)


SECRET = (".env", ".env.local", "deep/er/.env", "tls/server.pem", "id_rsa", ".netrc", ".aws/credentials", ".ssh/config")


def test_files_of_secrets_stay_here_and_are_named(tmp_path: Path) -> None:
    make(tmp_path, {"train.py": "", ".env.example": "", "env.py": "", **dict.fromkeys(SECRET, "s3cret")})
    code = code_of(tmp_path)
    assert [file.name for file in code.files] == [".env.example", "env.py", "train.py"]
    assert code.secrets == (
        ".aws/", ".env", ".env.local", ".netrc", ".ssh/", "deep/er/.env", "id_rsa", "tls/server.pem"
    )  # fmt: skip


def test_a_file_of_secrets_that_a_rule_includes_is_packed(tmp_path: Path) -> None:
    make(tmp_path, {".paiignore": "!.env\n!.aws/\n", ".env": "", ".aws/credentials": "", "id_rsa": ""})
    code = code_of(tmp_path)
    assert [file.name for file in code.files] == [".aws/credentials", ".env", ".paiignore"]
    assert code.secrets == ("id_rsa",)


def test_a_file_of_secrets_that_a_rule_leaves_out_is_not_named(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": ".env\n", ".env": ""})
    assert code_of(tmp_path).secrets == ()

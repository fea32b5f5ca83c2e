"""Changing a job file on its way, and showing where its faults are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from rich.cells import cell_len

from openpai.cli import job_changes, job_file
from openpai.cli.job_changes import Changes
from openpai.cli.job_file import describe, excerpt, read
from openpai.protocol.errors import Fault, Refused
from openpai.protocol.job import MAX_JOB_BYTES
from openpai.protocol.reading import read_job

FILE = b"""\
# my job
name: hello  # its name
parameters:
  code: ./train.py  # where
  steps: 10
  name: inner
  many:
    - 1
taskRoles: {}
"""


def changed(content, name, assignments):
    return job_changes.changed(content, Changes(name, assignments)).content


def test_nothing_wanted_changes_nothing():
    assert changed(FILE, None, []) is FILE


def test_values_change_and_everything_else_stays():
    after = changed(FILE, "hello-2", ["steps=20", "code=a: b # c", "name=outer=er"]).decode()
    document = yaml.safe_load(after)
    assert document["name"] == "hello-2"
    assert document["parameters"] == {"code": "a: b # c", "steps": 20, "name": "outer=er", "many": [1]}
    assert after.count("\n") == FILE.count(b"\n")
    assert "# its name" in after
    assert "# where" in after


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("'3'", "3"),
        ("", ""),
        ("2024-01-01", "2024-01-01"),
        ("on", "on"),
        ("0777", "0777"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("'3' apples", "'3' apples"),
        ("[1", "[1"),
        ("a\nb", "a\nb"),
        ("é'\"", "é'\""),
    ],
)
def test_a_value_is_what_it_looks_like(given, value):
    assert yaml.safe_load(changed(FILE, None, [f"steps={given}"]))["parameters"]["steps"] == value


def test_json_files_can_be_changed_too():
    after = changed(b'{"name": "x", "parameters": {"a": 1}}', "y", ["a=2"])
    assert yaml.safe_load(after) == {"name": "y", "parameters": {"a": 2}}


def test_files_of_version_1_can_be_changed_with_their_comments():
    old = """{
        // which \\ud83d one
        "image": "\\ud83d\\ude00", /* a
\tcomment */ "jobName": "x",\t"jobEnvs": {"a": 1}
    }"""
    assert changed(old.encode(), "y", ["a=2"]).decode() == old.replace('"x"', '"y"').replace("1}", "2}")


def test_an_unknown_parameter_is_refused_with_the_nearest_one():
    with pytest.raises(Refused, match="no parameter 'step'") as caught:
        changed(FILE, None, ["step=1"])
    assert "'steps'" in caught.value.advice


@pytest.mark.parametrize("wrong", ["steps", "=3", "many=3"])
def test_what_cannot_be_set_is_refused(wrong):
    with pytest.raises(Refused):
        changed(FILE, None, [wrong])


def test_a_file_that_is_no_yaml_names_the_line():
    with pytest.raises(Refused, match="line 3"):
        changed(b"a: 1\nb: [\n", "x", [])


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(Refused, match="'/nowhere/x' cannot be read: No such file"):
        read("/nowhere/x")


def test_the_caret_stands_under_the_word():
    shown = excerpt("taskRoles:\n  w:\n    instanses: 2\n", Fault("taskRoles.w.instanses", "unknown key", 3))
    before, line, caret = shown.splitlines()
    assert "w:" in before
    assert line.index("instanses") == caret.index("^")
    assert caret.count("^") == len("instanses")


def test_of_a_long_line_the_part_is_shown_that_is_meant():
    for path in ("taskRoles.w.instanses", "elsewhere"):
        shown = excerpt('{"a": "' + "x" * 5000 + '", "instanses": 2}', Fault(path, "unknown key", 1))
        line, caret = shown.splitlines()
        assert len(line) < 130
        assert len(caret) < 130
        assert ("instanses" in line) == (path != "elsewhere")
    assert excerpt(" " * 5000 + "x", Fault("", "odd", 1)).splitlines()[1].endswith(" ^")


def test_a_fault_without_a_line_needs_none():
    assert excerpt("a: 1", Fault("name", "is missing")) == ""
    assert excerpt("a: 1", Fault("name", "is missing", 9)) == ""
    assert describe("a: 1", [Fault("name", "is missing"), Fault("a", "odd", 1)]).count("odd") == 1


def test_a_file_with_orders_to_a_terminal_only_shows_them():
    shown = describe('a: 1\nb: "\x1b[2J"\n', [Fault("\x1b]0;b", "must not be \x07\n\u202e", 2, "", "\x9b")])
    assert shown.replace("\n", "").isprintable()
    assert "\\x1b]0;b: must not be \\x07\\x0a\\u202e" in shown


def caret(text: str, fault: Fault) -> tuple[str, str]:
    """Return what stands above the caret, and the marked line, by columns of a terminal."""
    line, marks = job_file.excerpt(text, fault).splitlines()[-2:]
    cells = "".join(one if cell_len(one) == 1 else one + "\0" for one in line)
    return cells[marks.index("^") : marks.rindex("^") + 1].replace("\0", ""), line


@pytest.mark.parametrize(
    ("line", "path", "meant"),
    [
        ("dockername: x, name: y", "prerequisites[0].name", "name"),
        ("\t\tname: y", "name", "name"),
        ("{名前: 値, name: 1}", "a.name", "name"),
        ('"name" : y', "name", "name"),
        ("- run name-of-it", "taskRoles.w.commands[0]", "- run name-of-it"),
        ("rename: 1", "name", "rename: 1"),
        ("x: name", "x.name", "name"),
        ("\x1b[31m name: 1", "name", "name"),
        ("a" * 300 + ", name: 1", "name", "name"),
        ("n: " + "値" * 200, "q.n", "n"),
    ],
)
def test_the_caret_is_under_the_key_that_is_meant(line: str, path: str, meant: str) -> None:
    assert caret(f"first\n{line}", Fault(path, "is odd", 2))[0] == meant


def test_lines_are_counted_as_yaml_counts_them() -> None:
    assert caret("a: 1\x0cb\r\nname: 2", Fault("name", "is odd", 2)) == ("name", "    2 | name: 2")


def test_no_more_of_a_file_is_read_than_a_job_file_may_hold(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert len(job_file.read(str(path))) == MAX_JOB_BYTES + 1
    with pytest.raises(Refused, match="larger than 1024 KiB"):
        read_job(job_file.read(str(path)))


@pytest.mark.parametrize(
    ("name", "message"), [("/dev/urandom", "is a device"), ("/dev/zero", "is a device"), ("/", "is a directory")]
)
def test_what_may_never_end_is_not_read(name: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        job_file.read(name)


def test_a_pipe_is_read_up_to_the_limit(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"yes >{pipe}"], stderr=subprocess.DEVNULL) as endless:
        assert len(job_file.read(str(pipe))) == MAX_JOB_BYTES + 1
    assert endless.returncode

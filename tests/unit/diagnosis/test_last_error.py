"""What is quoted of the logs of failing programs, most of which are run here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openpai.diagnosis.diagnosing import LINES_READ
from openpai.diagnosis.last_error import ErrorKind, LastError, last_error_in
from openpai.diagnosis.log_lines import read_lines
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.model import Diagnosis, ExitReport
from openpai.runtime.script import user_script
from tests.costs import assert_linear
from tests.unit.diagnosis.failing_programs import PYTHON, RECORDED, SHELL, Program

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    work()\n    ^^^^^^\n'
READER = "reader: failed to read the index"


def last_error(tail: str) -> LastError | None:
    return last_error_in(read_lines(tail, LINES_READ))


def diagnosed(command: list[str], directory: Path) -> Diagnosis:
    """Run a program and diagnose it as an observer would."""
    # Not what a version manager puts before it: that takes a second to start.
    path = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, "PATH": path}, capture_output=True, timeout=60, check=False
    )
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return diagnose(ExitReport(code), (done.stdout + done.stderr).decode(errors="replace"))


def check(found: Diagnosis, row: int, quoted: str) -> None:
    assert (found.code, found.matched) == (row, found.matched)
    assert re.fullmatch(quoted, found.matched), found.matched


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_program(name: str, tmp_path: Path) -> None:
    program = PYTHON[name]
    (tmp_path / "train.py").write_text(program.text)
    check(diagnosed([sys.executable, "-S", "train.py"], tmp_path), program.row, program.quoted)


@pytest.mark.parametrize("shell", ["bash", "dash", "busybox"])
@pytest.mark.parametrize("name", SHELL)
def test_a_shell_script(name: str, shell: str, tmp_path: Path) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed here")
    program: Program = SHELL[name]
    (tmp_path / "user.sh").write_text(user_script(program.text))
    command = [found, "sh", "user.sh"] if shell == "busybox" else [found, "user.sh"]
    check(diagnosed(command, tmp_path), program.row, program.quoted)


@pytest.mark.parametrize("name", RECORDED)
def test_a_program_that_was_run_elsewhere(name: str) -> None:
    recorded = RECORDED[name]
    check(diagnose(ExitReport(recorded.exit_code), recorded.log), recorded.row, re.escape(recorded.quoted))


@pytest.mark.parametrize(
    ("tail", "line"),
    [
        (
            f"[rank1]: {TRACEBACK}".replace("\n  ", "\n[rank1]:   ").replace("\n    ", "\n[rank1]:     ")
            + "[rank1]: ValueError: bad rank\n"
            + "E0101 12:00:00.5 7 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1)\n"
            + TRACEBACK
            + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\ntrain.py FAILED\n",
            "ValueError: bad rank",
        ),
        (TRACEBACK + "ConnectionResetError: [Errno 104] Connection reset by peer\n", None),
        (
            TRACEBACK + "KeyError: 'x'\n" + TRACEBACK + "ConnectionResetError: [Errno 104] Connection reset by peer\n",
            "KeyError: 'x'",
        ),
        (TRACEBACK + "KeyError: 'x'\nmake: *** [Makefile:2: train] Error 1\n", "KeyError: 'x'"),
        (TRACEBACK + "KeyError: 'x'\nERROR: the trainer failed\n", "KeyError: 'x'"),
        (TRACEBACK + "KeyError: 'x'\n" + "step\n" * 50 + "ERROR: no data\n", "ERROR: no data"),
        (
            "(worker pid=7) " + TRACEBACK.replace("\n ", "\n(worker pid=7)  ") + "(worker pid=7) KeyError: 1\n",
            "KeyError: 1",
        ),
        ("2026-01-31 12:00:00 ERROR train: no such column\n", "2026-01-31 12:00:00 ERROR train: no such column"),
        # The message begins some lines after its head.
        (
            TRACEBACK + "InvalidArgumentError: Graph execution error:\n\n2 root error(s) found.\n  (0) bad shapes\n",
            "InvalidArgumentError: Graph execution error: (0) bad shapes",
        ),
        (
            TRACEBACK
            + "InvalidArgumentError: Graph execution error:\n\nDetected at node 'x' defined at (most recent call "
            + "last):\n    File \"a.py\", line 1, in f\n      g()\nNode: 'x'\nbad labels\n",
            "InvalidArgumentError: Graph execution error: bad labels",
        ),
        ("Error in fit(x) : \n  no such engine\nExecution halted\n", "Error in fit(x) : no such engine"),
        # What passes on the failure of another program, in the words of compilers, pip and Slurm.
        (
            "/w/a.cu:3: error: no such type\nerror: command 'nvcc' failed with exit code 2\nERROR: Failed to build a\n",
            "/w/a.cu:3: error: no such type",
        ),
        # A logger's level and place in the source before a panic.
        (
            "[2024-11-29 18:44:18,452 E 7 7] (raylet) log.cc:108: Unhandled exception: bad text\nunknown\n",
            "(raylet) log.cc:108: Unhandled exception: bad text",
        ),
        # A launcher's paragraph between rulers; a warning that says that something ended; no ruler.
        (
            f"{'-' * 70}\nmpirun was too busy to start\nthe processes, and gave up as it cannot\n{'-' * 70}\n",
            "mpirun was too busy to start",
        ),
        ("WARN Lost task 0.0 in stage 1.0\nINFO bye\n", "WARN Lost task 0.0 in stage 1.0"),
        ("the end\n======\n", "the end"),
        # A block below a report may say that it only passes on how another process ended.
        (
            "disk sda has no room left\nError in step train:\n    log: t.log\n    the command exited with status 1\n",
            "disk sda has no room left",
        ),
        # The line above a native stack; the first of several complaints; a message that a bare exception follows.
        (
            "the table has 3 columns, of 4\nStack trace:\n  [bt] (0) /x.so(+0x1) [0x7f]\n",
            "the table has 3 columns, of 4",
        ),
        ("ok\nbad header: unknown kind\nthe file could not be read\nok\n", "bad header: unknown kind"),
        ("reader: failed to read the index\n" + TRACEBACK + "AssertionError\n", f"{READER} (then AssertionError)"),
        # Causes that are indented or stand on a line of their own.
        (
            "error: no cache\n  Caused by: mkdir: denied by the host\n",
            "error: no cache (after mkdir: denied by the host)",
        ),
        ("Error: the plan failed\nCaused by:\n    no such table\n", "Error: the plan failed (after no such table)"),
        # Advice, and the code of a shell, name no failure.
        (
            "the quota is exceeded\nPlease check the errors that are known\n  echo failed >> $LOG\n",
            "the quota is exceeded",
        ),
        # What build and container tools put before each line.
        ("#10 3.1 ok\n#10 3.2 E: no package x\n", "E: no package x"),
        ("a\nstderr: KeyError: 'x'\n", "KeyError: 'x'"),
        (TRACEBACK, None),
        ("Traceback (most recent call last):\n", None),
    ],
)
def test_what_counts_of_several_lines(tail: str, line: str | None) -> None:
    found = last_error(tail)
    assert found is not None
    assert found.line == line if line is not None else found.line


@pytest.mark.parametrize(
    "harmless", ["WARNING: /x: No such file or directory", "INFO: cannot use fast path", "loss: 3"]
)
def test_a_harmless_line_is_quoted_as_the_last_one_only(harmless: str) -> None:
    found = last_error(f"{harmless}\n\n")
    assert found is not None
    assert (found.kind, found.line) == (ErrorKind.LAST_LINE, harmless)


def test_of_a_long_line_the_beginning_and_the_end_are_quoted() -> None:
    found = last_error("ValueError: " + "x" * 1000 + " caused by a full disk")
    assert found is not None
    assert len(found.line) == 400
    assert (found.line[:14], found.line[-12:]) == ("ValueError: xx", " a full disk")


def test_a_log_without_a_word_is_reported_as_one() -> None:
    assert last_error("\n\r\n \x1b[0m\n") is None
    assert diagnose(ExitReport(1), "").reason == "The program failed and wrote nothing to its log."


@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "[]",
        "a: ",
        "a.",
        "A",
        "| ",
        "+ ",
        "\x1b[",
        "\r",
        "Error: ",
        "sh: 1: ",
        "x" * 50 + " at ",
        "Assertion `",
        "(a",
    ],
)
@pytest.mark.timeout(60)
def test_a_hostile_log_costs_as_much_as_it_is_long(piece: str) -> None:
    # What a search costs within one line is not counted: one that goes back and forth would outlast the timeout.
    last_error(piece * (65536 // len(piece)))
    last_error(f"Traceback (most recent call last):\n{piece}")
    assert_linear(lambda lines: lambda: last_error(f"{piece * 60}\n" * lines), 200)

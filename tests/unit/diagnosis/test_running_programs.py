"""Programs that fail are run, and the cause that is found in their logs is the right one."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from openpai.diagnosis.diagnosing import find, find_root
from openpai.diagnosis.evidence import Evidence
from tests.unit.diagnosis.running_programs import PROGRAMS, Running

pytestmark = pytest.mark.full
MODULES = {"numpy", "yaml", "torch", "pip"}
PROGRAMS_MIN = 60


def evidence_of(script: str, directory: Path, *, is_mounting: bool = False) -> Evidence:
    """Run a script, and return what it leaves to a diagnosis."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "PY": sys.executable, "FREE": str(port), "HOME": str(directory)}
    command = ["bash", "-c", script]
    if is_mounting:
        command = ["unshare", "--mount", "--propagation", "private", *command]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, timeout=60, check=False)
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Evidence(code, (done.stdout + done.stderr).decode(errors="replace"))


def skip_without(program: Running) -> None:
    for name in program.needs.split():
        if name in MODULES and importlib.util.find_spec(name) is None:
            pytest.skip(
                "no PyTorch" if name == "torch" else f"the Python package {name}, which is run here, is missing"
            )
        if name not in MODULES and shutil.which(name) is None:
            pytest.skip(f"{name} is not installed here")
    if program.is_mounting and os.geteuid() != 0:
        pytest.skip("only root has the rights to mount")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cause_of_a_program_that_fails(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    skip_without(program)
    evidence = evidence_of(program.script, tmp_path, is_mounting=program.is_mounting)
    assert evidence.exit_code != 0
    found = find(evidence)
    cause = found.cause.name if found.cause else "unknown"
    assert cause in program.causes.split(), evidence.log[-2000:]
    assert re.search(program.quoted, found.line), (found.line, evidence.log[-2000:])


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) >= PROGRAMS_MIN


RANK = """
import os, socket, sys
rank = int(sys.argv[1])
if rank == 0:
    server = socket.create_server(('127.0.0.1', int(sys.argv[2])))
    ranks = [server.accept()[0] for _ in range(3)]
    for each in ranks:
        each.recv(1)
    FAIL
peer = socket.socket()
while peer.connect_ex(('127.0.0.1', int(sys.argv[2]))):
    peer.close()
    peer = socket.socket()
peer.send(b'ready')
if not peer.recv(1):
    raise ConnectionResetError(104, 'Connection reset by peer')
"""


@pytest.mark.parametrize(
    ("fail", "cause"),
    [
        ("{}['shard']", "type_or_key_error"),
        ("os.kill(os.getpid(), 11)", "segfault"),
        ("open('/no/a')", "file_not_found"),
    ],
)
def test_a_rank_that_dies_while_the_others_wait(fail: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(RANK.replace("FAIL", fail))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-S", "rank.py", str(rank), port],
            cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for rank in range(4)
    ]  # fmt: skip
    ends = []
    for rank in ranks:
        log = rank.communicate(timeout=60)[0]
        code = rank.returncode if rank.returncode >= 0 else 128 - rank.returncode
        ends.append(Evidence(code, log, ended_at_ms=1000))
    assert find_root(list(reversed(ends))) == len(ends) - 1
    found = find(ends[0]).cause
    assert found is not None
    assert found.name == cause

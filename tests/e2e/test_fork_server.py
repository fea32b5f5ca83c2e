"""What the tests start ends with them, however they end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.server import ROOT, until

KILLED = """
import json, os, signal, sys
from pathlib import Path
from tests.e2e.server import Server

assert Server.start(Path(sys.argv[1])).end() == 0
server = Server.start(Path(sys.argv[1]))
print(Path(f"/proc/self/task/{os.getpid()}/children").read_text(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_servers_end_with_tests_that_are_killed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    processes = done.stdout.split()
    assert len(processes) == 2, done.stderr
    until(lambda: not any(map(_runs, processes)), "the server and what started it end")


def _runs(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

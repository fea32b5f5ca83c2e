"""What the processes of a task that hangs do, from /proc and from py-spy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from openpai.backends.host.stacks import PROCESSES_MAX, stacks_of


def test_a_stopped_process_says_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\necho \"Thread 1: train (train.py:7) $*\"; printf '\\033[2J'\n")
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with (
        subprocess.Popen(["sleep", "60"]) as sleeps,
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stops,
    ):
        try:
            stops.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, stops.pid, os.WSTOPPED)
            text, summary = stacks_of([sleeps.pid, stops.pid, 2**22 + 1])
        finally:
            sleeps.kill()
            stops.kill()
    assert summary.startswith(f"process {stops.pid} (")
    assert "is stopped" in summary
    assert f"process {sleeps.pid} (sleep 60) is sleeping" in text
    assert f"Thread 1: train (train.py:7) dump --nonblocking --pid {stops.pid}" in text
    assert "\x1b" not in text


def test_a_thousand_processes_are_not_all_described() -> None:
    text, _ = stacks_of([os.getpid()] * 1000)
    assert text.count(f"process {os.getpid()} ") == PROCESSES_MAX
    assert f"and {1000 - PROCESSES_MAX} more processes" in text
    assert stacks_of([]) == ("", "")

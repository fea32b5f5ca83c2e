"""What the processes of a task that hangs do, from /proc and from py-spy."""

from __future__ import annotations

import os
import re
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
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reads,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stops,
    ):
        try:
            # /proc names a new program only some time after it was started.
            assert reads.stdin
            assert reads.stdout
            assert stops.stdout
            reads.stdin.write(b"x\n")
            reads.stdin.flush()
            assert reads.stdout.readline() == b"x\n"
            assert stops.stdout.readline() == b"\n"
            stops.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, stops.pid, os.WSTOPPED)
            text, summary = stacks_of([reads.pid, stops.pid, 2**22 + 1])
        finally:
            reads.kill()
            stops.kill()
    assert summary.text.startswith(f"process {stops.pid} (")
    assert "is stopped" in summary.text
    assert re.search(rf"process {reads.pid} \(cat\) is (sleeping|running)", text)
    assert f"Thread 1: train (train.py:7) dump --nonblocking --pid {stops.pid}" in text
    assert "\x1b" not in text


def test_a_thousand_processes_are_not_all_described() -> None:
    text, _ = stacks_of([os.getpid()] * 1000)
    assert text.count(f"process {os.getpid()} ") == PROCESSES_MAX
    assert f"and {1000 - PROCESSES_MAX} more processes" in text
    assert stacks_of([]) == ("", ("", ""))

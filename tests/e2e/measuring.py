"""Runs a measurement as `python -m bench.NAME OPTIONS` does, in a process that has imported the platform already."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import IO, Any

from bench import server
from openpai.app.main import run


class _Copy(subprocess.Popen[bytes]):
    """`pai` in a copy of this process: of a server that starts, most is the import of what is imported here."""

    def __init__(self, command: Sequence[str], *, stdout: IO[bytes], env: Mapping[str, str], **_: Any) -> None:
        self._words, self._log, self._env = list(command[1:]), stdout, env
        super().__init__(command)

    def _execute_child(self, *_: Any, **__: Any) -> None:
        self.pid = os.fork()
        self._child_created = True
        if not self.pid:
            try:
                self._run()
            finally:
                os._exit(70)

    def _run(self) -> None:
        os.setsid()
        for stream in (1, 2):
            os.dup2(self._log.fileno(), stream)
        # What this process talks over stays its own.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(self._env)
        sys.argv = ["pai", *self._words]
        run()


def _started(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start `pai` as a copy, and any other program as it is."""
    made: subprocess.Popen[bytes] = (_Copy if command[0] == server._PAI else subprocess.Popen)(command, **options)
    return made


def main() -> None:
    """Run the measurement that the first word names; the others are its options."""
    name = sys.argv.pop(1)
    # One of them starts `pai` as everybody does.
    if name != "throughput":
        server.subprocess = SimpleNamespace(Popen=_started, TimeoutExpired=subprocess.TimeoutExpired)  # type: ignore[assignment]
    runpy.run_module(f"bench.{name}", run_name="__main__", alter_sys=True)

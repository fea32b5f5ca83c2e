"""Lets the process backend sit the contract suite: real shells, real files, real signals on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

from openpai.app.clock import SystemClock
from openpai.backends.host.directory import TaskDirectory
from openpai.backends.process.backend import ProcessBackend
from openpai.backends.process.cgroups import find_home
from openpai.backends.process.memory import MemoryLimits
from openpai.backends.process.processes import marked
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend
from tests.contracts.harness import Harness, Programs


class ShellPrograms(Programs):
    """A program that is resumed finds the file `resume` beside its own working directory."""

    def runs_until_resumed(self, code: int) -> str:
        return f"while [ ! -e ../resume ]; do sleep 0.02; done\nexit {code}"


class ProcessHarness(Harness):
    """A process backend over a directory of its own, with four pretended devices."""

    programs = ShellPrograms()

    @classmethod
    def why_not(cls) -> str | None:
        if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
            return "the process backend needs Linux with pidfds"
        return None

    def make(self) -> Backend:
        return ProcessBackend(self.root, self.logs, SystemClock(), gpus_per_node=4, keeps_work=self.keeps_work)

    async def start(self) -> Backend:
        # Shells read no files of whoever runs the tests.
        home = self.root.parent / "home"
        home.mkdir(exist_ok=True)
        with patch.dict(os.environ, HOME=str(home)):
            return await super().start()

    async def destroy(self) -> None:
        await self.stop()
        await self.until(lambda: _are_gone(str(self.root)))
        home = find_home(str(self.root))
        if home is not None:
            # Attempts that a test did not forget have kept their cgroups.
            left = MemoryLimits(home)
            await self.until(left.vacate_all)
            left.close()

    async def resume(self, key: AttemptKey) -> None:
        Path(self._directory(key), "resume").touch()  # noqa: ASYNC240

    async def until_begun(self, key: AttemptKey) -> None:
        directory = TaskDirectory(str(self.root), key)
        await self.until(lambda: (ticket := directory.ticket()) is not None and ticket.pid is not None)

    def processes(self, key: AttemptKey) -> int:
        directory = self._directory(key)
        return sum(stray.directory == directory for stray in marked(str(self.root)))

    def _directory(self, key: AttemptKey) -> str:
        return TaskDirectory(str(self.root), key).path


def _are_gone(root: str) -> bool:
    """Kill what is left of all tasks and return whether nothing was."""
    left = marked(root)
    for stray in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stray.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(stray.pid, os.WNOHANG)
    return not left

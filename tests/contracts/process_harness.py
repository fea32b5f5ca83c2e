"""Lets the process backend sit the contract suite: real shells, real files, real signals on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from openpai.app.world import SystemClock
from openpai.backends.host.directory import TaskDirectory
from openpai.backends.process.backend import ProcessBackend
from openpai.backends.process.cgroups import find_home
from openpai.backends.process.memory import MemoryLimits
from openpai.backends.process.processes import marked
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend

_LOOK_EVERY_S = 0.01
_PATIENCE_S = 20.0


class ShellPrograms:
    """Programs as shell text. A program that is told finds the file `told` beside its own working directory."""

    def exits(self, code: int) -> str:
        return f"exit {code}"

    def waits(self) -> str:
        return "echo ready\nsleep 1000"

    def waits_to_be_told(self, code: int) -> str:
        return f"while [ ! -e ../told ]; do sleep 0.02; done\nexit {code}"

    def saves_on_term(self, code: int) -> str:
        return f"trap 'echo saved; exit {code}' TERM\necho ready\nwhile :; do sleep 0.05; done"

    def ignores_term(self) -> str:
        return "trap '' TERM\necho ready\nwhile :; do sleep 0.05; done"


class ProcessHarness:
    """A process backend over a directory of its own, with four pretended devices."""

    runs_shell = True
    programs = ShellPrograms()
    image = "none"

    def __init__(self, directory: Path) -> None:
        self.root = directory / "tasks"
        self.logs = directory / "logs"
        self.node = ""
        self._backend: ProcessBackend | None = None

    @classmethod
    def why_not(cls) -> str | None:
        if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
            return "the process backend needs Linux with pidfds"
        return None

    async def start(self) -> Backend:
        backend = ProcessBackend(self.root, self.logs, SystemClock(), gpus_per_node=4)
        await backend.open()
        self._backend = backend
        self.node = (await backend.nodes())[0].name
        return backend

    async def stop(self) -> None:
        if self._backend is not None:
            backend, self._backend = self._backend, None
            await backend.close()

    async def crash(self) -> None:
        # Closing writes nothing and tells no task anything, so in one process it is all that can be taken away;
        # a server that is really killed is tested beside the other integration tests.
        await self.stop()

    async def destroy(self) -> None:
        await self.stop()
        await _until(lambda: _are_gone(str(self.root)))
        home = find_home(str(self.root))
        if home is not None:
            # Attempts that a test did not forget have kept their cgroups.
            left = MemoryLimits(home)
            await _until(left.vacate_all)
            left.close()

    async def tell(self, key: AttemptKey) -> None:
        os.close(os.open(f"{_directory(self.root, key)}/told", os.O_CREAT | os.O_WRONLY))

    async def until_said(self, key: AttemptKey, text: str) -> None:
        await _until(lambda: text in self.output(key))

    async def until_gone(self, key: AttemptKey) -> None:
        await _until(lambda: self.processes(key) == 0)

    def output(self, key: AttemptKey) -> str:
        path = Path(self.logs, key.path(), "stdout.log")
        return path.read_text() if path.exists() else ""

    def processes(self, key: AttemptKey) -> int:
        directory = _directory(self.root, key)
        return sum(stray.directory == directory for stray in marked(str(self.root)))


def _directory(root: Path, key: AttemptKey) -> str:
    return TaskDirectory(str(root), key).path


def _are_gone(root: str) -> bool:
    """Kill what is left of all tasks and return whether nothing was."""
    left = marked(root)
    for stray in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stray.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(stray.pid, os.WNOHANG)
    return not left


async def _until(is_so: Callable[[], bool]) -> None:
    # What another process does to a file raises no event here.
    async with asyncio.timeout(_PATIENCE_S):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_EVERY_S)

"""What a backend must bring along to sit the contract suite: a way to be opened again, and a few programs.

The suite never says how a program is written, because a simulated machine runs no shell: it asks the harness for the
text of "exit with 3" or "print hello and wait", launches that, and looks at what the backend reports. To join, a
backend adds one line to `HARNESSES` and a class made of `Harness`; what it cannot do on this machine it says
in `why_not`, and the suite skips with that sentence.
"""

from __future__ import annotations

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import pytest

from openpai.backends.host.directory import KEPT
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend

HARNESSES: Final = {
    "process": "tests.contracts.process_harness:ProcessHarness",
    "simulated": "tests.contracts.simulated_harness:SimulatedHarness",
    "docker": "tests.contracts.docker_harness:DockerHarness",
    "kubernetes": "tests.contracts.kubernetes_harness:KubernetesHarness",
    "kubernetes on a node": "tests.contracts.kubernetes_node_harness:KubernetesNodeHarness",
}
"""Where the harness of each backend lives; its class is made with one argument, an empty directory."""

_LOOK_EVERY_S: Final = 0.01
_PATIENCE_S: Final = 90.0


class Programs(ABC):
    """The text of `LaunchTask.commands` for each thing a test wants a task to do; here as a shell wants it."""

    def exits(self, code: int) -> str:
        """End at once with `code`."""
        return f"exit {code}"

    def waits(self) -> str:
        """Print `ready`, then run for ever; end with any code on SIGTERM."""
        return "echo ready\nsleep 1000"

    @abstractmethod
    def runs_until_resumed(self, code: int) -> str:
        """Run until `Harness.resume` is called for this attempt, then end with `code`."""

    def saves_on_term(self, code: int) -> str:
        """Print `ready` and run for ever; on SIGTERM print `saved` and end with `code`."""
        return f"trap 'echo saved; exit {code}' TERM\necho ready\nwhile :; do sleep 0.05; done"

    def ignores_term(self) -> str:
        """Print `ready` and run for ever whatever SIGTERM says."""
        return "trap '' TERM\necho ready\nwhile :; do sleep 0.05; done"


class Harness(ABC):
    """One backend over one world of its own: a node with at least two devices, and no task yet."""

    runs_shell = True
    """Whether commands are shell text run by real processes that write real logs."""
    has_shells = True
    """Whether users can run commands in its tasks."""
    programs: Programs
    image = "none"
    keeps_work = False
    """Whether the backends that are made keep what tasks leave, in `kept`."""
    measures = True
    """Whether a backend that can measure has containers to measure."""
    merges_streams = False
    """Whether standard error is in the log of standard output, because the system does not keep them apart."""
    cpus = 64
    many = 50
    """How many tasks at once prove that there may be many."""
    """How many processors tasks can have at the same time."""

    @classmethod  # noqa: B027  # most harnesses need nothing
    def prepare(cls, request: pytest.FixtureRequest) -> None:
        """Take what the tests of this process share, from its fixture."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "tasks"
        self.logs = directory / "logs"
        self.node = ""
        """Name of a node with at least two devices, `cpus` CPUs to give away, and room for 50 small tasks."""
        self._backend: Backend | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.destroy()

    @classmethod
    def why_not(cls) -> str | None:
        """Return why this backend cannot be tested on this machine, or None."""
        return None

    @property
    def kept(self) -> Path:
        """Return the directory with what tasks left."""
        return self.root / KEPT

    @abstractmethod
    def make(self) -> Backend:
        """Return another backend over this world, not open yet."""

    async def start(self) -> Backend:
        """Return an open backend over this world; a second call after `stop` or `crash` finds the world as it is."""
        backend = self.make()
        await backend.open()
        self._backend = backend
        self.node = (await backend.nodes())[0].name
        return backend

    async def stop(self) -> None:
        """Close the backend as a server does that ends politely."""
        if self._backend is not None:
            backend, self._backend = self._backend, None
            await backend.close()

    async def crash(self) -> None:
        """Let the backend vanish as by kill -9 of the server."""
        # Closing writes nothing and signals no task, so in one process it is all that can be taken away;
        # a server that is really killed is tested beside the other integration tests.
        await self.stop()

    async def destroy(self) -> None:
        """End every task that is left and give everything back. Called once, whatever state the test left."""
        await self.stop()

    @abstractmethod
    async def resume(self, key: AttemptKey) -> None:
        """Let the attempt whose program is `runs_until_resumed` end, whether or not a backend is open."""

    async def until_begun(self, key: AttemptKey) -> None:  # noqa: B027  # most backends report no earlier that it runs
        """Wait until a running attempt is found running by a backend that starts now."""

    async def until_printed(self, key: AttemptKey, text: str) -> None:
        """Wait until the attempt has written `text` to its standard output (or would have)."""
        await self.until(lambda: text in self.output(key))

    async def until_gone(self, key: AttemptKey) -> None:
        """Wait until the attempt's own program has ended, whether or not a backend is open."""
        await self.until(lambda: self.processes(key) == 0)

    def output(self, key: AttemptKey) -> str:
        """Return what the attempt wrote to its standard output, also after it was forgotten."""
        path = Path(self.logs, key.path(), "stdout.log")
        return path.read_text() if path.exists() else ""

    @abstractmethod
    def processes(self, key: AttemptKey) -> int:
        """Return how many processes of the attempt are alive now."""

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so in this world."""
        # What another process does to a file raises no event here.
        async with asyncio.timeout(_PATIENCE_S):
            while not is_so():  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_EVERY_S)


def harness_for(name: str) -> tuple[type[Harness] | None, str]:
    """Return the class of the harness called `name` and why it cannot be used (empty when it can)."""
    module_name, class_name = HARNESSES[name].split(":")
    try:
        cls: type[Harness] = getattr(importlib.import_module(module_name), class_name)
    except ModuleNotFoundError as missing:
        if missing.name != module_name:
            return None, f"the {name} backend needs the package {missing.name!r}, which is not installed"
        return None, f"the {name} backend has no harness yet"
    return cls, cls.why_not() or ""


def needs_shell(harness: Harness) -> None:
    """Skip the test on a backend that runs no shell."""
    if not harness.runs_shell:
        pytest.skip(f"{type(harness).__name__} runs no shell")


def processes_with_mount(marker: str) -> int:
    """Return how many processes here have a text in their mounts: a container's name its directory on this machine."""
    return sum(marker in _mounts(process) for process in Path("/proc").glob("[0-9]*"))


def _mounts(process: Path) -> str:
    try:
        return (process / "mountinfo").read_text()
    except OSError:
        return ""

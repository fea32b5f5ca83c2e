"""Lets the docker backend sit the contract suite: real containers of a real Engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from openpai.app.world import SystemClock
from openpai.backends.docker.backend import DockerBackend
from openpai.backends.docker.containers import ROOT_LABEL, name_of
from openpai.backends.docker.engine import Engine, NoContainer
from openpai.backends.host.directory import TaskDirectory
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend
from tests.integration.docker_engine import IMAGE, engine

_LOOK_EVERY_S = 0.02
_PATIENCE_S = 20.0


class ContainerPrograms:
    """Programs as shell text. A program that is told finds the file `told` in its task directory."""

    def exits(self, code: int) -> str:
        return f"exit {code}"

    def waits(self) -> str:
        return "echo ready\nsleep 1000"

    def waits_to_be_told(self, code: int) -> str:
        return f"while [ ! -e /usr/local/pai/told ]; do sleep 0.02; done\nexit {code}"

    def saves_on_term(self, code: int) -> str:
        return f"trap 'echo saved; exit {code}' TERM\necho ready\nwhile :; do sleep 0.05; done"

    def ignores_term(self) -> str:
        return "trap '' TERM\necho ready\nwhile :; do sleep 0.05; done"


class DockerHarness:
    """A docker backend over a directory of its own, with four pretended devices."""

    runs_shell = True
    programs = ContainerPrograms()
    image = IMAGE

    def __init__(self, directory: Path) -> None:
        self.root = directory / "tasks"
        self.logs = directory / "logs"
        self.node = ""
        self.url, _ = engine()
        self._backend: DockerBackend | None = None

    @classmethod
    def why_not(cls) -> str | None:
        return engine()[1] or None

    async def start(self) -> Backend:
        backend = DockerBackend(self.root, self.logs, SystemClock(), url=self.url, gpus_per_node=4)
        await backend.open()
        self._backend = backend
        self.node = (await backend.nodes())[0].name
        return backend

    async def stop(self) -> None:
        if self._backend is not None:
            backend, self._backend = self._backend, None
            await backend.close()

    async def crash(self) -> None:
        # Closing writes nothing and tells no container anything, so in one process it is all that can be taken away;
        # a server that is really killed is tested beside the other integration tests.
        await self.stop()

    async def destroy(self) -> None:
        backend = self._backend or await self.start()
        asked = Engine(self.url)
        try:
            # What the tests started carries the label of this root.
            for name in await asked.names(f"{ROOT_LABEL}={backend._scope}"):  # type: ignore[attr-defined]
                await asked.remove(name)
        finally:
            await asked.close()
            await self.stop()

    async def tell(self, key: AttemptKey) -> None:
        _touch(Path(TaskDirectory(str(self.root), key).path, "told"))

    async def until_said(self, key: AttemptKey, text: str) -> None:
        async def is_said() -> bool:
            return text in self.output(key)

        await _until(is_said)

    async def until_gone(self, key: AttemptKey) -> None:
        asked = Engine(self.url)

        async def is_gone() -> bool:
            try:
                return (await asked.inspect(name_of(key))).status != "running"
            except NoContainer:
                return True

        try:
            await _until(is_gone)
        finally:
            await asked.close()

    def output(self, key: AttemptKey) -> str:
        path = Path(self.logs, key.path(), "stdout.log")
        return path.read_text() if path.exists() else ""

    def processes(self, key: AttemptKey) -> int:
        marker = f"/{Path(TaskDirectory(str(self.root), key).path).name} /usr/local/pai "
        return sum(marker in _mounts(process) for process in Path("/proc").glob("[0-9]*"))


def _touch(path: Path) -> None:
    path.touch()


def _mounts(process: Path) -> str:
    # A container's mounts name the directory on this machine that lies at the task directory's place.
    try:
        return (process / "mountinfo").read_text()
    except OSError:
        return ""


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    # What another process does to a file raises no event here.
    async with asyncio.timeout(_PATIENCE_S):
        while not await is_so():  # noqa: ASYNC110  # see above
            await asyncio.sleep(_LOOK_EVERY_S)

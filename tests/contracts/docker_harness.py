"""Lets the docker backend sit the contract suite: real containers of a real Engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from openpai.app.clock import SystemClock
from openpai.backends.docker.backend import DockerBackend
from openpai.backends.docker.containers import ROOT_LABEL, name_of
from openpai.backends.docker.engine import Engine, NoContainer
from openpai.backends.host.directory import TaskDirectory
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend
from tests.contracts.harness import Harness, Programs, processes_with_mount
from tests.integration.docker_engine import IMAGE, engine

_LOOK_EVERY_S: Final = 0.02
_PATIENCE_S: Final = 90.0


class ContainerPrograms(Programs):
    """A program that is resumed finds the file `resume` in its task directory."""

    def runs_until_resumed(self, code: int) -> str:
        return f"while [ ! -e /usr/local/pai/resume ]; do sleep 0.02; done\nexit {code}"


class DockerHarness(Harness):
    """A docker backend over a directory of its own, with four pretended devices."""

    programs = ContainerPrograms()
    image = IMAGE
    # A container takes an Engine half a second of processor time.
    many = 10

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.url, _ = engine()

    @classmethod
    def why_not(cls) -> str | None:
        return engine()[1] or None

    def make(self) -> Backend:
        return DockerBackend(
            self.root, self.logs, SystemClock(), url=self.url, gpus_per_node=4, keeps_work=self.keeps_work
        )

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

    async def resume(self, key: AttemptKey) -> None:
        Path(TaskDirectory(str(self.root), key).path, "resume").touch()  # noqa: ASYNC240

    async def until_gone(self, key: AttemptKey) -> None:
        asked = Engine(self.url)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while await _runs(asked, key):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            await asked.close()

    def processes(self, key: AttemptKey) -> int:
        # The whole path below the mount of its disk: the suites that run beside this one use the same job name.
        directory = Path(TaskDirectory(str(self.root), key).path).resolve()
        disk = next(place for place in directory.parents if place.is_mount())
        marker = f" /{directory.relative_to(disk)} /usr/local/pai "
        return processes_with_mount(marker)


async def _runs(asked: Engine, key: AttemptKey) -> bool:
    try:
        return (await asked.inspect(name_of(key))).status == "running"
    except NoContainer:
        return False

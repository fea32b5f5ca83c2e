"""Short ways to launch, kill and wait in a contract test."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from openpai.lifecycle.model import AttemptKey, ExitReport
from openpai.ports.backend import Backend, ForgetTask, LaunchTask, TaskSeen
from tests.contracts.harness import Harness

PATIENCE_S = 90.0
"""How long to wait for what comes in a moment: longer than any machine is busy, and less than the grace of a task."""


def a_key(index: int = 0, *, attempt: int = 0, role: str = "Worker_A") -> AttemptKey:
    """Return the name of one attempt; role names with capitals and underscores are legal, so tests use one."""
    return AttemptKey("0123456789abcdef0123456789abcdef", 0, role, index, attempt)


def a_launch(harness: Harness, key: AttemptKey, commands: str, **rest: Any) -> LaunchTask:
    """Return a launch that asks for little; `rest` overrides any field."""
    fields: Mapping[str, Any] = {
        "grant": 1,
        "node": harness.node,
        "devices": (),
        "cpus": 1,
        "memory_mb": 64,
        "image": harness.image,
        "grace_s": 300.0,
        "shm_mb": 64,
        **rest,
    }
    return LaunchTask(key=key, commands=commands, **fields)


class Watch:
    """Collects what a backend reports, as the platform would: it only ever reads `news`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.seen: dict[AttemptKey, TaskSeen] = {}

    async def until_over(self, *keys: AttemptKey, patience_s: float = PATIENCE_S) -> list[ExitReport]:
        """Return the exit reports of `keys` once news has brought all of them."""
        async with asyncio.timeout(patience_s):
            while not all(self._exit(key) for key in keys):
                await self._hear()
        return [report for key in keys if (report := self._exit(key))]

    async def until_running(self, *keys: AttemptKey, patience_s: float = PATIENCE_S) -> None:
        """Return once news has brought every one of `keys`, running."""
        async with asyncio.timeout(patience_s):
            while not all(self._has_begun(key) for key in keys):
                await self._hear()

    def _has_begun(self, key: AttemptKey) -> bool:
        seen = self.seen.get(key)
        return seen is not None and (seen.started_at_ms is not None or seen.exit is not None)

    async def _hear(self) -> None:
        for seen in await self._backend.news():
            self.seen[seen.key] = seen

    def _exit(self, key: AttemptKey) -> ExitReport | None:
        seen = self.seen.get(key)
        return seen.exit if seen else None


async def ran(harness: Harness, commands: str, **rest: Any) -> ExitReport:
    """Launch an attempt on the open backend of the harness, or on one opened for it; return how it ended."""
    backend = harness._backend or await harness.start()
    await backend.apply([a_launch(harness, a_key(), commands, **rest)])
    (report,) = await Watch(backend).until_over(a_key())
    return report


async def observed(backend: Backend, key: AttemptKey) -> TaskSeen | None:
    """Return how the backend sees one attempt now."""
    return next((seen for seen in await backend.observe() if seen.key == key), None)


async def forget(backend: Backend, *keys: AttemptKey) -> None:
    """Report to the backend that the end of these attempts is saved."""
    await backend.apply([ForgetTask(key) for key in keys])

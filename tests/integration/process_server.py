"""A server with nothing but the process backend, in a process of its own, which a test kills."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import structlog

from openpai.app.clock import SystemClock
from openpai.backends.process.backend import ProcessBackend
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import LaunchTask


async def _serve(directory: Path, job: str, role: str, first: int, count: int, commands: str) -> None:
    backend = ProcessBackend(directory / "tasks", directory / "logs", SystemClock(), gpus_per_node=4)
    await backend.open()
    node = (await backend.nodes())[0].name
    for index in range(first, first + count):
        await backend.apply([LaunchTask(AttemptKey(job, 0, role, index, 0), 1, node, (), 1, 1, "none", commands)])
        print(index, flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Launch tasks, say the number of each, and wait; nothing else is printed."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    directory, job, role, first, count, commands = sys.argv[1:]
    asyncio.run(_serve(Path(directory), job, role, int(first), int(count), commands))

"""A task that somebody stopped with SIGSTOP ends like any other."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from openpai.backends.host.directory import TaskDirectory
from openpai.ports.backend import KillTask
from openpai.runtime.script import Ticket
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import Watch, a_key, a_launch


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    """Give an empty world, and leave no process of it."""
    why_not = ProcessHarness.why_not()
    if why_not:
        pytest.skip(why_not)
    made = ProcessHarness(tmp_path)
    try:
        yield made
    finally:
        await made.destroy()


@pytest.mark.parametrize("whom", ["wrapper", "group"])
async def test_a_stopped_task_ends_as_soon_as_any_other(world: ProcessHarness, whom: str) -> None:
    key = a_key()
    backend = await world.start()
    watch = Watch(backend)
    await backend.apply([a_launch(world, key, "echo up; sleep 600")])
    await world.until_said(key, "up")
    ticket = Ticket.parse((Path(TaskDirectory(str(world.root), key).path) / "ticket").read_text())
    assert ticket is not None
    wrapper = ticket.pid
    assert wrapper is not None
    if whom == "group":
        os.killpg(wrapper, signal.SIGSTOP)
    else:
        os.kill(wrapper, signal.SIGSTOP)
    # Nothing but its own end ends the task within this test.
    await backend.apply([KillTask(key, 600.0)])
    (report,) = await watch.until_over(key, patience_s=20)
    assert report.code == 143

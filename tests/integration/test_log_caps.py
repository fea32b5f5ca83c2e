"""A real task that writes without end, on each backend that runs shells: its log stays small, whole at both ends."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from openpai.app.disk_guard import RoomGuard
from openpai.ports.backend import Action, TaskSeen
from tests.contracts.harness import Harness
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import a_key, ran

MIB = 1 << 20
CAP = 8 * MIB
LINES = 1600
WRITES = f"""x=0123456789abcdef
while [ ${{#x}} -lt 65000 ]; do x=$x$x; done
echo first
i=0
while [ $i -lt {LINES} ]; do echo $x; echo $x >&2; i=$((i + 1)); done
echo last
exit 3
"""


@pytest_asyncio.fixture(params=["process", "docker"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    """Give an empty world of a backend."""
    kind: type[Harness] = ProcessHarness
    if request.param == "docker":
        if find_spec("aiodocker") is None:
            pytest.skip("the docker backend needs the package 'aiodocker', which is not installed")
        from tests.contracts.docker_harness import DockerHarness

        kind = DockerHarness
    why_not = kind.why_not()
    if why_not:
        pytest.skip(why_not)
    async with kind(tmp_path) as made:
        yield made


async def test_logs_are_cut_while_the_event_loop_is_busy(tmp_path: Path) -> None:
    """A thread does it: with a loop that answers late, a task would write gigabytes beyond its limit."""
    logs = tmp_path / a_key().path()
    logs.mkdir(parents=True)

    async def observe() -> list[TaskSeen]:
        return [TaskSeen(a_key(), 1, started_at_ms=1)]

    guard = RoomGuard(tmp_path, tmp_path, CAP, observe, threading.Event())
    guarding = asyncio.create_task(guard.run())
    most, chunk = 0, b"x" * MIB
    try:
        # Its first round says which logs there are.
        while not guard._writing:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with (logs / "stdout.log").open("ab", buffering=0) as file:
            for _ in range(64):
                file.write(chunk)
                time.sleep(0.02)  # noqa: ASYNC251  # the loop is busy
                most = max(most, os.fstat(file.fileno()).st_blocks * 512)
    finally:
        guarding.cancel()
        guard.close()
    assert most < 32 * MIB


async def test_the_log_of_a_task_that_writes_without_end_stays_small(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await harness.start()
    apply, may_have_tasks = backend.apply, threading.Event()

    async def announced(actions: Sequence[Action]) -> None:
        # As the leader does it.
        may_have_tasks.set()
        await apply(actions)

    monkeypatch.setattr(backend, "apply", announced)
    guard = RoomGuard(harness.logs, harness.logs, CAP, backend.observe, may_have_tasks)
    guarding = asyncio.create_task(guard.run())
    try:
        report = await ran(harness, WRITES)
        await guard.round(is_scarce=False)
    finally:
        guarding.cancel()
        guard.close()
    assert report.code == 3
    logs = harness.logs / a_key().path()
    assert sum(file.stat().st_blocks * 512 for file in logs.iterdir()) <= CAP
    stdout = logs / "stdout.log"
    # The program noticed nothing: the file is as long as what it wrote.
    assert stdout.stat().st_size == LINES * (65536 + 1) + len("first\nlast\n")
    with stdout.open("rb") as file:
        assert file.read(22) == b"first\n0123456789abcdef"
        file.seek(-22, 2)
        assert file.read() == b"0123456789abcdef\nlast\n"

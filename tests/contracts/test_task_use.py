"""A backend that measures its tasks reports what each uses, whether it is stopped, and its progress."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from openpai.ports.backend import Backend, KillTask
from openpai.ports.task_usage import KeepsEvidence, MeasuresTasks, TaskSample
from openpai.runtime.progress import Progress
from tests.contracts.harness import Harness
from tests.contracts.seen import Watch, a_key, a_launch

REPORTS = """
echo "120/1000 loss=0.25" >"$PAI_PROGRESS_FILE"
n=0
while [ $n -lt 200000 ]; do n=$((n + 1)); done
echo up
while :; do sleep 0.05; done
"""


async def sample_of(backend: Backend) -> TaskSample:
    assert isinstance(backend, MeasuresTasks)
    async with asyncio.timeout(60):
        while not (found := await backend.measure()):  # noqa: ASYNC110  # a cgroup has no events
            await asyncio.sleep(0.05)
    (sample,) = found
    return sample


async def test_what_a_task_uses_and_reports(harness: Harness) -> None:
    backend = await harness.start()
    if not isinstance(backend, MeasuresTasks) or not harness.measures:
        pytest.skip(f"{type(harness).__name__} does not measure its tasks")
    assert await backend.measure() == ()
    watch = Watch(backend)
    await backend.apply([a_launch(harness, a_key(), REPORTS)])
    await harness.until_printed(a_key(), "up")
    await watch.until_running(a_key())
    sample = await sample_of(backend)
    assert sample.key == a_key()
    assert sample.counters.cpu_s > 0.05
    assert sample.memory_bytes > 0
    assert (sample.processes > 0, sample.stopped) == (True, 0)
    assert sample.progress == Progress(120, 1000, {"loss": 0.25})
    assert 0 < sample.progress_at_ms <= sample.at_ms
    await backend.apply([KillTask(a_key(), 0.0)])
    await watch.until_over(a_key())
    assert await backend.measure() == ()


def noted(harness: Harness) -> str:
    log = Path(harness.logs, a_key().path(), "runtime.log")
    return log.read_text().partition("what its processes do now:")[2]


STOPS_ITSELF = """
sh -c 'echo down; kill -STOP $$' &
while :; do sleep 0.05; done
"""


async def test_a_stopped_process_is_counted_and_its_stack_kept(harness: Harness) -> None:
    backend = await harness.start()
    if not (isinstance(backend, MeasuresTasks) and isinstance(backend, KeepsEvidence) and harness.measures):
        pytest.skip(f"{type(harness).__name__} does not measure its tasks")
    watch = Watch(backend)
    await backend.apply([a_launch(harness, a_key(), STOPS_ITSELF)])
    await harness.until_printed(a_key(), "down")
    await watch.until_running(a_key())
    async with asyncio.timeout(60):
        while (await sample_of(backend)).stopped != 1:  # noqa: ASYNC110  # a process has no events
            await asyncio.sleep(0.05)
    found = await backend.keep_stacks([a_key()])
    assert "is stopped" in found[a_key()].text
    assert "is stopped" in noted(harness)
    assert await backend.keep_stacks([]) == {}
    await backend.apply([KillTask(a_key(), 0.0)])
    await watch.until_over(a_key())

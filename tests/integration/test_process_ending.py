"""How tasks end: stopped ones with SIGSTOP, ones that fill the disk, and ones that leave something behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.host.directory import TaskDirectory
from openpai.backends.process.backend import ProcessBackend
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.model import ExitReason
from openpai.ports.backend import KillTask, LaunchTask
from openpai.runtime.script import Ticket
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import Watch, a_key, a_launch, forget


@pytest.mark.parametrize("stopped", ["wrapper", "group"])
async def test_a_stopped_task_ends_as_soon_as_any_other(host: ProcessHarness, stopped: str) -> None:
    key = a_key()
    backend = await host.start()
    watch = Watch(backend)
    await backend.apply([a_launch(host, key, "echo up; sleep 600")])
    await host.until_printed(key, "up")
    ticket = Ticket.parse((Path(TaskDirectory(str(host.root), key).path) / "ticket").read_text())
    assert ticket is not None
    wrapper = ticket.pid
    assert wrapper is not None
    if stopped == "group":
        os.killpg(wrapper, signal.SIGSTOP)
    else:
        os.kill(wrapper, signal.SIGSTOP)
    # Nothing but its own end ends the task within this test.
    await backend.apply([KillTask(key, 600.0)])
    (report,) = await watch.until_over(key)
    assert report.code == 143


async def test_a_task_that_fills_the_disk_is_ended_with_a_reason(host: ProcessHarness) -> None:
    key, other = a_key(1), a_key(2)
    backend = ProcessBackend(host.root, host.logs, SystemClock(), work_bytes_max=4 << 20, measure_every_s=0.05)
    await backend.open()
    try:
        watch = Watch(backend)
        (node,) = await backend.nodes()
        hog = "mkdir deep; cd deep; head -c 8000000 /dev/zero > big; sleep 600"
        fields = {"grant": 1, "node": node.name, "devices": (), "cpus": 1, "memory_mb": 64, "image": ""}
        await backend.apply(
            [
                LaunchTask(key=key, commands=hog, **fields),
                LaunchTask(key=other, commands="head -c 2000000 /dev/zero > small; exit 3", **fields),
            ]
        )
        ended, fine = await watch.until_over(key, other)
    finally:
        await backend.close()
    assert (ended.reason, fine.code) == (ExitReason.DISK_EXCEEDED, 3)
    assert "more than 4 MiB" in ended.message
    assert diagnose(ended).phrase == "UserContainerDiskLimitExceeded"


async def test_what_a_task_left_is_said_and_kept_when_it_is_forgotten(host: ProcessHarness) -> None:
    left, tidy = a_key(1), a_key(2)
    backend = ProcessBackend(host.root, host.logs, SystemClock(), keeps_work=True)
    await backend.open()
    try:
        (node,) = await backend.nodes()
        fields = {"grant": 1, "node": node.name, "devices": (), "cpus": 1, "memory_mb": 64, "image": ""}
        await backend.apply(
            [
                LaunchTask(key=left, commands="mkdir out; echo weights > out/model", **fields),
                LaunchTask(key=tidy, commands="true", **fields),
            ]
        )
        await Watch(backend).until_over(left, tidy)
        await forget(backend, left, tidy)
    finally:
        await backend.close()
    assert files_below(host.root / ".kept") == {f"{left.path()}/out/model": "weights\n"}
    assert "pai job fetch" in (host.logs / left.path() / "runtime.log").read_text().splitlines()[-1]
    assert "pai job fetch" not in (host.logs / tidy.path() / "runtime.log").read_text()


def files_below(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}

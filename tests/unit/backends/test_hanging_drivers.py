"""A driver that hangs or fails takes its own values away, and no others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openpai.app import metrics
from openpai.app.metrics import ThisMachine
from openpai.backends.host import probing
from openpai.backends.host.attempts import HostAttempt
from openpai.backends.host.machine import Gpus
from openpai.backends.host.measuring import HostMeasuring
from openpai.backends.host.task_use import Place
from openpai.lifecycle.model import AttemptKey
from openpai.ports.task_usage import Counters, Device, DeviceUse, TaskSample

from .nvml import StillClock

KEY = AttemptKey("a" * 32, 0, "worker", 0, 0)


class Driver:
    """A driver that hangs until `going_on` is set, or fails."""

    def __init__(self) -> None:
        self.going_on = threading.Event()
        self.fails = False

    def read(self, devices: Iterable[int]) -> dict[int, DeviceUse]:
        self.going_on.wait()
        if self.fails:
            raise OSError("the library is broken")
        return {device: DeviceUse(device, memory_bytes=7) for device in devices}


async def test_tasks_are_measured_without_their_gpus_while_the_driver_hangs_or_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing, "PATIENCE_S", 0.01)
    driver = Driver()
    measuring = HostMeasuring(StillClock(), Gpus(2, "H100"), cast("Any", lambda gpus: driver))
    attempt = cast("HostAttempt", SimpleNamespace(key=KEY, devices=(1,), directory=None))
    monkeypatch.setattr("openpai.backends.host.measuring._reported", lambda directory: None)
    place = Place(KEY, session=1)
    monkeypatch.setattr(
        measuring._measuring, "measure", lambda places, now_ms: [TaskSample(KEY, now_ms, Counters(), 5)]
    )

    async def devices() -> tuple[DeviceUse, ...]:
        (found,) = await measuring.measure([place], [attempt])
        assert found.memory_bytes == 5
        return found.devices

    for _ in range(2):
        assert await devices() == ()
    driver.going_on.set()
    assert measuring._reading._running is not None
    await measuring._reading._running
    assert await devices() == (DeviceUse(1, memory_bytes=7),)
    driver.fails = True
    monkeypatch.setattr(probing, "PATIENCE_S", 10.0)
    assert await devices() == ()


async def test_the_machine_is_measured_without_its_gpus_while_the_driver_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "PATIENCE_S", 0.01)
    driver = Driver()

    class Backend:
        def read_devices(self) -> tuple[Device, ...]:
            return tuple(Device(use) for use in driver.read(range(2)).values())

    leader = SimpleNamespace(nodes={"n": SimpleNamespace(name="n", gpu_model="H100")}, backend=Backend())
    machine = ThisMachine(tmp_path, StillClock(), cast("Any", lambda: leader))
    rounds: asyncio.Queue[int] = asyncio.Queue()

    async def sleep(seconds: float) -> None:
        await rounds.put(len(list(machine.readings())))
        await going.wait()
        going.clear()

    going = asyncio.Event()
    monkeypatch.setattr(metrics, "asyncio", SimpleNamespace(sleep=sleep, to_thread=asyncio.to_thread))
    watching = asyncio.create_task(machine.watch())
    try:
        for _ in range(2):
            assert await rounds.get() == 1
            going.set()
        assert await rounds.get() == 1
        driver.going_on.set()
        running = machine._reading._running
        assert running is not None
        await running
        going.set()
        assert await rounds.get() == 3
    finally:
        watching.cancel()
        driver.going_on.set()

"""Devices that fail a check get no new tasks, with the reason, and come back when they have passed for a while."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from openpai.backends.host import device_checks
from openpai.backends.host.device_checks import PASSES, SILENT, DeviceChecks
from openpai.backends.host.gpu_use import GpuReader, NoGpus, NvidiaGpus
from openpai.backends.host.machine import VIRTUAL, Gpus
from openpai.ports.backend import NodeSeen

from .test_task_use import Nvml, NVMLError

NODE = NodeSeen("n1", "10.0.0.1", 8, 1024, gpus=2)


class Checked(Nvml):
    """A driver with two cards, whose errors and heat the test sets."""

    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self) -> None:
        super().__init__()
        self.lost: set[int] = set()
        self.errors: dict[int, int] = {}
        self.reasons: dict[int, int] = {}

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("nvmlDevice") or name.startswith("nvmlDeviceGetHandle"):
            return found

        def asked(handle: Any, *more: Any) -> Any:
            if handle in self.lost:
                raise NVMLError
            return found(handle, *more)

        return asked

    def nvmlDeviceGetClockInfo(self, handle: object, kind: int) -> int:
        return 1980

    def nvmlDeviceGetPerformanceState(self, handle: object) -> int:
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return self.reasons.get(handle, 0)

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, since: int) -> int:
        # Corrected errors are harmless.
        return self.errors.get(handle, 0) if kind == 1 else 1000


def checks_of(nvml: Any) -> DeviceChecks:
    def open_(names: Sequence[str]) -> GpuReader:
        return NvidiaGpus(nvml, names)

    return DeviceChecks(Gpus(2, "H100"), open_)


async def test_a_device_with_memory_errors_gets_no_tasks_and_says_why() -> None:
    nvml = Checked()
    checks = checks_of(nvml)
    assert await checks.applied([NODE]) == (NODE,)
    nvml.errors[1] = 2
    (node,) = await checks.applied([NODE])
    assert (node.is_healthy, node.bad_devices) == (True, frozenset({1}))
    assert node.message == "GPU 1: 2 memory errors that could not be corrected (ECC) since the driver was loaded"


async def test_a_device_that_fell_off_the_bus_is_bad_and_comes_back_after_it_has_passed_for_a_while() -> None:
    nvml = Checked()
    checks = checks_of(nvml)
    nvml.lost.add(0)
    assert await checks.bad() == {0: SILENT}
    nvml.lost.clear()
    for _ in range(PASSES - 1):
        assert await checks.bad() == {0: SILENT}
    nvml.lost.add(0)
    await checks.bad()
    nvml.lost.clear()
    for _ in range(PASSES - 1):
        assert await checks.bad() == {0: SILENT}
    assert await checks.bad() == {}


async def test_a_device_that_its_hardware_slows_down_for_heat_is_bad() -> None:
    nvml = Checked()
    nvml.reasons = {0: 0x40, 1: 0x4}  # the other one only keeps to its power limit
    assert await checks_of(nvml).bad() == {0: "its hardware slows it down because it is too hot at 64 °C"}


async def test_machines_that_measure_nothing_have_no_bad_devices() -> None:
    assert await DeviceChecks(Gpus(2, "MI300"), lambda names: NoGpus()).bad() == {}
    assert await DeviceChecks(Gpus(2, VIRTUAL)).bad() == {}
    assert await DeviceChecks(Gpus(0)).bad() == {}


async def test_a_driver_that_hangs_costs_one_thread_and_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml, opened, going_on = Checked(), 0, threading.Event()

    def open_(names: Sequence[str]) -> GpuReader:
        nonlocal opened
        opened += 1
        going_on.wait()
        return NvidiaGpus(nvml, names)

    monkeypatch.setattr(device_checks, "PATIENCE_S", 0.01)
    nvml.lost.add(1)
    checks = DeviceChecks(Gpus(2, "H100"), open_)
    for _ in range(3):
        assert await checks.bad() == {}
    going_on.set()
    assert checks._checking is not None
    await checks._checking
    assert (await checks.bad(), opened) == ({1: SILENT}, 1)


async def test_a_check_that_fails_leaves_what_was_known() -> None:
    nvml = Checked()
    nvml.lost.add(1)
    checks = checks_of(nvml)
    await checks.bad()
    checks._reader.read = None  # type: ignore[union-attr, method-assign, assignment]
    assert await checks.bad() == {1: SILENT}

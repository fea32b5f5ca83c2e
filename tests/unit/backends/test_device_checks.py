"""Devices that fail a check get no new tasks, with the reason, and come back when they have passed for a while."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from openpai.backends.host import probing
from openpai.backends.host.amd_use import AmdGpus
from openpai.backends.host.device_checks import HEAT, MEMORY, PRESENT, SILENT, XID, DeviceChecks
from openpai.backends.host.devices import HostDevices
from openpai.backends.host.findings import PASSES
from openpai.backends.host.gpu_reading import GpuReader, NoGpus
from openpai.backends.host.gpu_use import NvidiaGpus
from openpai.backends.host.machine import VIRTUAL, Gpus, amd_gpus
from openpai.backends.host.machine_checks import ClockCheck
from openpai.backends.host.node_checks import NodeChecks
from openpai.backends.host.xids import QUIET_S, KernelLog, Xids
from openpai.metrics.devices import readings_of
from openpai.ports.backend import NodeSeen

from .nvml import Checked, StillClock

NODE = NodeSeen("n1", "10.0.0.1", 8, 1024, gpus=2)
TWO = Gpus(2, "H100")


class Box:
    """The checks of a machine with a made-up driver, kernel's log and steady clock."""

    def __init__(self, root: Path, nvml: Any, gpus: Gpus = TWO, log: str = "none") -> None:
        self.now_s = 10_000.0
        self.xids = Xids(lambda: self.now_s)

        def open_(gpus: Gpus) -> GpuReader:
            return NvidiaGpus(nvml, gpus.names) if isinstance(nvml, Checked) else nvml

        devices = DeviceChecks(gpus, open_, KernelLog(str(root / log)), self.xids)
        clock_check = ClockCheck(lambda: 1.8e9, lambda: 0.0, lambda: True)
        self.checks = NodeChecks(gpus, root, StillClock(), devices=devices, clock_check=clock_check)

    async def seen(self) -> NodeSeen:
        return (await self.checks.applied([NODE]))[0]

    async def bad(self) -> dict[int, str]:
        node = await self.seen()
        assert node.is_healthy
        assert len(node.bad_devices) == len(node.message.split("; GPU ")) * bool(node.message)
        return {
            device: next(part for part in node.message.split("; ") if part.startswith(f"GPU {device}: "))[7:]
            for device in node.bad_devices
        }

    async def results(self) -> dict[str, str]:
        return {check.name: check.result for check in (await self.seen()).checks}


async def test_a_device_with_memory_errors_gets_no_tasks_and_says_why(tmp_path: Path) -> None:
    nvml = Checked()
    box = Box(tmp_path, nvml)
    assert (await box.bad(), set((await box.results()).values())) == ({}, {"passed"})
    nvml.errors[1] = 2
    assert await box.bad() == {1: "2 memory errors that could not be corrected (ECC) since the driver was loaded"}
    results = await box.results()
    assert [name for name, result in results.items() if result == "failed"] == [MEMORY]
    (check,) = [check for check in (await box.seen()).checks if check.name == MEMORY]
    assert check.message.startswith("GPU 1: 2 memory errors")


async def test_a_device_that_fell_off_the_bus_is_bad_and_comes_back_after_it_has_passed_for_a_while(
    tmp_path: Path,
) -> None:
    nvml = Checked()
    box = Box(tmp_path, nvml)
    nvml.lost.add(0)
    assert await box.bad() == {0: SILENT}
    nvml.lost.clear()
    for _ in range(PASSES - 1):
        assert await box.bad() == {0: SILENT}
    nvml.lost.add(0)
    await box.bad()
    nvml.lost.clear()
    for _ in range(PASSES - 1):
        assert await box.bad() == {0: SILENT}
    assert await box.bad() == {}


async def test_a_device_that_its_hardware_slows_down_for_heat_is_bad(tmp_path: Path) -> None:
    nvml = Checked()
    nvml.reasons = {0: 0x40, 1: 0x4}  # the other one only keeps to its power limit
    assert await Box(tmp_path, nvml).bad() == {0: "its hardware slows it down because it is too hot at 64 °C"}


async def test_an_event_of_the_driver_about_the_hardware_keeps_tasks_away_for_an_hour(tmp_path: Path) -> None:
    nvml = Checked()
    box = Box(tmp_path, nvml)
    nvml.events = [(0, 31), (0, 13), (1, 94)]
    # Programs cause these.
    assert (await box.bad(), nvml.watched) == ({}, [0, 1])
    nvml.events = [(1, 79), (0, 43)]
    bad = await box.bad()
    assert bad == {1: "Xid 79: it fell off the bus, so it gets no tasks for an hour"}
    assert (await box.results())[XID] == "failed"
    box.now_s += QUIET_S - 1
    assert await box.bad() == bad
    box.now_s += 2
    for _ in range(PASSES - 1):
        assert await box.bad() == bad
    assert await box.bad() == {}


async def test_without_events_the_kernels_log_says_so_and_no_task_can_imitate_it(tmp_path: Path) -> None:
    # A file ends where a log of the kernel would have nothing new.
    (tmp_path / "kmsg").write_text(
        "6,911,9000000000,-;NVRM: Xid (PCI:0000:3c:00): 95, pid=7, name=a, Uncontained: L2\n"
    )
    box = Box(tmp_path, Checked(has_events=False), log="kmsg")
    reason = "Xid 95: a memory error that could not be contained, so it gets no tasks for an hour"
    assert await box.bad() == {1: reason}
    (tmp_path / "kmsg").write_text(
        "12,911,9000000000,-;NVRM: Xid (PCI:0000:3c:00): 95, pid=7, name=a, Uncontained: L2\n"
    )
    box = Box(tmp_path, Checked(has_events=False), log="kmsg")
    assert (await box.bad(), (await box.results())[XID]) == ({}, "passed")
    long_ago = "6,911,5000000,-;NVRM: Xid (PCI:0000:3c:00): 95, pid=7, name=a, Uncontained: L2\n"
    (tmp_path / "kmsg").write_text(long_ago)
    assert await Box(tmp_path, Checked(has_events=False), log="kmsg").bad() == {}
    # Neither events nor a log: nothing is claimed.
    assert (await Box(tmp_path, Checked(has_events=False)).results())[XID] == "unknown"


async def test_metrics_have_every_slice_by_its_name_and_the_last_xid_of_its_card(tmp_path: Path) -> None:
    nvml = Checked()
    slices = Gpus(2, "H100 MIG 3g", ("MIG-0", "MIG-1"))
    box = Box(tmp_path, nvml, slices)
    devices = HostDevices(slices, box.checks.xids, lambda gpus: NvidiaGpus(nvml, gpus.names))
    assert "DCGM_FI_DEV_XID_ERRORS" not in devices.read()[0].health
    # An error of a program makes no GPU bad, and is shown all the same.
    nvml.events = [(1, 31)]
    assert await box.bad() == {}
    found = {
        (each.labels.get("UUID"), each.labels.get("gpu")): each.values for each in readings_of(devices.read(), "n", "")
    }
    xids = {key: values["DCGM_FI_DEV_XID_ERRORS"] for key, values in found.items()}
    assert xids == {("MIG-0", "0"): 0, ("MIG-1", "1"): 31}
    first = found["MIG-0", "0"]
    assert first["DCGM_FI_DEV_FB_USED"] == 10 / 2**20
    # Pretended GPUs are nobody's.
    assert HostDevices(Gpus(2, VIRTUAL), open_=lambda _: NvidiaGpus(nvml)).read() == ()


async def test_a_fault_of_a_card_is_one_of_all_its_slices(tmp_path: Path) -> None:
    nvml = Checked()
    slices = Gpus(2, "H100 MIG 3g", ("MIG-1a", "MIG-1b"))
    box = Box(tmp_path, nvml, slices)
    assert (await box.bad(), nvml.watched) == ({}, [1])
    nvml.events = [(1, 48)]
    assert set(await box.bad()) == {0, 1}
    nvml.errors[1] = 1
    assert (await box.results())[MEMORY] == "failed"


async def test_machines_that_measure_nothing_have_no_bad_devices(tmp_path: Path) -> None:
    box = Box(tmp_path, NoGpus())
    assert (await box.bad(), (await box.results())[PRESENT]) == ({}, "unknown")
    for gpus in (Gpus(2, VIRTUAL), Gpus(0)):
        assert set(await Box(tmp_path, Checked(), gpus).results()) == {"clock", "disk"}


def amd_card(root: Path) -> Path:
    device = root / "card0" / "device"
    (device / "hwmon" / "hwmon1").mkdir(parents=True)
    (device / "ras").mkdir()
    (device / "drm" / "renderD128").mkdir(parents=True)
    for name, text in {
        "vendor": "0x1002", "product_name": "MI300X", "mem_info_vram_total": "64", "mem_info_vram_used": "1",
        "ras/umc_err_count": "ue: 0\nce: 7", "ras/gfx_err_count": "ue: 0\nce: 0", "ras/features": "ue: 9",
        "hwmon/hwmon1/temp1_input": "60000", "hwmon/hwmon1/temp1_crit": "100000",
        "hwmon/hwmon1/temp2_input": "70000", "hwmon/hwmon1/temp2_crit": "110000",
    }.items():  # fmt: skip
        (device / name).write_text(f"{text}\n")
    return device


async def test_cards_of_amd_are_found_and_checked_through_the_files_of_their_driver(tmp_path: Path) -> None:
    card = amd_card(tmp_path / "drm")
    gpus = amd_gpus(tmp_path / "drm")
    assert gpus == Gpus(1, "MI300X", files=("/dev/dri/renderD128",))
    assert not amd_gpus(tmp_path / "none")
    box = Box(tmp_path, AmdGpus([card]), gpus)
    assert await box.results() == dict.fromkeys(("clock", PRESENT, MEMORY, HEAT, "disk"), "passed")
    (card / "hwmon/hwmon1/temp2_input").write_text("110000\n")
    assert await box.bad() == {0: "its hardware slows it down because it is too hot at 60 °C"}
    (card / "hwmon/hwmon1/temp2_input").write_text("70000\n")
    for _ in range(PASSES):
        await box.bad()
    (card / "ras/gfx_err_count").write_text("ue: 1\nce: 0\n")
    assert await box.bad() == {0: "1 memory error that could not be corrected (ECC) since the driver was loaded"}
    for name in ("mem_info_vram_used", "mem_info_vram_total", "hwmon/hwmon1/temp1_input"):
        (card / name).unlink()
    assert (await box.results())[PRESENT] == "failed"


async def test_a_driver_that_hangs_costs_one_thread_and_one_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml, opened, going_on = Checked(), 0, threading.Event()

    def open_(gpus: Gpus) -> GpuReader:
        nonlocal opened
        opened += 1
        going_on.wait()
        return NvidiaGpus(nvml, gpus.names)

    monkeypatch.setattr(probing, "PATIENCE_S", 0.01)
    nvml.lost.add(1)
    gpus = Gpus(2, "H100")
    checks = NodeChecks(
        gpus, tmp_path, StillClock(), devices=DeviceChecks(gpus, open_, KernelLog(str(tmp_path / "no")))
    )
    for _ in range(3):
        (node,) = await checks.applied([NODE])
        assert not node.bad_devices
        (check,) = [check for check in node.checks if check.name == PRESENT]
        assert (node.is_healthy, check.result) == (True, "warning")
        assert check.message.startswith("the driver does not answer within ")
    going_on.set()
    running = checks._probes[PRESENT]._running
    assert running is not None
    await running
    (node,) = await checks.applied([NODE])
    assert (node.bad_devices, opened) == ({1}, 1)
    assert [check.message for check in node.checks if check.name == PRESENT] == [f"GPU 1: {SILENT}"]


async def test_a_check_that_fails_leaves_what_was_known(tmp_path: Path) -> None:
    nvml = Checked()
    nvml.lost.add(1)
    box = Box(tmp_path, nvml)
    await box.bad()
    box.checks._devices._granted.reader().read = None  # type: ignore[method-assign, assignment]
    assert await box.bad() == {1: SILENT}

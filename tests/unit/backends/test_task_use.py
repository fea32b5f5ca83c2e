"""What tasks use: read from /proc, from cgroups of both versions, and from the drivers of GPUs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from openpai.backends.host.amd_use import AmdGpus, open_amd
from openpai.backends.host.gpu_reading import NoGpus
from openpai.backends.host.gpu_use import NvidiaGpus
from openpai.backends.host.task_use import Measuring, Place, cgroup_mounts, cgroup_places
from openpai.lifecycle.model import AttemptKey
from openpai.ports.task_usage import DeviceUse

KEY = AttemptKey("a" * 32, 0, "worker", 0, 0)
OTHER = AttemptKey("b" * 32, 0, "worker", 0, 0)


def stat(pid: int, session: int, ticks: int, *, state: str = "S", pages: int = 256, born: int = 5) -> str:
    fields = [state, "1", str(session), str(session), *["0"] * 7, str(ticks), "0", "0", "0", *["0"] * 4, str(born), "0"]
    return f"{pid} (a) b) {' '.join(fields)} {pages}\n"


class Machine:
    """A made-up /proc, and cgroups."""

    def __init__(self, root: Path) -> None:
        self.root = root / "proc"
        self.cgroup = root / "cgroup"
        self.cgroup.mkdir(parents=True)

    def process(self, pid: int, text: str, read: int = 0, written: int = 0) -> None:
        (self.root / str(pid)).mkdir(parents=True, exist_ok=True)
        (self.root / str(pid) / "stat").write_text(text)
        (self.root / str(pid) / "io").write_text(f"rchar: 9\nread_bytes: {read}\nwrite_bytes: {written}\n")

    def gone(self, pid: int) -> None:
        for file in (self.root / str(pid)).iterdir():
            file.unlink()
        (self.root / str(pid)).rmdir()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_processes_of_a_session_are_added_up_and_nothing_is_lost_with_one(machine: Machine) -> None:
    measuring = Measuring(str(machine.root))
    machine.process(10, stat(10, 10, 100), 1000, 0)
    machine.process(11, stat(11, 10, 300, state="T"), 5000, 700)
    machine.process(12, stat(12, 10, 900, state="Z"))
    machine.process(20, stat(20, 20, 700))
    tick = 1 / os.sysconf("SC_CLK_TCK")
    [one] = measuring.measure([Place(KEY, session=10)], 1000)
    assert (one.counters.cpu_s, one.processes, one.stopped) == (pytest.approx(400 * tick), 2, 1)
    assert one.memory_bytes == 2 * 256 * os.sysconf("SC_PAGE_SIZE")
    assert (one.counters.disk_read_bytes, one.counters.disk_written_bytes) == (6000, 700)
    assert one.counters.network_sent_bytes is None
    machine.gone(11)
    machine.process(10, stat(10, 10, 350), 1500, 0)
    # Another process with the number of one that ended has read nothing yet.
    machine.process(13, stat(13, 10, 0), 200, 0)
    one, other = measuring.measure([Place(KEY, session=10), Place(OTHER, session=20)], 2000)
    assert one.counters.cpu_s == pytest.approx(400 * tick)
    assert one.counters.disk_read_bytes == 6700
    assert other.key == OTHER
    assert measuring.measure([Place(KEY, session=99)], 3000) == []


@pytest.mark.parametrize("version", [1, 2])
def test_a_cgroup_counts_better_than_its_processes(machine: Machine, version: int) -> None:
    machine.process(10, stat(10, 10, 1))
    (machine.cgroup / "cgroup.procs").write_text("10\n0\n999\n")
    if version == 1:
        (machine.cgroup / "cpuacct.usage").write_text("7500000000\n")
        (machine.cgroup / "memory.usage_in_bytes").write_text("9000\n")
        (machine.cgroup / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 4000\n")
    else:
        (machine.cgroup / "cpu.stat").write_text("usage_usec 7500000\nuser_usec 1\n")
        (machine.cgroup / "memory.current").write_text("9000\n")
        (machine.cgroup / "memory.stat").write_text("anon 5\ninactive_file 4000\n")
    where = str(machine.cgroup)
    [one] = Measuring(str(machine.root)).measure([Place(KEY, cgroup=where, memory=where, cpu=where)], 1000)
    assert (one.counters.cpu_s, one.memory_bytes, one.processes) == (7.5, 5000, 1)


def test_a_container_is_found_by_its_first_process_with_its_network(machine: Machine) -> None:
    machine.process(10, stat(10, 10, 1))
    (machine.root / "10" / "cgroup").write_text("4:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n0::/\n")
    (machine.root / "10" / "net").mkdir()
    (machine.root / "10" / "net" / "dev").write_text(
        "Inter-|\n face |bytes\n    lo: 5 0 0 0 0 0 0 0 6 0\n  eth0: 70 1 0 0 0 0 0 0 80 1 0\n"
    )
    mounts = {"memory": "/m", "cpuacct": "/c"}
    place = cgroup_places(KEY, 10, mounts, has_network=True, proc=str(machine.root))
    assert place == Place(KEY, cgroup="/m/docker/x", memory="/m/docker/x", cpu="/c/docker/x", network_of=10)
    found = Measuring(str(machine.root))._network(10)
    assert found == (70, 80)
    (machine.root / "10" / "cgroup").write_text("0::/system.slice/docker-x.scope\n")
    place = cgroup_places(KEY, 10, {"": "/u"}, has_network=False, proc=str(machine.root))
    assert place.cgroup == place.memory == place.cpu == "/u/system.slice/docker-x.scope"


def test_this_machine_is_measured() -> None:
    assert cgroup_mounts()
    # Clock ticks have a hundredth of a second.
    program = "import time\nwhile time.process_time() < 0.1: pass\nprint(flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None
            busy.stdout.readline()
            measuring = Measuring()
            [one] = measuring.measure([Place(KEY, session=busy.pid)], 1000)
            assert one.counters.cpu_s > 0.05
            assert one.memory_bytes > 1 << 20
            assert (one.processes, one.stopped) == (1, 0)
            busy.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, busy.pid, os.WSTOPPED)
            assert measuring.measure([Place(KEY, session=busy.pid)], 2000)[0].stopped == 1
        finally:
            busy.kill()


NOT_SUPPORTED, TIMEOUT, GPU_IS_LOST = 3, 10, 15


class NVMLError(Exception):
    """The driver's error, with its code, as nvidia-ml-py raises it."""

    def __init__(self, value: int = GPU_IS_LOST) -> None:
        super().__init__(value)
        self.value = value


class Nvml:
    """A driver with a Hopper card and a slice of it, and an older card with a slice that knows only its memory.

    As some drivers do, it answers the power and the activity of the whole card for a slice.
    """

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self) -> None:
        self.nvmlMemory_v2 = 2
        self.samples = 0
        self.freed = 0

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index > 1:
            raise NVMLError
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle: object, version: int | None = None) -> SimpleNamespace:
        """As NVML does, count what the driver reserves as used, where the second form is not asked for or known."""
        if version is None:
            return SimpleNamespace(used=10, total=80)
        if handle != 0:
            raise NVMLError
        return SimpleNamespace(used=7, reserved=3, total=80)

    def nvmlDeviceGetUUID(self, handle: object) -> bytes | str:
        return handle if isinstance(handle, str) else f"GPU-{handle}".encode()

    def nvmlDeviceIsMigDeviceHandle(self, handle: object) -> int:
        return int(isinstance(handle, str))

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> int:
        return int(handle.rpartition("-")[2])

    def nvmlDeviceGetGpuInstanceId(self, handle: str) -> int:
        return 9

    def nvmlDeviceGetUtilizationRates(self, handle: object) -> SimpleNamespace:
        return SimpleNamespace(gpu=100)

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:
        return 612_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: object) -> int:
        return self.nvmlDeviceGetPowerUsage(handle)

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int:
        return 64

    def nvmlGpmQueryDeviceSupport(self, handle: object) -> SimpleNamespace:
        return SimpleNamespace(isSupportedDevice=handle == 0)

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:
        return SimpleNamespace()

    def nvmlGpmSampleGet(self, handle: int, sample: SimpleNamespace) -> None:
        self.samples += 1
        sample.values = {2: 88.0, 5: 61.54}

    def nvmlGpmMigSampleGet(self, whole: int, instance: int, sample: SimpleNamespace) -> None:
        assert (whole, instance) == (0, 9)
        sample.values = {2: 0.4, 5: 0.0}

    def nvmlGpmSampleFree(self, sample: object) -> None:
        self.freed += 1

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:
        return SimpleNamespace(
            metrics=[SimpleNamespace(value=0.0, nvmlReturn=0), SimpleNamespace(value=0.0, nvmlReturn=0)]
        )

    def nvmlGpmMetricsGet(self, wanted: SimpleNamespace) -> SimpleNamespace:
        for metric in wanted.metrics[: wanted.numMetrics]:
            metric.value = wanted.sample2.values[metric.metricId]
        return wanted


def test_nvidia_cards_and_slices_report_what_they_can() -> None:
    nvml = Nvml()
    gpus = NvidiaGpus(nvml)
    first = gpus.read([0, 1, 7])
    assert set(first) == {0, 1}
    assert first[0] == DeviceUse(0, 100.0, None, 7, 80, 612.5, 612.5, 64, memory_reserved_bytes=3)
    assert first[1].memory_bytes == 10
    assert [gpus.name(number) for number in (0, 1, 7)] == ["GPU-0", "GPU-1", ""]
    second = gpus.read([0, 1])
    assert (second[0].tensor_percent, second[1].tensor_percent) == (61.5, None)
    gpus.read([0])
    assert (nvml.samples, nvml.freed) == (3, 2)


def test_a_slice_has_its_own_activity_and_never_the_power_of_its_gpu() -> None:
    gpus = NvidiaGpus(Nvml(), ["MIG-0", "MIG-1"])
    gpus.read([0, 1])
    found = gpus.read([0, 1])
    assert found[0] == DeviceUse(0, 0.4, 0.0, 10, 80, None, None, 64, is_slice=True)
    # Cards before Hopper measure no activity of slices.
    assert found[1] == DeviceUse(1, None, None, 10, 80, None, None, 64, is_slice=True)


def test_amd_cards_are_read_from_the_driver_in_the_order_of_their_slots(tmp_path: Path) -> None:
    for number, (slot, vendor) in enumerate((("0000:65:00.0", "0x1002"), ("0000:1b:00.0", "0x1002"), ("x", "0x10de"))):
        device = tmp_path / "devices" / slot
        (device / "hwmon" / "hwmon3").mkdir(parents=True)
        for name, text in {
            "vendor": vendor, "mem_info_vram_total": "64", "mem_info_vram_used": str(number), "gpu_busy_percent": "99",
            "hwmon/hwmon3/power1_average": "250000000", "hwmon/hwmon3/temp1_input": "41500",
        }.items():  # fmt: skip
            (device / name).write_text(f"{text}\n")
        card = tmp_path / "drm" / f"card{number}"
        card.mkdir(parents=True)
        (card / "device").symlink_to(device)
    gpus = open_amd(tmp_path / "drm")
    assert isinstance(gpus, AmdGpus)
    found = gpus.read([0, 1, 2])
    assert [use.memory_bytes for use in found.values()] == [1, 0]
    assert found[0] == DeviceUse(0, 99, None, 1, 64, 250.0, None, 41.5)
    assert isinstance(open_amd(tmp_path / "none"), NoGpus)

"""What NVML does not tell costs that one value, and what it does not reach that one GPU: never all of them.

The calls go through the real package nvidia-ml-py: their arguments, answers and errors are those of the real library.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pynvml")

from openpai.backends.host.device_checks import HEAT, MEMORY, PRESENT, XID, DeviceChecks
from openpai.backends.host.devices import HostDevices
from openpai.backends.host.findings import Finding
from openpai.backends.host.gpu_reading import NoGpus
from openpai.backends.host.gpu_use import GrantedGpus, NvidiaGpus, open_gpus, open_nvidia
from openpai.backends.host.machine import Gpus
from openpai.backends.host.xids import KernelLog, Xids, take_record
from openpai.ports.task_usage import DeviceUse

from . import libnvml as nvml
from .libnvml import GPU_IS_LOST, NO_PERMISSION, NOT_SUPPORTED, Library, loaded

TWO = Gpus(2, "H100")
SLICES = Gpus(3, "H100", ("GPU-a", "MIG-1", "MIG-2"))
WHOLE = DeviceUse(0, 97.0, 61.5, 7, 80, 612.5, 700.0, 64, memory_reserved_bytes=3)


@pytest.fixture
def library() -> Iterator[Library]:
    library = Library()
    with loaded(library):
        yield library


def checks(gpus: Gpus = TWO, xids: Xids | None = None) -> DeviceChecks:
    return DeviceChecks(gpus, kernel_log=KernelLog("/nonexistent"), xids=xids)


def results(found: list[Finding]) -> dict[tuple[str, int | None], str]:
    return {(each.check, each.device): each.result for each in found}


def test_whole_cards_are_read_as_the_library_answers(library: Library) -> None:
    gpus = open_nvidia()
    gpus.read(range(2))
    found = gpus.read(range(3))
    assert (set(found), found[0]) == ({0, 1}, WHOLE)
    assert [gpus.name(number) for number in range(3)] == ["GPU-a", "GPU-b", ""]
    assert gpus.health([0, 2]) == {
        0: {
            "DCGM_FI_DEV_SM_CLOCK": 1980, "DCGM_FI_DEV_MEM_CLOCK": 2619, "DCGM_FI_DEV_PSTATE": 0,
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 4, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 5,
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
        }
    }  # fmt: skip


def test_slices_are_read_by_their_names_with_the_errors_and_the_heat_of_their_card(library: Library) -> None:
    library.divide(b"MIG-1", b"MIG-2")
    checking = checks(SLICES)
    assert set(results(checking.look()).values()) == {"passed"}
    # Slices send no events of their own.
    assert library.registered == [0x1000, 0x2000]
    library.events = [(0x2000, 43)]
    checking.look()
    devices = HostDevices(SLICES, checking.xids)
    devices.read()
    found = devices.read()
    assert [each.name for each in found] == ["GPU-a", "MIG-1", "MIG-2"]
    assert [each.health["DCGM_FI_DEV_XID_ERRORS"] for each in found] == [0, 43, 43]
    assert found[1].use == DeviceUse(1, 88.0, 61.5, 7, 80, None, None, 64, is_slice=True, memory_reserved_bytes=3)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
@pytest.mark.parametrize(
    ("function", "lacks"),
    [
        ("nvmlDeviceGetMemoryInfo_v2", "memory_reserved_bytes"),
        ("nvmlDeviceGetPowerUsage", "power_w"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w"),
        ("nvmlDeviceGetTemperature", "temperature_c"),
        ("nvmlDeviceGetUtilizationRates", "busy_percent"),
        ("nvmlGpmQueryDeviceSupport", "tensor_percent"),
        ("nvmlGpmSampleAlloc", "tensor_percent"),
        ("nvmlGpmSampleGet", "tensor_percent"),
        ("nvmlGpmMetricsGet", "tensor_percent"),
        ("nvmlDeviceIsMigDeviceHandle", None),
        ("nvmlDeviceGetPciInfo_v3", None),
        ("nvmlEventSetCreate", None),
        ("nvmlEventSetWait_v2", None),
        ("nvmlDeviceGetUUID", None),
    ],
)
def test_what_is_refused_or_missing_costs_only_its_own_value(
    library: Library, function: str, lacks: str | None, code: int
) -> None:
    for is_missing in (False, True):
        library.fails, library.missing = ({}, {function}) if is_missing else ({(function, 0): code}, set())
        with loaded(library):
            gpus = open_nvidia()
            gpus.read([0])
            use = gpus.read([0])[0]
            found = {name: getattr(use, name) for name in DeviceUse.__slots__}
            assert {name for name in found if found[name] != getattr(WHOLE, name)} - {"memory_bytes"} == {lacks} - {
                None
            }
            checking = results(checks().look())
            assert {checking[each, 0] for each in (PRESENT, MEMORY, HEAT)} == {"passed"}


def test_a_card_that_tells_nothing_is_there_all_the_same(library: Library) -> None:
    for name in ("MemoryInfo", "MemoryInfo_v2", "PowerUsage", "Temperature", "TotalEccErrors"):
        library.fails[f"nvmlDeviceGet{name}", 0x1000] = NOT_SUPPORTED
    for name in ("CurrentClocksThrottleReasons", "CurrentClocksEventReasons"):
        library.fails[f"nvmlDeviceGet{name}", 0x1000] = NOT_SUPPORTED
    found = results(checks().look())
    assert [found[each, 0] for each in (PRESENT, MEMORY, HEAT)] == ["passed", "unknown", "unknown"]
    assert {result for (_, device), result in found.items() if device == 1} == {"passed"}


def test_a_driver_that_knows_only_the_new_name_of_the_reasons_for_slow_clocks(library: Library) -> None:
    library.missing = {"nvmlDeviceGetCurrentClocksThrottleReasons"}
    assert open_nvidia().health([0])[0]["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"] == 4


def test_a_lost_card_is_reported_and_the_events_of_the_others_go_on(library: Library) -> None:
    checking = checks()
    checking.look()
    # Its last event comes when the driver does not know its address any more.
    library.lost.add(0x1000)
    library.events = [(0x1000, 79), (0x2000, 31)]
    found = results(checking.look())
    assert (found[PRESENT, 0], found[XID, 0], found[PRESENT, 1]) == ("failed", "failed", "passed")
    assert checking.xids() == {}
    # The driver has ended the waiting for all: the one that is reached is watched again.
    library.events = [(0x2000, 13)]
    found = results(checking.look())
    assert (library.registered, found[XID, 1], checking.xids()) == ([0x2000], "passed", {1: 13})
    library.lost.clear()
    assert results(checking.look())[PRESENT, 0] == "passed"
    assert sorted(library.registered) == [0x1000, 0x2000]


def test_a_card_without_events_leaves_those_of_the_other(library: Library) -> None:
    library.fails["nvmlDeviceRegisterEvents", 0x1000] = NOT_SUPPORTED
    checking = checks()
    library.events = [(0x2000, 48)]
    found = results(checking.look())
    assert (found[XID, 0], found[XID, 1], checking.xids()) == ("unknown", "failed", {1: 48})


def test_a_slice_that_is_made_again_is_found_again_by_its_name(library: Library) -> None:
    library.divide(b"MIG-1", b"MIG-2")
    gpus = open_gpus(SLICES)
    assert set(gpus.read(range(3))) == {0, 1, 2}
    library.divide(b"MIG-2", first=0x2200)
    assert set(gpus.read(range(3))) == {0}
    assert set(gpus.read(range(3))) == {0, 2}
    assert gpus.name(1) == ""


def test_a_counter_that_the_driver_could_not_make_is_not_zero(library: Library) -> None:
    gpus = open_nvidia()
    gpus.read([0])
    library.metric_status = NOT_SUPPORTED
    assert gpus.read([0])[0].tensor_percent is None


def test_a_name_that_is_not_answered_once_makes_no_other_series(library: Library) -> None:
    devices = HostDevices(TWO)
    devices.read()
    library.fails["nvmlDeviceGetUUID", 0] = GPU_IS_LOST
    assert [each.name for each in devices.read()] == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize("code", [nvml.DRIVER_NOT_LOADED, nvml.LIBRARY_VERSION_MISMATCH, nvml.UNKNOWN])
def test_a_library_that_does_not_start_is_tried_again(library: Library, code: int) -> None:
    library.fails["nvmlInitWithFlags", 0] = code
    checking = checks()
    (first, second) = checking.look()
    assert (first.result, second.result) == ("unknown", "unknown")
    assert first.message.startswith("nothing here reads its state: the driver's library does not start: ")
    library.fails.clear()
    assert set(results(checking.look()).values()) == {"passed"}


def test_cards_of_another_vendor_are_not_read_in_place_of_those_that_were_found(
    monkeypatch: pytest.MonkeyPatch, library: Library
) -> None:
    # An integrated GPU of AMD in a machine with NVIDIA's cards, and the other way round.
    monkeypatch.setattr("openpai.backends.host.amd_use.amd_cards", lambda root: [Path("/nonexistent")])
    amd = Gpus(1, "MI300X", files=("/dev/dri/renderD128",))
    assert not isinstance(open_gpus(amd), NvidiaGpus)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = open_gpus(TWO)
    assert isinstance(found, NoGpus)
    assert "install nvidia-ml-py" in found.why
    assert isinstance(GrantedGpus(Gpus(2, "virtual")).reader(), NoGpus)


@pytest.mark.parametrize("place", ["PCI:0000:3b:00", "PCI:0000:3b:00 GPU-I:05", "PCI:0000:3b:00 GPU-I:05 GPU-CI:02"])
def test_the_kernels_log_names_the_slice_too(place: str) -> None:
    xids = Xids(lambda: 100.0)
    take_record(f"6,911,90000000,-;NVRM: Xid ({place}): 95, pid=7, name=a, Uncontained: L2\n", xids)
    assert (xids.newest("0000:3b:00"), xids.fault("0000:3b:00")[:7]) == (95, "Xid 95:")

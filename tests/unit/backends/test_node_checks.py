"""A machine is checked before and between tasks: disk, clock, mounts and storages, each with a reason and a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from openpai.backends.host import machine_checks, node_checks, probing
from openpai.backends.host.findings import PASSES, Finding, Findings
from openpai.backends.host.machine import NO_GPUS
from openpai.backends.host.machine_checks import CLOCK, DISK, JUMP_KEPT_S, ClockCheck, mounted
from openpai.backends.host.node_checks import NodeChecks
from openpai.ports.backend import NodeCheck, NodeSeen
from openpai.system.disk_space import Space

from .nvml import StillClock

NODE = NodeSeen("n1", "10.0.0.1", 8, 1024)
MOUNTS = "22 1 0:20 / / rw - ext4 /dev/a rw\n30 22 0:31 / /mnt/two\\040words rw - nfs4 host:/x rw\n"


class Machine:
    """The checks of a machine without GPUs, whose clock is good."""

    def __init__(self, root: Path, mounts: Sequence[str] = ()) -> None:
        self.clock = StillClock()
        self.checks = NodeChecks(
            NO_GPUS, root, self.clock, mounts, clock_check=ClockCheck(lambda: 1.8e9, lambda: 0.0, lambda: True)
        )

    async def seen(self) -> NodeSeen:
        return (await self.checks.applied([NODE]))[0]

    async def check(self, name: str) -> NodeCheck:
        return next(check for check in (await self.seen()).checks if check.name == name)


async def test_a_disk_that_cannot_be_written_keeps_tasks_away_until_it_has_passed_for_a_while(tmp_path: Path) -> None:
    machine = Machine(root := tmp_path / "tasks")
    root.mkdir()
    assert (await machine.seen()).is_healthy
    began_ms = machine.clock.now
    root.rmdir()
    machine.clock.now += 10_000
    node = await machine.seen()
    assert not node.is_healthy
    assert node.message == f"disk: nothing can be written below {root}: No such file or directory"
    root.mkdir()
    machine.clock.now += 10_000
    for _ in range(PASSES - 1):
        assert (await machine.check(DISK)).result == "failed"
    assert await machine.check(DISK) == NodeCheck(DISK, "passed", "", since_ms=began_ms + 20_000)
    assert (await machine.seen()).is_healthy
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "files", "message"),
    [
        (1 << 40, 100_000, ""),
        (1 << 29, 100_000, "less than 1 GiB is free for working directories"),
        (1 << 40, 999, "fewer than 1000 more files fit"),
        (1 << 40, None, ""),
    ],
)
async def test_a_full_disk_takes_no_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, files: int | None, message: str
) -> None:
    monkeypatch.setattr(machine_checks, "space_of", lambda path: Space(1 << 42, free))
    monkeypatch.setattr(
        machine_checks.os, "statvfs", lambda path: SimpleNamespace(f_files=int(files is not None), f_favail=files)
    )
    node = await Machine(tmp_path).seen()
    assert node.is_healthy is not bool(message)
    assert message in node.message


def test_a_directory_must_be_the_place_of_a_mount_and_answer(tmp_path: Path) -> None:
    listing = tmp_path / "mountinfo"
    listing.write_text(MOUNTS)
    assert mounted("/", str(listing)) == [Finding("mount /")]
    (missing,) = mounted("/mnt", str(listing))
    assert (missing.result, missing.message) == ("failed", "nothing is mounted there")
    (gone,) = mounted("/mnt/two words", str(listing))
    assert gone.message == "what is mounted there cannot be used: No such file or directory"


async def test_missing_and_hanging_mounts_keep_tasks_away_and_delay_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await Machine(tmp_path, ["/", str(tmp_path)]).seen()
    assert (node.is_healthy, node.message) == (False, f"mount {tmp_path}: nothing is mounted there")
    going_on = threading.Event()

    def hanging(path: str) -> list[Finding]:
        going_on.wait()
        return [Finding(f"mount {path}")]

    monkeypatch.setattr(node_checks, "mounted", hanging)
    monkeypatch.setattr(probing, "PATIENCE_S", 0.01)
    machine = Machine(tmp_path, ["/data"])
    for _ in range(3):
        assert (await machine.seen()).message == f"mount /data: it does not answer within {node_checks.PATIENCE_S:g} s"
    going_on.set()
    running = machine.checks._probes["mount /data"]._running
    assert running is not None
    await running
    for _ in range(PASSES):
        node = await machine.seen()
    assert node.is_healthy


async def test_a_storage_that_is_missing_is_a_warning_and_goes_with_the_storage(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.checks.expect_storages({"data": str(tmp_path / "data"), "here": str(tmp_path)})
    node = await machine.seen()
    assert (node.is_healthy, node.message) == (True, "")
    check = await machine.check("storage data")
    assert (check.result, check.is_about_storage) == ("warning", True)
    assert "tasks with this storage cannot start here" in check.message
    assert (await machine.check("storage here")).result == "passed"
    (tmp_path / "data").mkdir()
    assert (await machine.check("storage data")).result == "passed"
    machine.checks.expect_storages({"here": str(tmp_path / "other")})
    names = {check.name: check.result for check in (await machine.seen()).checks}
    assert names == {CLOCK: "passed", DISK: "passed", "storage here": "warning"}


def test_the_clock_is_checked_for_jumps_for_its_service_and_for_its_date() -> None:
    wall_s, steady_s, is_set = 1.8e9, 100.0, True
    check = ClockCheck(lambda: wall_s, lambda: steady_s, lambda: is_set)
    assert check.look() == [Finding(CLOCK)]
    is_set = False
    assert "no time service sets it" in check.look()[0].message
    is_set = True
    for by_s, words in ((3600.0, "it was set ahead by 3600 s"), (-7200.0, "it was set back by 7200 s")):
        wall_s += by_s
        (found,) = check.look()
        assert (found.result, words in found.message) == ("warning", True)
        wall_s, steady_s = wall_s + JUMP_KEPT_S - 1, steady_s + JUMP_KEPT_S - 1
        assert check.look() == [found]
        wall_s, steady_s = wall_s + 2, steady_s + 2
        assert check.look() == [Finding(CLOCK)]
    wall_s = 1000.0
    assert check.look() == [Finding(CLOCK, "failed", "it shows 1970-01-01: certificates and logins depend on it")]


def test_what_is_worst_counts_of_several_devices() -> None:
    findings = Findings()
    findings.learn(
        [Finding("heat", "failed", "hot", 1), Finding("heat", "unknown", "?", 0), Finding("heat", device=2)], 5
    )
    assert findings.checks() == (NodeCheck("heat", "failed", "GPU 1: hot", since_ms=5),)
    assert (findings.bad_devices, findings.faults) == ({1: "hot"}, [])
    findings.learn([Finding("heat", "failed", "hotter", 1)], 9)
    assert findings.checks()[0] == NodeCheck("heat", "failed", "GPU 1: hotter", since_ms=5)

"""What process and docker backends read of this machine and of their own remembered grants."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from openpai.backends.host.grants import GrantFile
from openpai.backends.host.machine import Gpus, find_gpus, parse_gpus
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import LaunchTask


def a_launch(grant: int, *devices: int) -> LaunchTask:
    return LaunchTask(AttemptKey("job", 0, "worker", 0, 0), grant, "a node", devices, 1, 1, "", "")


def test_a_line_that_a_dying_server_left_unfinished_is_no_grant(tmp_path: Path) -> None:
    path = tmp_path / "grants"
    grants = GrantFile(path)
    grants.hear(a_launch(8, 0, 1))
    grants.close()
    with path.open("a") as file:
        file.write("a node\t1 99")
    grants = GrantFile(path)
    assert grants.hear(a_launch(8, 0, 1)) is None
    stale = grants.hear(a_launch(7, 1))
    assert stale is not None
    assert "grant 8 is newer" in stale.message
    grants.close()
    assert path.read_text() == "a node\t0 8 .\na node\t1 8 .\n"


def test_gpus_are_read_from_the_drivers_list() -> None:
    first, second = "GPU 0: NVIDIA H200 (UUID: GPU-61a4d0cc)\n", "GPU 1: NVIDIA H200 (UUID: GPU-2)\n"
    assert parse_gpus(second + first) == Gpus(2, "NVIDIA H200")
    assert parse_gpus("GPU 0: Tesla K80\n") == Gpus(1, "Tesla K80")
    assert parse_gpus("No devices were found\n") == Gpus(0)


SLICED = """GPU 0: NVIDIA H200 (UUID: GPU-1)
  MIG 3g.71gb     Device  0: (UUID: MIG-a)
  MIG 3g.71gb     Device  1: (UUID: MIG-b)
GPU 1: NVIDIA H200 (UUID: GPU-2)
"""


def test_each_slice_of_a_divided_gpu_is_a_device_with_a_name() -> None:
    whole = SLICED.partition("GPU 1")[0]
    assert parse_gpus(whole) == Gpus(2, "NVIDIA H200 MIG 3g.71gb", ("MIG-a", "MIG-b"))
    with capture_logs() as logs:
        mixed = parse_gpus(SLICED)
    # A GPU that is not divided stays one device, and the difference is reported.
    assert mixed == Gpus(3, "NVIDIA H200", ("MIG-a", "MIG-b", "GPU-2"))
    assert logs[0]["sizes"] == [("NVIDIA H200", ""), ("NVIDIA H200", "MIG 3g.71gb")]
    assert mixed.visible((2, 1)) == "GPU-2,MIG-b"
    assert Gpus(2, "NVIDIA H200").visible((1, 0)) == "1,0"


async def test_a_driver_that_does_not_work_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho could not communicate with the driver >&2\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with capture_logs() as logs:
        assert await find_gpus() == Gpus(0)
    assert logs[0]["message"] == "could not communicate with the driver"
    program.unlink()
    with capture_logs() as logs:
        assert await find_gpus() == Gpus(0)
    assert logs == []

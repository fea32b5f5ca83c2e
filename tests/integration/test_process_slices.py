"""Slices of GPUs (MIG) with the process backend, over a driver that lists what the test says."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.process.backend import ProcessBackend
from openpai.ports.backend import Backend
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import Watch, a_key, a_launch

LISTING = """GPU 0: NVIDIA H200 (UUID: GPU-1)
  MIG 3g.71gb     Device  0: (UUID: MIG-a)
  MIG 3g.71gb     Device  1: (UUID: MIG-b)
GPU 1: NVIDIA H200 (UUID: GPU-2)
  MIG 3g.71gb     Device  0: (UUID: MIG-c)
"""


class Sliced(ProcessHarness):
    """A process backend that offers what the driver lists."""

    def make(self) -> Backend:
        return ProcessBackend(self.root, self.logs, SystemClock())


async def test_a_task_sees_the_slices_it_was_granted_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why_not := ProcessHarness.why_not():
        pytest.skip(why_not)
    driver = tmp_path / "bin"
    driver.mkdir()
    (driver / "nvidia-smi").write_text(f"#!/bin/sh\ncat <<'END'\n{LISTING}END\n")
    (driver / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(driver), prepend=":")
    async with Sliced(tmp_path) as host:
        backend = await host.start()
        (node,) = await backend.nodes()
        assert (node.gpus, node.gpu_model) == (3, "NVIDIA H200 MIG 3g.71gb")
        seen = tmp_path / "seen"
        commands = f'echo "$CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES" >>{seen}'
        # The platform names devices by number; a task without any must see none.
        for index, devices in enumerate(((2, 0), (1,), ())):
            numbers = ",".join(map(str, devices))
            env = {"CUDA_VISIBLE_DEVICES": numbers, "NVIDIA_VISIBLE_DEVICES": numbers or "none"}
            key = a_key(index)
            await backend.apply([a_launch(host, key, commands, devices=devices, env=env)])
            (report,) = await Watch(backend).until_over(key)
            assert report.code == 0
        assert seen.read_text().splitlines() == ["MIG-c,MIG-a MIG-c,MIG-a", "MIG-b MIG-b", " none"]

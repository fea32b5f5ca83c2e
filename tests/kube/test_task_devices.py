"""The backend on a real node: tasks get the GPUs of their grants, and their logs reach the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.kubernetes.backend import KubernetesBackend, KubernetesOptions
from openpai.backends.kubernetes.nodes import DeviceRules
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects import PODS
from openpai.lifecycle.model import AttemptKey, ExitReport
from openpai.ports.backend import ForgetTask, KillTask, LaunchTask, MarksDevices
from tests.kube.fake_gpu_driver import GPUS, FakeGpuDriver
from tests.kube.images import SHELL_IMAGE
from tests.pauses import Pauses

pytestmark = pytest.mark.full


@asynccontextmanager
async def backend(driver: FakeGpuDriver, logs: Path) -> AsyncIterator[KubernetesBackend]:
    options = KubernetesOptions(namespace="default", devices=DeviceRules(classes={driver.name: driver.name}))
    made = KubernetesBackend(cluster_access(driver.node.plane.kubeconfig), b"secret", SystemClock(), options, logs)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def task(driver: FakeGpuDriver, job: str, devices: tuple[int, ...], commands: str, grant: int = 1) -> LaunchTask:
    key = AttemptKey(job, 0, "worker", 0, 0)
    return LaunchTask(key, grant, driver.node.name, devices, 1, 256, SHELL_IMAGE, commands, grace_s=1.0)


async def log_of(made: KubernetesBackend, key: AttemptKey, logs: Path) -> str:
    """Return the whole log of a task that has ended."""
    assert made._logs is not None
    assert await made._logs.finished(key, 60)
    return (logs / key.path() / "stdout.log").read_text()


async def end_of(made: KubernetesBackend, key: AttemptKey) -> ExitReport:
    async with asyncio.timeout(120):
        while True:
            for seen in await made.news():
                if seen.key == key and seen.exit is not None:
                    return seen.exit


async def test_a_task_sees_the_gpus_of_its_grant(gpu_driver: FakeGpuDriver, tmp_path: Path) -> None:
    async with backend(gpu_driver, tmp_path) as made:
        (node,) = await made.nodes()
        assert (node.gpus, node.gpu_model) == (8, "Fake H100")
        launch = task(gpu_driver, "gpus", (6, 1), "env")
        await made.apply([launch])
        assert (await end_of(made, launch.key)).code == 0
        message = (await log_of(made, launch.key, tmp_path)).splitlines()
        gpus = {line.partition("=")[2] for line in message if line.startswith("FAKE_GPU_")}
        assert gpus == {GPUS[6], GPUS[1]}
        assert "CUDA_VISIBLE_DEVICES=0,1" in message
        await made.apply([ForgetTask(launch.key)])


async def test_a_server_that_dies_before_the_pod_is_bound_is_continued(
    gpu_driver: FakeGpuDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = task(gpu_driver, "unbound", (3,), "env")
    stopped = asyncio.Event()

    async def never(*_: object, **__: object) -> None:
        stopped.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patches:
        patches.setattr(KubeClient, "bind", never)
        async with backend(gpu_driver, tmp_path) as made:
            await made.apply([launch])
            await stopped.wait()
    async with backend(gpu_driver, tmp_path) as made:
        assert (await end_of(made, launch.key)).code == 0
        message = await log_of(made, launch.key, tmp_path)
        assert GPUS[3] in message
        assert message.count("FAKE_GPU_") == 1
        await made.apply([ForgetTask(launch.key)])


async def test_a_bad_gpu_is_kept_from_every_scheduler_until_it_is_good(
    gpu_driver: FakeGpuDriver, tmp_path: Path
) -> None:
    node = gpu_driver.node.name
    async with backend(gpu_driver, tmp_path) as made:
        assert isinstance(made, MarksDevices)
        await made.mark_bad({node: {7: "XID 79", 2: ""}})
        await bad_devices(made, {2, 7})
    async with backend(gpu_driver, tmp_path) as made:
        await made.mark_bad({node: {7: "ECC"}, "gone": {1: ""}})
        await bad_devices(made, {7})
        (seen,) = await made.nodes()
        assert "openpai/bad-device=ECC" in seen.message
        await made.mark_bad({})
        await bad_devices(made, set())


async def bad_devices(made: KubernetesBackend, bad: set[int]) -> None:
    pauses = Pauses()
    async with asyncio.timeout(60):
        while (await made.nodes())[0].bad_devices != bad:  # noqa: ASYNC110  # nodes have no events
            await asyncio.sleep(pauses.next_s())


async def test_a_log_arrives_within_a_second_and_outlives_its_pod(gpu_driver: FakeGpuDriver, tmp_path: Path) -> None:
    commands = "echo one; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo two; exec sleep 1000"
    launch = task(gpu_driver, "logs", (), commands)
    path = tmp_path / launch.key.path() / "stdout.log"
    async with backend(gpu_driver, tmp_path) as made:
        await made.apply([launch])
        await until_written(path, "one\n")
        async with KubeClient(cluster_access(gpu_driver.node.plane.kubeconfig)) as kube:
            (pod,) = [pod for pod in await kube.list(PODS, "default") if pod.metadata.label("openpai/job") == "logs"]
            async with await kube.exec(pod.name, "default", ["touch", "/tmp/go"]) as session:
                assert (await session.collect())[0] == 0
            began = time.monotonic()
            await until_written(path, "one\ntwo\n")
            # The bar is one second; a busy machine gets more.
            assert time.monotonic() - began < 5
        await made.apply([KillTask(launch.key, 1.0)])
        await end_of(made, launch.key)
        await made.apply([ForgetTask(launch.key)])
    assert path.read_text().startswith("one\ntwo\n")
    assert "[openpai-runtime] task starts" in path.with_name("runtime.log").read_text()


async def until_written(path: Path, text: str) -> None:
    async with asyncio.timeout(120):
        while read(path) != text:  # noqa: ASYNC110  # files have no events
            await asyncio.sleep(0.02)


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def arrived(log: Path, words: str) -> None:
    """Wait until the last line of a log has these words."""
    async with asyncio.timeout(240):
        while words not in await asyncio.to_thread(_end_of, log):  # noqa: ASYNC110  # a file raises no event
            await asyncio.sleep(0.1)


def _end_of(log: Path) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(-min(log.stat().st_size, 1000), 2)
        return file.read().decode()


async def test_a_log_that_the_node_rotates_arrives_whole(gpu_driver: FakeGpuDriver, tmp_path: Path) -> None:
    """The kubelet of this node rotates a log of more than a megabyte, twice while this one is written.

    What is written in the moment of a rotation, or to a part that is removed, the kubelet itself may not read: the task
    waits for its reader, and for the next part.
    """
    lines, part = 7_200, 2_400
    commands = f"""
i=0
while [ $i -lt {lines} ]; do
  echo "line $i {"." * 450}"
  i=$((i+1))
  while [ $((i % {part})) = 0 ] && [ $i -lt {lines} ] && [ ! -e /tmp/go-$i ]; do sleep 0.1; done
done
"""
    parts = gpu_driver.node.root / "pods"
    launch = task(gpu_driver, "rotated", (), commands)
    async with backend(gpu_driver, tmp_path) as made:
        await made.apply([launch])
        async with KubeClient(cluster_access(gpu_driver.node.plane.kubeconfig)) as kube:
            for written in range(part, lines, part):
                await arrived(tmp_path / launch.key.path() / "stdout.log", f"line {written - 1} ")
                name = made.new_attempt(launch.key).name
                async with asyncio.timeout(60):
                    while len(list(parts.glob(f"*_{name}_*/task/0.log.*"))) < written // part:  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
                async with await kube.exec(name, "default", ["touch", f"/tmp/go-{written}"]) as session:
                    assert (await session.collect())[0] == 0
        assert (await end_of(made, launch.key)).code == 0
        message = (await log_of(made, launch.key, tmp_path)).splitlines()
        await made.apply([ForgetTask(launch.key)])
    numbers = [int(line.split()[1].rstrip(".")) for line in message]
    assert numbers == list(range(lines))

"""A real kubelet that counts devices and chooses among them: the books come to name what each task really has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.kubernetes.backend import KubernetesBackend, KubernetesOptions
from openpai.backends.kubernetes.received import named_in
from openpai.kube.config import cluster_access
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import KillTask, LaunchTask, NodeSeen
from tests.kube.fake_device_plugin import FakeDevicePlugin
from tests.kube.images import SHELL_IMAGE
from tests.kube.node import real_node, why_no_node
from tests.kube.server import control_plane

pytestmark = pytest.mark.full
UUIDS = [f"GPU-{letter * 8}-1111-2222-3333-444444444444" for letter in "abcd"]


@pytest.fixture
def plugin() -> Iterator[FakeDevicePlugin]:
    if reason := why_no_node():
        pytest.skip(reason)
    with control_plane(controllers=True) as plane, real_node(plane, subnet=243) as node:
        made = FakeDevicePlugin(node, UUIDS)
        made.start()
        try:
            yield made
        finally:
            made.close()


async def the_node(made: KubernetesBackend, gpus: int) -> NodeSeen:
    while True:
        (node,) = await made.nodes()
        if node.gpus == gpus:
            return node
        await asyncio.sleep(0.1)


async def names(made: KubernetesBackend, at: tuple[int, ...], wanted: set[str]) -> None:
    while {(await the_node(made, 4)).devices[index] for index in at} != wanted:  # noqa: ASYNC110  # nodes have no events
        await asyncio.sleep(0.1)


async def begun(made: KubernetesBackend, key: AttemptKey) -> str:
    """Return the name of a task's pod once its container runs."""
    while not any(seen.key == key and seen.started_at_ms for seen in await made.observe()):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    attempt = made._register.get(key)
    assert attempt is not None
    return attempt.name


async def test_grants_come_to_name_what_the_kubelet_chose(plugin: FakeDevicePlugin, tmp_path: Path) -> None:
    options = KubernetesOptions(namespace="default")
    made = KubernetesBackend(cluster_access(plugin.node.plane.kubeconfig), b"secret", SystemClock(), options, tmp_path)
    await made.open()
    try:
        async with asyncio.timeout(240):
            await the_node(made, 4)
            held: list[set[str]] = []
            keys = [AttemptKey(f"job{number}", 0, "worker", 0, 0) for number in range(2)]
            for number, devices in enumerate(((3,), (0, 2))):
                node = plugin.node.name
                launch = LaunchTask(keys[number], number + 1, node, devices, 1, 128, SHELL_IMAGE, "exec sleep 1000")
                await made.apply([launch])
                pod = await begun(made, keys[number])
                held.append(set(plugin.allocated[number]))
                assert len(held[number]) == len(devices)
                await names(made, devices, held[number])
                # A kubelet that says nothing would be asked through the container, with the same answer.
                assert set(named_in(await made._received._answer(pod), plugin.resource)) == held[number]
            assert not held[0] & held[1]
            await names(made, (3,), held[0])
            await made.apply([KillTask(key, 1.0) for key in keys])
            while not all(seen.exit for seen in await made.observe()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    finally:
        await made.close()

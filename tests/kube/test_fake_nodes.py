"""Fake nodes report pods as a kubelet does."""

from __future__ import annotations

from typing import Any

from openpai.kube.client import KubeClient
from openpai.kube.objects import NODES, PODS
from tests.kube.fake_nodes import FakeNodes, wait


def a_pod(name: str, node: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}]
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "restartPolicy": "Never", "containers": containers}}


async def test_a_pod_starts_ends_and_goes(kube: KubeClient, kube_namespace: str, kube_nodes: FakeNodes) -> None:
    [node] = await kube_nodes.add(gpus=4)
    assert (await kube.get(NODES, node)).is_ready
    await kube.create(PODS, a_pod("a", node), kube_namespace)
    pod = await kube_nodes.pod("a", kube_namespace, phase="Running")
    assert pod.status.container_statuses[0].state.running is not None
    await kube_nodes.finish(pod, 3)
    pod = await kube_nodes.pod("a", kube_namespace, phase="Failed")
    ended = pod.status.container_statuses[0].state.terminated
    assert ended is not None
    assert ended.exit_code == 3
    changes = kube_nodes.pods.subscribe()
    await kube.delete(PODS, "a", kube_namespace, uid=pod.uid)
    async for change in changes:
        if change.is_deletion:
            break
    assert await kube.find(PODS, "a", kube_namespace) is None


async def test_a_deleted_pod_of_a_dead_node_stays(kube: KubeClient, kube_namespace: str, kube_nodes: FakeNodes) -> None:
    node, other = await kube_nodes.add(2)
    kube_nodes.plays["late"] = wait
    for name, place in (("a", node), ("late", other)):
        await kube.create(PODS, a_pod(name, place), kube_namespace)
    pod = await kube_nodes.pod("a", kube_namespace, phase="Running")
    kube_nodes.dead.add(node)
    await kube.delete(PODS, "a", kube_namespace, uid=pod.uid)
    late = await kube_nodes.pod("late", kube_namespace)
    await kube_nodes.refuse(late)
    late = await kube_nodes.pod("late", kube_namespace, phase="Failed")
    assert late.status.reason == "OutOfcpu"
    assert (await kube.get(PODS, "a", kube_namespace)).is_deleting

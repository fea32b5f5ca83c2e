"""Pods on a real node: logs, commands in containers, and what a kubelet reports when they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.errors import KubeError
from openpai.kube.exec import STDOUT
from openpai.kube.objects import PODS
from openpai.kube.objects.pods import Pod
from openpai.kube.reflector import Reflector
from tests.kube.images import SHELL_IMAGE
from tests.kube.node import RealNode

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture
async def kube(kube_node: RealNode) -> AsyncIterator[KubeClient]:
    async with KubeClient(cluster_access(kube_node.plane.kubeconfig)) as client:
        yield client


def a_pod(name: str, node: RealNode, script: str) -> dict[str, Any]:
    container = {"name": "main", "image": SHELL_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    spec = {
        "nodeName": node.name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def phase(pods: Reflector[Pod], name: str, *phases: str) -> Pod:
    changes = pods.subscribe()
    async for change in changes:
        if change.new is not None and change.new.name == name and change.new.status.phase in phases:
            return change.new
    raise AssertionError("unreachable")


async def test_a_pod_runs_is_read_and_ends(kube: KubeClient, kube_node: RealNode) -> None:
    async with Reflector(kube, PODS, "default") as pods:
        await pods.synced.wait()
        await kube.create(PODS, a_pod("ends", kube_node, "echo hello; exit 3"), "default")
        pod = await phase(pods, "ends", "Failed")
        ended = pod.status.container_statuses[0].state.terminated
        assert ended is not None
        assert ended.exit_code == 3
        assert b"".join([chunk async for chunk in kube.logs("ends", "default")]) == b"hello\n"
        for limit, found in ((1000, b"hello\n"), (3, b"hel")):
            assert [chunk async for chunk in kube.logs("ends", "default", limit_bytes=limit)] == [found]


async def test_commands_run_in_a_container(kube: KubeClient, kube_node: RealNode) -> None:
    async with Reflector(kube, PODS, "default") as pods:
        await kube.create(PODS, a_pod("long", kube_node, "exec sleep 1000"), "default")
        await phase(pods, "long", "Running")
        async with await kube.exec("long", "default", ["sh", "-c", "cat; echo no >&2; exit 7"], stdin=True) as session:
            await session.write(b"yes" * 100_000)
            await session.close_stdin()
            assert await session.collect() == (7, b"yes" * 100_000, b"no\n")
        async with await kube.exec("long", "default", ["sh", "-c", "echo; exec cat"], stdin=True, tty=True) as session:
            outputs = aiter(session)
            await anext(outputs)
            await session.resize(80, 25)
            await session.write(b"typed\n")
            echo = await anext(outputs)
            assert echo.channel == STDOUT
            assert echo.data.startswith(b"typed")
        with pytest.raises(KubeError) as refused:
            await kube.exec("none", "default", ["true"])
        assert refused.value.is_missing
        await kube.delete(PODS, "long", "default", grace_s=0)


async def test_a_log_is_followed_while_it_grows(kube: KubeClient, kube_node: RealNode) -> None:
    async with Reflector(kube, PODS, "default") as pods:
        script = "echo one; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo two"
        await kube.create(PODS, a_pod("grows", kube_node, script), "default")
        pod = await phase(pods, "grows", "Running")
        seen = b""
        async for chunk in kube.logs("grows", "default", follow=True, since=pod.metadata.creation_timestamp):
            if not seen:
                async with await kube.exec("grows", "default", ["touch", "/tmp/go"]) as session:
                    assert (await session.collect())[0] == 0
            seen += chunk
        assert seen == b"one\ntwo\n"


@pytest.mark.full
async def test_a_node_that_loses_its_power_comes_back(kube: KubeClient, kube_node: RealNode) -> None:
    async with Reflector(kube, PODS, "default") as pods:
        await kube.create(PODS, a_pod("lost", kube_node, "exec sleep 1000"), "default")
        pod = await phase(pods, "lost", "Running")
        kube_node.lose_power()
        await kube.delete(PODS, "lost", "default", uid=pod.uid)
        await asyncio.sleep(0)
        assert (await kube.get(PODS, "lost", "default")).is_deleting
        kube_node.power_on()
        changes = pods.subscribe()
        async for change in changes:
            if change.is_deletion and change.last.name == "lost":
                break

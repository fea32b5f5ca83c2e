"""Lets the kubernetes backend sit the contract suite on a real node: kubelet, containerd, real containers and logs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from pathlib import Path
from typing import Final

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.kubernetes.backend import KubernetesBackend, KubernetesOptions
from openpai.backends.kubernetes.names import pod_name
from openpai.backends.kubernetes.node_health import NodeRules
from openpai.backends.kubernetes.nodes import MODE_LABEL
from openpai.backends.kubernetes.pods import PodOptions
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects import NAMESPACES, NODES, PODS, kind
from openpai.kube.reflector import Reflector
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend
from tests.contracts.docker_harness import ContainerPrograms
from tests.contracts.harness import Harness, processes_with_mount
from tests.contracts.kubernetes_harness import remove_pod
from tests.kube.images import SHELL_IMAGE
from tests.kube.node import RealNode, why_no_node

_ACCOUNTS: Final = kind("v1", "ServiceAccount", "serviceaccounts")
_LOOK_EVERY_S: Final = 0.05
_DEVICES: Final = {MODE_LABEL: "env", "openpai/gpus": "4"}


class KubernetesNodeHarness(Harness):
    """A kubernetes backend over a namespace of its own and the one node of a real cluster, with pretended devices."""

    programs = ContainerPrograms()
    image = SHELL_IMAGE
    merges_streams = True
    cpus = os.cpu_count() or 1
    machine: RealNode

    @classmethod
    def why_not(cls) -> str | None:
        return why_no_node() or None

    @classmethod
    def prepare(cls, request: pytest.FixtureRequest) -> None:
        cls.machine = request.getfixturevalue("kube_node")

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.access = cluster_access(self.machine.plane.kubeconfig)
        self.namespace = f"t-{uuid.uuid4().hex[:8]}"
        self.secret = uuid.uuid4().bytes
        self.uids: dict[str, str] = {}
        self.client: KubeClient | None = None
        self._world = contextlib.AsyncExitStack()

    def make(self) -> KubernetesBackend:
        options = KubernetesOptions(
            namespace=self.namespace,
            pods=PodOptions(host_network=True, fetch_mb_max=int(self.keeps_work)),
            nodes=NodeRules({"kubernetes.io/hostname": self.machine.name}),
        )
        return KubernetesBackend(self.access, self.secret, SystemClock(), options, self.logs, self.kept)

    async def start(self) -> Backend:
        if self.client is None:
            self.client = await self._world.enter_async_context(KubeClient(self.access))
            await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
            await self.client.patch(NODES, self.machine.name, {"metadata": {"labels": _DEVICES}})
            while await self.client.find(_ACCOUNTS, "default", self.namespace) is None:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_EVERY_S)
            pods = await self._world.enter_async_context(Reflector(self.client, PODS, self.namespace))
            follower = asyncio.create_task(self._follow(pods))
            self._world.callback(follower.cancel)
        return await super().start()

    async def _follow(self, pods: Reflector) -> None:  # type: ignore[type-arg]
        async for change in pods.subscribe():
            self.uids[change.last.name] = change.last.uid

    async def destroy(self) -> None:
        await self.stop()
        if self.client is not None:
            for pod in await self.client.list(PODS, self.namespace):
                await remove_pod(self.client, pod)
            await self.client.delete(NAMESPACES, self.namespace)
        await self._world.aclose()

    async def resume(self, key: AttemptKey) -> None:
        volume = f"kubelet/pods/{self.uids[self.pod_of(key)]}/volumes/kubernetes.io~empty-dir/pai-task"
        (self.machine.root / volume / "resume").touch()

    def processes(self, key: AttemptKey) -> int:
        uid = self.uids.get(self.pod_of(key))
        marker = f"/pods/{uid}/volumes/kubernetes.io~empty-dir/pai-task /usr/local/pai "
        return processes_with_mount(marker)

    def pod_of(self, key: AttemptKey) -> str:
        """Return the name of an attempt's pod."""
        return pod_name(self.make()._seals.scope, key)

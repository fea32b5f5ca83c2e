"""Nodes without machines: Node objects that stay Ready, and pods that do what a test says, reported as by a kubelet.

A pod that is bound to one of these nodes starts by itself unless `plays` says otherwise, runs until the test ends it,
and goes when it is deleted. The statuses have the fields that a kubelet of 1.36 writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Self

from openpai.kube.client import MERGE_PATCH, KubeClient
from openpai.kube.errors import KubeError, KubeUnavailable
from openpai.kube.objects import LEASES, NODES, PODS
from openpai.kube.objects.pods import Pod
from openpai.kube.reflector import Reflector
from tests.kube import fake_status as status

HEARTBEAT_S: Final = 10.0
LABEL: Final = "openpai-test/nodes"
"""The label of the nodes of one test; nodes belong to no namespace, and tests share an API server."""

Play = Callable[["FakeNodes", Pod], Awaitable[None]]


async def run(nodes: FakeNodes, pod: Pod) -> None:
    """Start a pod; it runs until the test ends it."""
    await nodes.start(pod)


async def wait(nodes: FakeNodes, pod: Pod) -> None:
    """Leave a pod Pending."""


class FakeNodes:
    """Nodes of one test. Use it as an asynchronous context: its nodes and leases are removed at the end."""

    def __init__(self, client: KubeClient, namespace: str = "", *, play: Play = run) -> None:
        self.id = uuid.uuid4().hex[:8]
        self.label = f"{LABEL}={self.id}"
        """The selector of these nodes."""
        self.play = play
        self.plays: dict[str, Play] = {}
        """What pods of a name do, where it is not what all do."""
        self.hold_deletions = False
        """Whether deleted pods stay Terminating, as on a node that hangs."""
        self.names: list[str] = []
        self.dead: set[str] = set()
        """Nodes whose kubelet does nothing any more: no lease, no pod status, no deletion."""
        self.pods = Reflector(client, PODS, namespace)
        self.given: dict[str, dict[str, list[str]]] = {}
        """By pod, the devices of each extended resource that its container got; of others, the status does not say."""
        self._client = client
        self._met: set[str] = set()
        self._ending: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._spawn(self._beat())
        self._spawn(self._follow())
        self.pods.start()
        await self.pods.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pods.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for name in self.names:
            await self.remove(name)

    async def add(
        self,
        count: int = 1,
        *,
        gpus: int = 8,
        cpu: str = "64",
        memory: str = "512Gi",
        labels: Mapping[str, str] | None = None,
        taints: Iterable[Mapping[str, str]] = (),
        resources: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Add nodes that are alike, and return their names."""
        room = {"cpu": cpu, "memory": memory, "pods": "250", "ephemeral-storage": "1Ti", **(resources or {})}
        if gpus:
            room["nvidia.com/gpu"] = str(gpus)
        first = len(self.names)
        names = [f"n{self.id}-{number}" for number in range(first, first + count)]
        given = {LABEL: self.id, **(labels or {})}
        for start in range(0, count, 32):
            await asyncio.gather(*(self._add(name, room, given, list(taints)) for name in names[start : start + 32]))
        self.names += names
        return names

    async def _add(
        self, name: str, room: Mapping[str, str], labels: Mapping[str, str], taints: list[Mapping[str, str]]
    ) -> None:
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **labels}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}
        await self._client.create(NODES, body)
        await self._client.patch(NODES, name, {"status": status.node(name, room)}, subresource="status")
        # The API server taints a new node until it is ready, and the node controller, which is not here, removes it.
        await self._client.patch(NODES, name, {"spec": {"taints": taints}})
        await self._renew(name, is_new=True)

    async def remove(self, name: str) -> None:
        """Remove a node's objects, as when its machine was taken out of the cluster."""
        for kind, namespace in ((NODES, ""), (LEASES, "kube-node-lease")):
            with contextlib.suppress(KubeError):
                await self._client.delete(kind, name, namespace)
        self.dead.add(name)

    async def set_ready(self, name: str, is_ready: bool = True, reason: str = "KubeletNotReady") -> None:
        """Report a node as ready or not, as its kubelet does."""
        condition = status.ready_condition(is_ready, reason)
        await self._client.patch(NODES, name, {"status": {"conditions": [condition]}}, subresource="status")

    async def cordon(self, name: str, is_cordoned: bool = True) -> None:
        """Cordon a node, or uncordon it."""
        await self._client.patch(NODES, name, {"spec": {"unschedulable": is_cordoned}})

    async def taint(self, name: str, *taints: Mapping[str, str]) -> None:
        """Give a node these taints and no other."""
        await self._client.patch(NODES, name, {"spec": {"taints": list(taints)}})

    async def start(self, pod: Pod, ip: str = "10.244.0.7") -> None:
        """Let a pod's containers run."""
        await self._report(pod, status.running(pod, ip, self.given.get(pod.name, {})))

    async def finish(self, pod: Pod, exit_code: int = 0, reason: str = "", message: str = "", signal: int = 0) -> None:
        """Let a pod's containers end."""
        await self._report(pod, status.ended(pod, exit_code, reason, message, signal))

    async def refuse(
        self, pod: Pod, reason: str = "OutOfcpu", message: str = "Node didn't have enough resource: cpu"
    ) -> None:
        """Refuse a pod, as a kubelet does whose node has no room for it."""
        await self._report(pod, {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"})

    async def evict(self, pod: Pod, message: str = "The node was low on resource: memory.") -> None:
        """Evict a pod, as a kubelet under pressure does."""
        await self._report(
            pod, {**status.ended(pod, 137, "Error"), "phase": "Failed", "reason": "Evicted", "message": message}
        )

    async def stick(
        self, pod: Pod, reason: str = "ImagePullBackOff", message: str = 'Back-off pulling image "x"'
    ) -> None:
        """Report that a container cannot start."""
        await self._report(pod, status.waiting(pod, reason, message))

    async def pod(self, name: str, namespace: str, *, phase: str = "") -> Pod:
        """Return a pod once it exists, or has a phase."""
        changes = self.pods.subscribe()
        try:
            async for change in changes:
                found = change.new
                if found is None or (found.name, found.namespace) != (name, namespace):
                    continue
                if not phase or found.status.phase == phase:
                    return found
        finally:
            self.pods.unsubscribe(changes)
        raise AssertionError("unreachable")

    async def _report(self, pod: Pod, found: dict[str, Any]) -> None:
        # The UID keeps a report about an earlier pod from a later one of the same name.
        body = {"metadata": {"uid": pod.uid}, "status": found}
        while True:
            try:
                await self._client.patch(
                    PODS, pod.name, body, pod.namespace, how=MERGE_PATCH, subresource="status", manager="kubelet"
                )
            except KubeUnavailable:
                # A kubelet reports until it is heard.
                await asyncio.sleep(0.1)
                continue
            except KubeError as error:
                if not error.is_missing and not error.is_conflict:
                    raise
            return

    async def _follow(self) -> None:
        changes = self.pods.subscribe()
        async for change in changes:
            pod = change.new
            if pod is None or pod.spec.node_name not in self.names or pod.spec.node_name in self.dead:
                continue
            if pod.is_deleting and not self.hold_deletions:
                if pod.uid not in self._ending:
                    self._ending.add(pod.uid)
                    self._spawn(self._end(pod))
            elif pod.uid not in self._met and not pod.has_ended:
                self._met.add(pod.uid)
                self._spawn(self.plays.get(pod.name, self.play)(self, pod))

    async def _end(self, pod: Pod) -> None:
        """End a deleted pod: the exit of its containers is reported, and then it is removed."""
        if not pod.has_ended:
            await self.finish(pod, 143, "Error")
        with contextlib.suppress(KubeError):
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_s=0)

    async def release_deletions(self) -> None:
        """Let go of the pods that `hold_deletions` kept."""
        self.hold_deletions = False
        for pod in list(self.pods):
            if pod.is_deleting and pod.spec.node_name in self.names and pod.spec.node_name not in self.dead:
                await self._end(pod)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            for name in self.names:
                if name not in self.dead:
                    await self._renew(name)

    async def _renew(self, name: str, *, is_new: bool = False) -> None:
        renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}
        body = {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec}
        with contextlib.suppress(KubeError):
            if is_new:
                await self._client.create(LEASES, body, "kube-node-lease")
            else:
                await self._client.patch(LEASES, name, {"spec": spec}, "kube-node-lease")

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "a fake node failed", "exception": error})

"""A real API server and kube-scheduler whose extender is ours, in a process of its own, over fake nodes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx

from openpai.extender import annotations
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects import PODS, kind
from openpai.kube.objects.pods import Pod
from tests.fork_server import start_pai
from tests.kube.fake_nodes import FakeNodes
from tests.kube.server import ASSETS
from tests.ports import free_port

PRIORITY_CLASSES = kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", is_namespaced=False)
PATIENCE_S = 90.0
LEAVES = 4
"""Leaf cells of a node; each comes with one CPU, so that a full node is full for Kubernetes, too."""
CONFIG = """
physicalCluster:
  cellTypes:
    SWITCH: {{childCellType: GPU, childCellNumber: 2}}
    NODE: {{childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}}
    RACK: {{childCellType: NODE, childCellNumber: {count}}}
  physicalCells:
  - cellType: RACK
    cellChildren: [{nodes}]
virtualClusters:
  a: {{virtualCells: [{{cellType: RACK.NODE, cellNumber: {first}}}]}}
  b: {{virtualCells: [{{cellType: RACK.NODE, cellNumber: {rest}}}]}}
"""


class HivedWorld:
    """Nodes, kube-scheduler and extender of one test. Use it as an asynchronous context."""

    def __init__(self, kubeconfig: Path, client: KubeClient, namespace: str, place: Path) -> None:
        self.kubeconfig = kubeconfig
        self.client = client
        self.namespace = namespace
        self.place = place
        self.nodes = FakeNodes(client, namespace)
        self.names: list[str] = []
        self.port = free_port()
        self.extender: subprocess.Popen[bytes]
        """The process that was started last."""
        self._extenders: list[subprocess.Popen[bytes]] = []
        self._scheduler: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        await self.nodes.__aenter__()
        for level in ("low", "high"):
            body = {"metadata": {"name": self.priority_class(level)}, "value": 1000 if level == "high" else 10}
            await self.client.create(PRIORITY_CLASSES, body)
        return self

    async def __aexit__(self, *error: object) -> None:
        for process in (self._scheduler, *self._extenders):
            if process is not None:
                process.kill()
                process.wait(30)
        for pod in list(self.nodes.pods):
            await self._gone(pod.name)
        for level in ("low", "high"):
            await self.client.delete(PRIORITY_CLASSES, self.priority_class(level))
        await self.nodes.__aexit__(*error)

    def priority_class(self, level: str) -> str:
        return f"hived-{self.nodes.id}-{level}"

    async def start(self, first: int = 2, rest: int = 2, cpu: str = str(LEAVES), *more: str) -> None:
        """Add nodes, of which virtual cluster a was promised the `first`, and start extender and kube-scheduler."""
        self.names = await self.nodes.add(first + rest, gpus=0, cpu=cpu)
        self.configure(first, rest)
        await self.start_extender(*more)
        self._start_scheduler()

    def configure(self, first: int, rest: int) -> None:
        """Write the configuration of the extender."""
        listed = ", ".join(f"{{cellAddress: {name}}}" for name in self.names)
        text = CONFIG.format(count=len(self.names), nodes=listed, first=first, rest=rest)
        (self.place / "hived.yaml").write_text(text)

    async def start_extender(self, *more: str) -> None:
        """Start the extender, and wait until it answers, or with a lease until it listens."""
        ready = self.place / "ready.json"
        ready.unlink(missing_ok=True)
        words = [
            "scheduler", "extender", "--config", str(self.place / "hived.yaml"), "--kubeconfig", str(self.kubeconfig),
            "--listen", f"127.0.0.1:{self.port}", "--ready-file", str(ready), *more,
        ]  # fmt: skip
        with (self.place / "extender.log").open("ab") as log:
            self.extender = start_pai(words, os.environ, log)
        self._extenders.append(self.extender)
        async with asyncio.timeout(PATIENCE_S):
            while not ready.exists():
                assert self.extender.poll() is None, (self.place / "extender.log").read_text()
                await asyncio.sleep(0.02)

    def kill_extender(self) -> None:
        """End the extender as a crash does."""
        self.extender.kill()
        self.extender.wait(30)

    def _start_scheduler(self) -> None:
        enable = {"name": annotations.ENABLE, "ignoredByScheduler": True}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "profiles": [{"schedulerName": self.nodes.id}],
            "extenders": [
                {
                    "urlPrefix": f"http://127.0.0.1:{self.port}/v1/extender",
                    "filterVerb": "filter",
                    "preemptVerb": "preempt",
                    "bindVerb": "bind",
                    "nodeCacheCapable": True,
                    "ignorable": False,
                    "managedResources": [enable],
                }
            ],
        }
        config = self.place / "scheduler.json"
        config.write_text(json.dumps(document))
        command = [str(ASSETS / "kube-scheduler"), f"--config={config}", "--secure-port=0", "-v=2"]
        with (self.place / "kube-scheduler.log").open("ab") as log:
            self._scheduler = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    async def create(self, name: str, vc: str = "a", leaves: int = LEAVES, level: str = "low", **spec: Any) -> str:
        """Create a pod as OpenPAI does: its CPUs go along with its leaf cells, its environment with the annotation."""
        text = json.dumps({"virtualCluster": vc, "leafCellNumber": leaves, **spec})
        source = {"fieldRef": {"fieldPath": f"metadata.annotations['{annotations.ISOLATION}']"}}
        container = {
            "name": "main",
            "image": "none",
            "resources": {"limits": {annotations.ENABLE: "1", "cpu": str(leaves)}},
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}],
        }
        body = {
            "metadata": {"name": name, "annotations": {annotations.SPEC: text}},
            "spec": {
                "schedulerName": self.nodes.id,
                "priorityClassName": self.priority_class(level),
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
            },
        }
        await self.client.create(PODS, body, self.namespace)
        return name

    async def gang(self, group: str, pods: int, vc: str = "a", leaves: int = LEAVES, **spec: Any) -> list[str]:
        """Create the pods of an affinity group."""
        members = {"name": f"{self.nodes.id}/{group}", "members": [{"podNumber": pods, "leafCellNumber": leaves}]}
        names = [f"{group}-{number}" for number in range(pods)]
        for name in names:
            await self.create(name, vc, leaves, affinityGroup=members, **spec)
        return names

    async def until(self, name: str, holds: Callable[[Pod], Any]) -> Pod:
        """Return a pod as soon as this holds for it."""
        changes = self.nodes.pods.subscribe()
        last: Pod | None = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for change in changes:
                    if change.new is not None and change.new.name == name:
                        last = change.new
                        if holds(last):
                            return last
        except TimeoutError:
            pass
        finally:
            self.nodes.pods.unsubscribe(changes)
        logs = [(self.place / f"{part}.log").read_text()[-3000:] for part in ("extender", "kube-scheduler")]
        raise AssertionError(f"pod {name} did not get there: {last}\n" + "\n".join(logs))

    async def placed(self, *names: str) -> list[str]:
        """Return `node:leaf cells` of pods once they run."""
        pods = [await self.until(name, lambda pod: pod.status.phase == "Running") for name in names]
        return [f"{pod.spec.node_name}:{pod.metadata.annotation(annotations.ISOLATION)}" for pod in pods]

    async def waits(self, name: str, reason: str) -> None:
        """Wait until a pod shows why it is not scheduled."""

        def says_so(pod: Pod) -> bool:
            scheduled = pod.status.condition("PodScheduled")
            return scheduled is not None and reason in scheduled.message

        await self.until(name, says_so)

    async def delete(self, *names: str) -> None:
        """Delete pods, and wait until they are gone."""
        for name in names:
            await self._gone(name)

    async def _gone(self, name: str) -> None:
        try:
            await self.client.delete(PODS, name, self.namespace, grace_s=0)
        except KubeError as error:
            if not error.is_missing:
                raise

    async def healthy(self, status: int) -> None:
        """Wait until this is the status of the extender's health."""
        async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(timeout=PATIENCE_S) as http:
            while (await http.get(f"http://127.0.0.1:{self.port}/healthz")).status_code != status:  # noqa: ASYNC110  it is another process
                await asyncio.sleep(0.1)

    async def inspect(self, path: str) -> Any:
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
            return (await http.get(f"http://127.0.0.1:{self.port}/v1/inspect/{path}")).json()

    async def inspected(self, path: str, holds: Callable[[Any], bool]) -> None:
        """Wait until this holds for an answer of the inspect API."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds(await self.inspect(path)):  # noqa: ASYNC110  it is another process
                await asyncio.sleep(0.1)

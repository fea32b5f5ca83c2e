"""Lets the kubernetes backend sit the contract suite: a real API server, and nodes that play the programs of pods."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.kubernetes.backend import KubernetesBackend, KubernetesOptions
from openpai.backends.kubernetes.names import FINALIZER, pod_name
from openpai.backends.kubernetes.node_health import NodeRules
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.errors import KubeError
from openpai.kube.objects import NAMESPACES, PODS
from openpai.kube.objects.pods import Pod
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Backend
from tests.contracts.harness import Harness
from tests.contracts.simulated_harness import SimulatedPrograms
from tests.kube.fake_nodes import LABEL, FakeNodes
from tests.kube.server import why_not

_LOOK_EVERY_S: Final = 0.02
_TRAP: Final = re.compile(r"trap '(.*)' TERM")


class PlayingNodes(FakeNodes):
    """Fake nodes whose pods do what their script says, in the few words of simulated programs."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        super().__init__(client, namespace, play=_play)
        self.output: dict[str, str] = {}
        self.running: set[str] = set()
        self.exits: set[str] = set()
        """Pods whose exit is reported, or about to be."""
        self.resumed: dict[str, asyncio.Event] = {}
        self.terminated: dict[str, asyncio.Event] = {}

    def resume(self, name: str) -> None:
        self.resumed.setdefault(name, asyncio.Event()).set()

    def say(self, name: str, text: str) -> None:
        self.output[name] = self.output.get(name, "") + f"{text}\n"

    async def script(self, pod: Pod) -> str:
        """Return the user's script, from the Secret that the pod mounts."""
        found = json.loads(await self._client.raw("GET", PODS.path(pod.namespace, pod.name)))
        for volume in found["spec"]["volumes"]:
            for source in volume.get("projected", {}).get("sources", ()):
                path = f"/api/v1/namespaces/{pod.namespace}/secrets/{source['secret']['name']}"
                data = json.loads(await self._client.raw("GET", path))["data"]
                if "user.sh" in data:
                    return base64.b64decode(data["user.sh"]).decode()
        raise AssertionError(f"{pod.name} has no script")

    async def exit(self, pod: Pod, code: int) -> None:
        """Let a pod's program end, once."""
        if pod.uid in self.running and pod.uid not in self.exits:
            self.exits.add(pod.uid)
            await self.finish(pod, code, "Completed" if code == 0 else "Error")
            self.running.discard(pod.uid)

    async def _end(self, pod: Pod) -> None:
        self.terminated.setdefault(pod.uid, asyncio.Event()).set()
        while pod.uid in self.running and (pod.uid in self.exits or not self._is_due(pod)):  # noqa: ASYNC110  # what a test waits for, too
            await asyncio.sleep(_LOOK_EVERY_S)
        if pod.uid in self.running:
            await self.exit(pod, 137)
        elif pod.uid not in self.exits and not (self.pods.get(pod.name, pod.namespace) or pod).has_ended:
            await self.finish(pod, 137, "ContainerStatusUnknown")
        with contextlib.suppress(KubeError):
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_s=0)

    def _is_due(self, pod: Pod) -> bool:
        """Return whether the grace period is over, which a second deletion may have shortened."""
        now = self.pods.get(pod.name, pod.namespace) or pod
        at = now.metadata.deletion_timestamp
        return at is not None and datetime.now(UTC) >= at


async def _play(nodes: FakeNodes, pod: Pod) -> None:
    assert isinstance(nodes, PlayingNodes)
    lines = (await nodes.script(pod)).splitlines()
    if (nodes.pods.get(pod.name, pod.namespace) or pod).is_deleting:
        return
    nodes.running.add(pod.uid)
    await nodes.start(pod)
    terminated = nodes.terminated.setdefault(pod.uid, asyncio.Event())
    resumed = nodes.resumed.setdefault(pod.name, asyncio.Event())
    on_term: str | None = None
    code = 0
    for line in lines[lines.index("trap 'exit 143' TERM") + 1 :]:
        if trap := _TRAP.fullmatch(line):
            on_term = trap[1]
        elif line.startswith("echo "):
            nodes.say(pod.name, line.removeprefix("echo "))
        elif line in ("sleep infinity", "read word"):
            wait = resumed.wait() if line == "read word" else asyncio.Event().wait()
            if await _first(wait, terminated.wait()) == 1:
                code = await _terminated(nodes, pod, on_term)
                break
        elif line.startswith("exit "):
            code = int(line.removeprefix("exit "))
            break
    await nodes.exit(pod, code)


async def _terminated(nodes: PlayingNodes, pod: Pod, on_term: str | None) -> int:
    if on_term is None:
        return 143
    if not on_term:
        await asyncio.Event().wait()
    words, _, code = on_term.partition("; exit ")
    nodes.say(pod.name, words.removeprefix("echo "))
    return int(code)


async def _first(*waits: object) -> int:
    tasks = [asyncio.ensure_future(wait) for wait in waits]  # type: ignore[call-overload]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(number for number, task in enumerate(tasks) if task.done())
    finally:
        for task in tasks:
            task.cancel()


class KubernetesHarness(Harness):
    """A kubernetes backend over a namespace and two fake nodes of its own."""

    measures = False
    runs_shell = False
    has_shells = False
    programs = SimulatedPrograms()
    kubeconfig: Path

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.access = cluster_access(self.kubeconfig)
        self.namespace = f"t-{uuid.uuid4().hex[:8]}"
        self.secret = uuid.uuid4().bytes
        self.nodes: PlayingNodes | None = None
        self.client: KubeClient | None = None
        self._world = contextlib.AsyncExitStack()

    @classmethod
    def why_not(cls) -> str | None:
        return why_not() or None

    @classmethod
    def prepare(cls, request: pytest.FixtureRequest) -> None:
        cls.kubeconfig = request.getfixturevalue("kube_api")

    def make(self) -> KubernetesBackend:
        assert self.nodes is not None
        options = KubernetesOptions(namespace=self.namespace, nodes=NodeRules({LABEL: self.nodes.id}))
        return KubernetesBackend(self.access, self.secret, SystemClock(), options)

    async def start(self) -> Backend:
        if self.nodes is None:
            self.client = await self._world.enter_async_context(KubeClient(self.access))
            await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
            self.nodes = await self._world.enter_async_context(PlayingNodes(self.client, self.namespace))
            await self.nodes.add(2, gpus=4)
        return await super().start()

    async def destroy(self) -> None:
        await self.stop()
        if self.client is not None:
            for pod in await self.client.list(PODS, self.namespace):
                await remove_pod(self.client, pod)
        await self._world.aclose()

    async def resume(self, key: AttemptKey) -> None:
        self._nodes.resume(self.pod_of(key))

    def processes(self, key: AttemptKey) -> int:
        name = self.pod_of(key)
        running = self._nodes.running - self._nodes.exits
        return sum(pod.name == name and pod.uid in running for pod in self._nodes.pods)

    def output(self, key: AttemptKey) -> str:
        return self._nodes.output.get(self.pod_of(key), "")

    def pod_of(self, key: AttemptKey) -> str:
        """Return the name of an attempt's pod."""
        return pod_name(self.make()._seals.scope, key)

    @property
    def _nodes(self) -> PlayingNodes:
        assert self.nodes is not None
        return self.nodes


async def remove_pod(client: KubeClient, pod: Pod) -> None:
    """Remove a pod, also one that a finalizer keeps."""
    with contextlib.suppress(KubeError):
        if FINALIZER in (pod.metadata.finalizers or ()):
            await client.patch(PODS, pod.name, {"metadata": {"finalizers": None}}, pod.namespace)
        await client.delete(PODS, pod.name, pod.namespace, grace_s=0)

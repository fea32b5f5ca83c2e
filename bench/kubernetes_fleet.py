"""Nodes without machines, as cheap as possible: the API server and what is measured need the processors.

A node is one object and, where it must be able to die, a Lease. Pods stay Pending until they are reported otherwise.
One small server answers for the kubelets of all nodes when the API server asks for logs: they are empty, and end when
the pod ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from bench.server import Connection
from openpai.backends.kubernetes.writes import until_answered
from openpai.kube.client import MERGE_PATCH, KubeClient
from openpai.kube.objects import DEVICE_CLASSES, LEASES, NODES, PODS, RESOURCE_SLICES
from openpai.kube.objects.kinds import Kind
from openpai.kube.objects.pods import Pod
from tests.kube import fake_status as status

LABEL: Final = "openpai-bench/fleet"
AT_ONCE: Final = 40
DRIVER: Final = "gpu.nvidia.com"
GPUS: Final = 8
_LEASES: Final = "kube-node-lease"


class Fleet:
    """Nodes of one label, and the pods on them."""

    def __init__(self, client: KubeClient, name: str, kubelet_port: int) -> None:
        self.name = name
        self.selector = f"{LABEL}={name}"
        self.nodes: list[str] = []
        self.silent: set[str] = set()
        """Nodes whose Leases are not renewed."""
        self._client = client
        self._port = kubelet_port

    async def add(self, count: int, *, claims: bool = False, leases: bool = False) -> None:
        """Add nodes, whose GPUs are counted by the kubelet or, with `claims`, published by a driver."""
        names = [f"{self.name}-{number}" for number in range(count)]
        if claims:
            selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
            await self._client.create(DEVICE_CLASSES, {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}})
        await each(names, lambda name: self._add(name, claims=claims))
        if leases:
            await each(names, self._lease)
        self.nodes += names

    async def _add(self, name: str, *, claims: bool) -> None:
        room = {"cpu": "128", "memory": "1Ti", "pods": "250", "ephemeral-storage": "1Ti"}
        if not claims:
            room["nvidia.com/gpu"] = str(GPUS)
        labels = {LABEL: self.name, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        found = status.node(name, room)
        found["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}]
        found["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._port}}
        # As a kubelet does, which registers its node with its status.
        await create(self._client, NODES, {"metadata": {"name": name, "labels": labels}, "status": found})
        if claims:
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            devices = [{"name": f"gpu-{number}", "attributes": _attributes(name, number)} for number in range(GPUS)]
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            await create(self._client, RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec})

    async def _lease(self, name: str) -> None:
        body = {"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, **_renewed()}}
        await create(self._client, LEASES, body, _LEASES)

    async def beat(self, every_s: float = 10.0) -> None:
        """Renew the Leases, evenly spread over time, until cancelled."""
        waiting = asyncio.Semaphore(AT_ONCE)

        async def renew(name: str) -> None:
            async with waiting:
                await answered(lambda: self._client.patch(LEASES, name, {"spec": _renewed()}, _LEASES))

        async with asyncio.TaskGroup() as renewals:
            loop = asyncio.get_running_loop()
            began_s, turn = loop.time(), 0
            while True:
                name = self.nodes[turn % len(self.nodes)]
                turn += 1
                if name not in self.silent:
                    renewals.create_task(renew(name))
                await asyncio.sleep(max(0.0, began_s + turn * every_s / len(self.nodes) - loop.time()))


def _attributes(node: str, number: int) -> dict[str, Any]:
    return {
        "uuid": {"string": f"GPU-{node}-{number}"},
        "type": {"string": "gpu"},
        "productName": {"string": "Fake H100"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{number + 1:02x}:00.0"},
    }


def _renewed() -> dict[str, str]:
    return {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}


class Kubelets:
    """Answers the API server for the kubelets of all nodes, and reports the states of pods."""

    def __init__(self, client: KubeClient, namespace: str = "") -> None:
        self.port = 0
        self.namespace = namespace
        self._client = client
        self._ended: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def serve(self, certificate: Path) -> AsyncIterator[None]:
        """Answer requests for logs; `certificate` is the path of a certificate and a key without their endings."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.with_suffix(".crt"), certificate.with_suffix(".key"))
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context, shutdown_timeout=0.1)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    async def start(self, pod: Pod) -> None:
        """Report that a pod runs."""
        await self._report(pod, status.running(pod, "10.244.0.7"))

    async def finish(self, pod: Pod) -> None:
        """Report that a pod ended with exit code 0."""
        await self._report(pod, status.ended(pod, 0))
        self._end_of(pod.name).set()

    async def _report(self, pod: Pod, found: dict[str, Any]) -> None:
        body = {"metadata": {"uid": pod.uid}, "status": found}
        named: dict[str, Any] = {"how": MERGE_PATCH, "subresource": "status", "manager": "kubelet"}
        await answered(lambda: self._client.patch(PODS, pod.name, body, pod.namespace, **named))

    def _end_of(self, pod: str) -> asyncio.Event:
        return self._ended.setdefault(pod, asyncio.Event())

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        with contextlib.suppress(ConnectionError):
            await answer.prepare(request)
            if request.query.get("follow") == "true":
                await self._end_of(request.match_info["pod"]).wait()
            await answer.write_eof()
        return answer


class Etcd:
    """Pods as etcd holds them. Written back, each is an event of the API server at less than a request costs.

    The processors are shared with what is measured, so events that only have to arrive must not come through requests.
    """

    def __init__(self, etcd_url: str) -> None:
        self._url = etcd_url
        self._free: list[Connection] = []
        self._values: dict[str, bytes] = {}

    def close(self) -> None:
        """Close the connections."""
        for connection in self._free:
            connection.close()

    async def read(self, pods: Iterable[Pod]) -> None:
        """Read the pods that are to be written back."""

        async def read_one(pod: Pod) -> None:
            key = b64encode(f"/registry/pods/{pod.namespace}/{pod.name}".encode()).decode()
            found = await self._ask("range", msgspec.json.encode({"key": key}))
            self._values[pod.uid] = msgspec.json.encode({"key": key, "value": found["kvs"][0]["value"]})

        await each(pods, read_one)

    async def write(self, pod: Pod) -> int:
        """Write a pod back as it is: its version changes, and nothing else. Return the version."""
        return int((await self._ask("put", self._values[pod.uid]))["header"]["revision"])

    async def _ask(self, what: str, body: bytes) -> Any:
        connection = self._free.pop() if self._free else await Connection.open(self._url)
        status, answer = await connection.ask("POST", f"/v3/kv/{what}", body, "application/json")
        self._free.append(connection)
        if status != 200:
            raise RuntimeError(f"etcd: {status} {answer[:300]!r}")
        return msgspec.json.decode(answer)


async def answered(call: Callable[[], Awaitable[object]]) -> None:
    """Repeat a call while the API server does not answer it: thousands share a busy machine."""

    async def once() -> None:
        await call()

    error = await until_answered(once)
    # An earlier try whose answer was lost had made it.
    if error is not None and not error.is_there_already:
        raise error


async def create(client: KubeClient, kind: Kind[Any], body: dict[str, Any], namespace: str = "") -> None:
    """Create an object, once, however often that is tried."""
    await answered(lambda: client.create(kind, body, namespace))


async def each(items: Iterable[Any], work: Callable[[Any], Awaitable[object]], at_once: int = AT_ONCE) -> None:
    """Do some work for each item, some at a time."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as workers:
        for _ in range(at_once):
            workers.create_task(worker())

"""A driver of GPUs that do not exist, for dynamic resource allocation on a real kubelet.

It registers with the kubelet, publishes ResourceSlices, and prepares claims by what their status allocates. A container
sees each of its GPUs as a variable `FAKE_GPU_N` with the GPU's UUID: through CDI where containerd knows it (1.7 and
newer), else through a runtime that adds the variables, as GPU runtimes did before CDI.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from openpai.kube.objects.devices import ResourceClaim
from tests.kube.node import RealNode

GPUS: Final = [f"GPU-{letter * 8}" for letter in "abcdefgh"]
_CDI: Final = "fake.openpai.test/gpu"
_DRA: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
_REGISTRATION: Final = "pluginregistration.Registration"

_RUNTIME: Final = """#!{python}
# Adds to a container the variables of the GPUs that the driver prepared for its pod, and goes on as runc.
import json, os, sys
arguments = sys.argv[1:]
if "create" in arguments:
    bundle = arguments[arguments.index("--bundle") + 1]
    path = os.path.join(bundle, "config.json")
    config = json.load(open(path))
    notes = config.get("annotations", {{}})
    if notes.get("io.kubernetes.cri.container-type") == "container":
        pod = notes["io.kubernetes.cri.sandbox-namespace"] + "_" + notes["io.kubernetes.cri.sandbox-name"]
        try:
            config["process"]["env"] += json.load(open(os.path.join({state!r}, pod)))
            json.dump(config, open(path, "w"))
        except FileNotFoundError:
            pass
os.execv({runc!r}, [{runc!r}, *arguments])
"""


def knows_cdi() -> bool:
    """Return whether this machine's containerd gives containers devices by CDI."""
    output = subprocess.run(["containerd", "--version"], capture_output=True, text=True, check=True).stdout
    version = next(word for word in output.split() if word.lstrip("v")[:1].isdigit())
    major, minor = version.lstrip("v").split(".")[:2]
    return (int(major), int(minor)) >= (1, 7)


def write_runtime(directory: Path, state: Path, runc: str) -> None:
    """Write a program `runc` that adds variables, for a containerd without CDI."""
    directory.mkdir(parents=True)
    state.mkdir(parents=True)
    path = directory / "runc"
    path.write_text(_RUNTIME.format(python=shlex.quote(sys.executable), state=str(state), runc=runc))
    path.chmod(0o755)


class FakeGpuDriver:
    """A driver of one node. `gpus` are the UUIDs of its devices, in the order of their PCI addresses."""

    def __init__(self, node: RealNode, gpus: list[str], state: Path, name: str = "gpu.openpai.test") -> None:
        self.name = name
        self.gpus = gpus
        self.prepared: list[tuple[str, tuple[str, ...]]] = []
        """The claims that the kubelet had prepared, with the devices of each."""
        self.is_registered = threading.Event()
        self.node = node
        self._state = state
        self._generation = 0
        self._servers: list[grpc.Server] = []

    def start(self) -> None:
        """Publish the devices, and register with the kubelet."""
        self.publish()
        plugins = self.node.root / "kubelet" / "plugins" / self.name
        plugins.mkdir(parents=True, exist_ok=True)
        socket = plugins / "dra.sock"
        methods = {"NodePrepareResources": self._prepare, "NodeUnprepareResources": self._unprepare}
        self._serve(socket, _DRA, methods)
        info = string(1, "DRAPlugin") + string(2, self.name) + string(3, str(socket)) + string(4, "v1.DRAPlugin")

        def registered(_: bytes) -> bytes:
            self.is_registered.set()
            return b""

        methods = {"GetInfo": lambda _: info, "NotifyRegistrationStatus": registered}
        self._serve(self.node.root / "kubelet" / "plugins_registry" / f"{self.name}-reg.sock", _REGISTRATION, methods)
        if not self.is_registered.wait(60):
            raise RuntimeError(f"the kubelet did not register the driver: {self.node.log_tail('kubelet')}")

    def publish(self, names: list[str] | None = None, taints: dict[str, dict[str, str]] | None = None) -> None:
        """Publish the devices under new names, as drivers do after a restart, and the taints of some by UUID."""
        self._generation += 1
        self.names = names or [f"gpu-{number}" for number in range(len(self.gpus))]
        devices = [
            {
                "name": name,
                "attributes": {
                    "uuid": {"string": uuid},
                    "type": {"string": "gpu"},
                    "productName": {"string": "Fake H100"},
                    "resource.kubernetes.io/pciBusID": {"string": f"0000:{number + 1:02x}:00.0"},
                },
                **({"taints": [taints[uuid]]} if taints and uuid in taints else {}),
            }
            for number, (name, uuid) in enumerate(zip(self.names, self.gpus, strict=True))
        ]
        variables = {name: f"FAKE_GPU_{self.gpus.index(uuid)}={uuid}" for name, uuid in self._by_name().items()}
        cdi = {
            "cdiVersion": "0.5.0",
            "kind": _CDI,
            "devices": [{"name": name, "containerEdits": {"env": [text]}} for name, text in variables.items()],
        }
        (self.node.root / "cdi").mkdir(exist_ok=True)
        (self.node.root / "cdi" / "fake.json").write_text(json.dumps(cdi))
        pool = {"name": self.node.name, "generation": self._generation, "resourceSliceCount": 1}
        spec = {"driver": self.name, "nodeName": self.node.name, "pool": pool, "devices": devices}
        asyncio.run(self._publish(spec))

    def close(self) -> None:
        """Stop to answer."""
        for server in self._servers:
            server.stop(None)

    def _by_name(self) -> dict[str, str]:
        return dict(zip(self.names, self.gpus, strict=True))

    async def _publish(self, spec: dict[str, Any]) -> None:
        name = f"{self.node.name}-{self.name}"
        async with self._client() as client:
            selector = {"cel": {"expression": f"device.driver == '{self.name}'"}}
            body = {"metadata": {"name": self.name}, "spec": {"selectors": [selector]}}
            if await client.find(DEVICE_CLASSES, self.name) is None:
                await client.create(DEVICE_CLASSES, body)
            if await client.find(RESOURCE_SLICES, name) is None:
                await client.create(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec})
            else:
                await client.patch(RESOURCE_SLICES, name, {"spec": spec})

    def _client(self) -> KubeClient:
        return KubeClient(cluster_access(self.node.plane.kubeconfig))

    def _serve(self, socket: Path, service: str, methods: dict[str, Callable[[bytes], bytes]]) -> None:
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(lambda request, _, answer=answer: answer(request))
            for name, answer in methods.items()
        }
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        self._servers.append(server)

    def _prepare(self, request: bytes) -> bytes:
        answer = b""
        for number, claim in fields(request):
            assert number == 1
            namespace, uid, name = (text.decode() for _, text in sorted(fields(claim)))
            answer += entry(uid, self._prepare_one(namespace, uid, name))
        return answer

    def _prepare_one(self, namespace: str, uid: str, name: str) -> bytes:
        claim = asyncio.run(self._claim(namespace, name))
        if claim.uid != uid or claim.status.allocation is None:
            return string(2, f"claim {name} is not allocated")
        results = [one for one in claim.status.allocation.devices.results if one.driver == self.name]
        by_name = self._by_name()
        self.prepared.append((name, tuple(by_name[one.device] for one in results)))
        variables = [f"FAKE_GPU_{self.gpus.index(by_name[one.device])}={by_name[one.device]}" for one in results]
        for pod in claim.status.reserved_for:
            (self._state / f"{namespace}_{pod.name}").write_text(json.dumps(variables))
        devices = b""
        for one in results:
            cdi = string(4, f"{_CDI}={one.device}")
            devices += block(1, string(1, one.request) + string(2, one.pool) + string(3, one.device) + cdi)
        return devices

    def _unprepare(self, request: bytes) -> bytes:
        answer = b""
        for _, claim in fields(request):
            uid = dict(fields(claim))[2].decode()
            answer += entry(uid, b"")
        return answer

    async def _claim(self, namespace: str, name: str) -> ResourceClaim:
        async with self._client() as client:
            return await client.get(RESOURCE_CLAIMS, name, namespace)


# The little of Protocol Buffers that these services need: strings, messages and maps of messages.


def varint(number: int) -> bytes:
    """Return a number as Protocol Buffers write it."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def block(field: int, content: bytes) -> bytes:
    """Return a field that holds bytes: a string, or a message."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def string(field: int, text: str) -> bytes:
    """Return a field that holds a string."""
    return block(field, text.encode())


def entry(key: str, value: bytes) -> bytes:
    """Return an entry of a map that is field 1."""
    return block(1, string(1, key) + block(2, value))


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message that has only fields of bytes."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        field, length = number() >> 3, number()
        yield field, message[at : at + length]
        at += length

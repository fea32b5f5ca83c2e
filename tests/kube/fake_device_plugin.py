"""A device plugin of GPUs that do not exist, on a real kubelet: the kubelet counts them and chooses which a pod gets.

It registers through the kubelet's directory of plugins, which belongs to one kubelet; the socket of device plugins
belongs to the machine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from tests.kube.fake_gpu_driver import block, entry, fields, string
from tests.kube.node import RealNode

_REGISTRATION: Final = "pluginregistration.Registration"
_PLUGIN: Final = "v1beta1.DevicePlugin"
_VARIABLE: Final = "NVIDIA_VISIBLE_DEVICES"


class FakeDevicePlugin:
    """A plugin of one node, with devices by their UUIDs."""

    def __init__(self, node: RealNode, devices: list[str], resource: str = "nvidia.com/gpu") -> None:
        self.node = node
        self.devices = devices
        self.resource = resource
        self.allocated: list[tuple[str, ...]] = []
        """What the kubelet chose, for one container after the other."""
        self._is_registered = threading.Event()
        self._is_over = threading.Event()
        self._servers: list[grpc.Server] = []

    def start(self) -> None:
        """Register with the kubelet."""
        plugins = self.node.root / "kubelet" / "plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        socket = plugins / "gpus.sock"
        answers = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(lambda *_: b""),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list),
            "Allocate": grpc.unary_unary_rpc_method_handler(self._allocate),
        }
        self._serve(str(socket), _PLUGIN, answers)
        info = string(1, "DevicePlugin") + string(2, self.resource) + string(3, str(socket)) + string(4, "v1beta1")
        answers = {
            "GetInfo": grpc.unary_unary_rpc_method_handler(lambda *_: info),
            "NotifyRegistrationStatus": grpc.unary_unary_rpc_method_handler(self._registered),
        }
        self._serve(str(self.node.root / "kubelet" / "plugins_registry" / "gpus-reg.sock"), _REGISTRATION, answers)
        if not self._is_registered.wait(60):
            raise RuntimeError(f"the kubelet did not register the plugin: {self.node.log_tail('kubelet')}")

    def close(self) -> None:
        """Stop to answer."""
        self._is_over.set()
        for server in self._servers:
            server.stop(None)

    def _serve(self, socket: str, service: str, handlers: dict[str, Any]) -> None:
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        self._servers.append(server)

    def _registered(self, *_: Any) -> bytes:
        self._is_registered.set()
        return b""

    def _list(self, *_: Any) -> Iterator[bytes]:
        yield b"".join(block(1, string(1, device) + string(2, "Healthy")) for device in self.devices)
        self._is_over.wait()

    def _allocate(self, request: bytes, _: Any) -> bytes:
        answer = b""
        for _number, container in fields(request):
            chosen = tuple(device.decode() for _, device in fields(container))
            self.allocated.append(chosen)
            answer += block(1, entry(_VARIABLE, ",".join(chosen).encode()))
        return answer

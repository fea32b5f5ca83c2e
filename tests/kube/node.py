"""A real node for the tests: containerd, runc and a kubelet, whose pods run on this machine.

Names that belong to the whole machine (the bridge, its network, the cgroup) are the node's own, so several can run side
by side. It needs root. Everything goes when the node is closed: pods, mounts, bridge and cgroups.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.kube.images import PAUSE_IMAGE, pause_image, shell_image
from tests.kube.server import ASSETS, ControlPlane, die_with_parent, why_not
from tests.ports import free_port

_CNI: Final = Path("/usr/lib/cni")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_PATIENCE_S: Final = 120.0


def why_no_node() -> str:
    """Return what is missing for a real node; empty if nothing is."""
    if os.geteuid() != 0:
        return "a Kubernetes node needs root"
    if reason := why_not("kubelet", "kube-controller-manager", "kube-scheduler"):
        return reason
    missing = [name for name in ("containerd", "ctr", "runc", "ip") if shutil.which(name) is None]
    if not (_CNI / "bridge").exists():
        missing.append(f"{_CNI}/bridge")
    return f"a Kubernetes node needs containerd and CNI plugins: no {', '.join(missing)}" if missing else ""


class RealNode:
    """A node whose pods are real containers."""

    def __init__(self, plane: ControlPlane, subnet: int = 241, kubelet: Mapping[str, object] = {}) -> None:
        self.id = uuid.uuid4().hex[:6]
        self.name = f"node-{self.id}"
        # Sockets have a limit on the length of their path.
        self.root = Path(tempfile.mkdtemp(prefix="pai-node-"))
        self.socket = self.root / "containerd.sock"
        self.plane = plane
        self._kubelet = kubelet
        self.bridge = f"pk{self.id}"
        self._network = f"10.{subnet}.{int(self.id[:2], 16)}"
        self.address = f"{self._network}.1"
        """The address of the node, and of this machine for the pods."""
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str]] = {}

    def start(self) -> None:
        """Start containerd and kubelet, and wait until the node is Ready."""
        self._write_network()
        self._write_containerd()
        self._run("containerd", "containerd", "-c", str(self.root / "containerd.toml"))
        self._await(lambda: self.ctr("version") is not None, "containerd")
        for path in (pause_image(self.root / "pause.tar"), shell_image(self.root / "shell.tar")):
            self.load(path)
        self._make_cgroups()
        self._write_kubelet()
        kubeconfig = self.plane.kubeconfig_for(self.name, f"system:node:{self.name}", group="system:nodes")
        self._run(
            "kubelet",
            str(ASSETS / "kubelet"),
            f"--config={self.root / 'kubelet.yaml'}",
            f"--kubeconfig={kubeconfig}",
            f"--root-dir={self.root / 'kubelet'}",
            f"--cert-dir={self.root / 'kubelet-pki'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        )
        self._await(self._is_ready, "kubelet")

    def load(self, image: Path) -> None:
        """Import an image that `images` wrote."""
        if self.ctr("images", "import", str(image)) is None:
            raise RuntimeError(f"cannot import {image}")

    def ctr(self, *arguments: str) -> str | None:
        """Return what containerd's own command answers; None if it fails."""
        command = ["ctr", "-a", str(self.socket), "-n", "k8s.io", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return ran.stdout if ran.returncode == 0 else None

    def start_kubelet(self) -> None:
        """Start the kubelet again. Not in a thread: what a thread starts ends with it."""
        self._run("kubelet", *self._commands["kubelet"])

    def lose_power(self) -> None:
        """End kubelet, containerd and every container at once."""
        for name in ("kubelet", "containerd"):
            self._stop(name)
        self._kill_containers()

    def power_on(self) -> None:
        """Start containerd and kubelet again, and wait until the node reports. Not in a thread, as above."""
        self._run("containerd", *self._commands["containerd"])
        self._await(lambda: self.ctr("version") is not None, "containerd")
        self.start_kubelet()
        self._await(self._is_ready, "kubelet")

    def close(self) -> None:
        """End everything, and remove what the node left on this machine."""
        self.lose_power()
        self._unmount()
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True, check=False)
        self._remove_cgroups()
        shutil.rmtree(self.root, ignore_errors=True)

    def log_tail(self, name: str) -> str:
        """Return the end of a part's log."""
        return (self.root / f"{name}.log").read_text(errors="replace")[-3000:]

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            status = json.loads(self.plane.get(f"/api/v1/nodes/{self.name}"))["status"]
            return any((one["type"], one["status"]) == ("Ready", "True") for one in status.get("conditions", ()))
        return False

    def _run(self, name: str, *command: str) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, cwd=self.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        self._commands[name] = list(command)

    def _stop(self, name: str) -> None:
        if process := self._running.pop(name, None):
            process.kill()
            process.wait(30)

    def _await(self, is_done: Callable[[], bool], name: str) -> None:
        limit_s = time.monotonic() + _PATIENCE_S
        while not is_done():
            process = self._running[name]
            if process.poll() is not None or time.monotonic() > limit_s:
                raise RuntimeError(f"{name} did not start: {self.log_tail(name)}")
            time.sleep(0.2)

    def _write_network(self) -> None:
        # A kubelet refuses a loopback address, so its own is that of the bridge.
        for command in (
            f"link add {self.bridge} type bridge",
            f"addr add {self.address}/24 dev {self.bridge}",
            f"link set {self.bridge} up",
        ):
            subprocess.run(["ip", *command.split()], check=True, capture_output=True)
        (self.root / "cni").mkdir()
        bridge = {
            "type": "bridge",
            "bridge": self.bridge,
            "isGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": str(self.root / "ipam"),
                "ranges": [[{"subnet": f"{self._network}.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        network = {"cniVersion": "0.4.0", "name": self.bridge, "plugins": [bridge]}
        (self.root / "cni" / "10-bridge.conflist").write_text(json.dumps(network))

    def _write_containerd(self) -> None:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        (self.root / "containerd.toml").write_text(
            f"""version = 2
root = "{self.root}/containerd"
state = "{self.root}/run"
[grpc]
  address = "{self.socket}"
[ttrpc]
  address = "{self.socket}.ttrpc"
[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ["{self.root}/cdi"]
  [{cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [{cri}.cni]
    bin_dir = "{_CNI}"
    conf_dir = "{self.root}/cni"
"""
        )

    def _write_kubelet(self) -> None:
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self.plane.root / "ca.crt")},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "address": self.address,
            "port": free_port(),
            "healthzPort": 0,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/pai-{self.name}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "podLogsDir": str(self.root / "pods"),
            "volumePluginDir": str(self.root / "volume-plugins"),
            "staticPodPath": "",
            "imageMinimumGCAge": "100h",
            "nodeStatusUpdateFrequency": "5s",
            "syncFrequency": "10s",
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi"},
            **self._kubelet,
        }
        (self.root / "kubelet.yaml").write_text(json.dumps(config))

    def _cgroups(self) -> list[Path]:
        """Return the directories of the node's own cgroup: one, or with version 1 one for each controller."""
        if (_CGROUPS / "cgroup.controllers").exists():
            return [_CGROUPS / f"pai-{self.name}"]
        return [
            place / f"pai-{self.name}" for place in _CGROUPS.iterdir() if place.is_dir() and place.name != "unified"
        ]

    def _make_cgroups(self) -> None:
        for place in self._cgroups():
            place.mkdir(exist_ok=True)
            if place.parent.name == "cpuset":
                # A new cpuset has neither processors nor memory, and no process may enter it.
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (place / name).write_text((place.parent / name).read_text())

    def _kill_containers(self) -> None:
        for place in self._cgroups():
            for found in place.rglob("cgroup.procs"):
                with contextlib.suppress(OSError):
                    for number in found.read_text().split():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(number), signal.SIGKILL)
        # The shims are in the cgroup of containerd; their command line has the address of our socket.
        for found in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.socket).encode() in found.read_bytes():
                    os.kill(int(found.parent.name), signal.SIGKILL)

    def _unmount(self) -> None:
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted((place for place in mounts if place.startswith(f"{self.root}/")), reverse=True):
            subprocess.run(["umount", "-l", place], capture_output=True, check=False)

    def _remove_cgroups(self) -> None:
        limit_s = time.monotonic() + 10
        for place in self._cgroups():
            below = (
                sorted((found for found in place.rglob("*") if found.is_dir()), reverse=True) if place.exists() else []
            )
            for directory in [*below, place]:
                while directory.exists() and time.monotonic() < limit_s:
                    try:
                        directory.rmdir()
                    except OSError:
                        time.sleep(0.05)


@contextlib.contextmanager
def real_node(plane: ControlPlane, subnet: int = 241, kubelet: Mapping[str, object] = {}) -> Iterator[RealNode]:
    """Run a node of a control plane that has controllers; nothing is left of it afterwards.

    `kubelet` adds to the configuration of its kubelet.
    """
    node = RealNode(plane, subnet, kubelet)
    try:
        node.start()
        yield node
    finally:
        node.close()


_Node = TypeVar("_Node")
_lasting: dict[Any, Any] = {}
_ends: Final = contextlib.ExitStack()


def lasting(make: Callable[[], contextlib.AbstractContextManager[_Node]]) -> _Node:
    """Return the node that this makes, the same for one test after another until `end_nodes`."""
    if make not in _lasting:
        _lasting[make] = _ends.enter_context(make())
    made: _Node = _lasting[make]
    return made


def end_nodes() -> None:
    """End the nodes that tests had: idle, the programs of one take a quarter of a processor."""
    _lasting.clear()
    _ends.close()

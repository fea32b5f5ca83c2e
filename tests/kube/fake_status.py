"""Statuses of nodes and pods as a kubelet of 1.36 writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from openpai.backends.kubernetes.names import PART_LABEL
from openpai.kube.objects.pods import Pod

NODE_IP: Final = "192.0.2.10"
_PRESSURES: Final = {
    "MemoryPressure": "SufficientMemory",
    "DiskPressure": "NoDiskPressure",
    "PIDPressure": "SufficientPID",
}


def now() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ready_condition(is_ready: bool, reason: str = "KubeletNotReady") -> dict[str, str]:
    """Return the condition of a node that says whether it is ready."""
    return {
        "type": "Ready",
        "status": "True" if is_ready else "False",
        "reason": "KubeletReady" if is_ready else reason,
        "message": "kubelet is posting ready status" if is_ready else "container runtime is down",
        "lastHeartbeatTime": now(),
        "lastTransitionTime": now(),
    }


def node(name: str, room: Mapping[str, str]) -> dict[str, Any]:
    """Return the status of a node that is ready."""
    quiet = [
        {
            "type": kind,
            "status": "False",
            "reason": f"KubeletHas{reason}",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }
        for kind, reason in _PRESSURES.items()
    ]
    return {
        "capacity": dict(room),
        "allocatable": dict(room),
        "conditions": [*quiet, ready_condition(True)],
        "addresses": [{"type": "InternalIP", "address": NODE_IP}, {"type": "Hostname", "address": name}],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": f"boot-{name}",
            "containerRuntimeVersion": "containerd://2.1.0",
            "kernelVersion": "6.12.0",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.2",
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "Debian GNU/Linux 13 (trixie)",
            "systemUUID": name,
        },
    }


def waiting(pod: Pod, reason: str, message: str = "") -> dict[str, Any]:
    """Return the status of a pod whose containers do not start."""
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    containers = [_container(one.name, one.image, state, is_ready=False) for one in pod.spec.containers]
    return {
        "phase": "Pending",
        "startTime": now(),
        "hostIP": NODE_IP,
        "hostIPs": [{"ip": NODE_IP}],
        "conditions": _conditions(is_ready=False, why="ContainersNotReady"),
        "containerStatuses": containers,
    }


def running(pod: Pod, ip: str, devices: Mapping[str, Sequence[str]] = MappingProxyType({})) -> dict[str, Any]:
    """Return the status of a pod that runs, with the devices of its containers by extended resource."""
    state = {"running": {"startedAt": now()}}
    # The readiness probe of a task fails until the task has ended and left files, which the server then fetches.
    is_ready = pod.metadata.label(PART_LABEL) != "task"
    containers = [_container(one.name, one.image, state, is_ready=is_ready) for one in pod.spec.containers]
    for container in containers if devices else ():
        container["allocatedResourcesStatus"] = [
            {"name": name, "resources": [{"resourceID": each, "health": "Healthy"} for each in each_one]}
            for name, each_one in devices.items()
        ]
    return {
        "phase": "Running",
        "startTime": now(),
        "hostIP": NODE_IP,
        "hostIPs": [{"ip": NODE_IP}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": _conditions(is_started=True, is_ready=is_ready, why="" if is_ready else "ContainersNotReady"),
        "containerStatuses": containers,
    }


def ended(pod: Pod, exit_code: int, reason: str = "", message: str = "", signal: int = 0) -> dict[str, Any]:
    """Return the status of a pod whose containers ended."""
    terminated: dict[str, Any] = {
        "exitCode": exit_code,
        "reason": reason or ("Error" if exit_code else "Completed"),
        "startedAt": now(),
        "finishedAt": now(),
        "containerID": "containerd://0",
    }
    if message:
        terminated["message"] = message
    if signal:
        terminated["signal"] = signal
    state = {"terminated": terminated}
    why = "PodFailed" if exit_code else "PodCompleted"
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": _conditions(is_ready=False, why=why),
        "containerStatuses": [_container(one.name, one.image, state, is_ready=False) for one in pod.spec.containers],
    }


def _container(name: str, image: str, state: dict[str, Any], *, is_ready: bool) -> dict[str, Any]:
    is_there = "waiting" not in state
    return {
        "name": name,
        "image": image,
        "imageID": f"sha256:{name}" if is_there else "",
        "containerID": "containerd://0" if is_there else "",
        "state": state,
        "lastState": {},
        "ready": is_ready,
        "started": is_ready,
        "restartCount": 0,
    }


def _conditions(*, is_ready: bool, is_started: bool = False, why: str = "") -> list[dict[str, Any]]:
    flags = {
        "PodReadyToStartContainers": is_ready or is_started,
        "Initialized": True,
        "Ready": is_ready,
        "ContainersReady": is_ready,
        "PodScheduled": True,
    }
    return [
        {
            "type": kind,
            "status": "True" if holds else "False",
            "lastTransitionTime": now(),
            **({} if holds or not why else {"reason": why}),
        }
        for kind, holds in flags.items()
    ]

"""What the other parts of Kubernetes write: node objects and leases, the controllers of nodes, pods and claims."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from openpai.backends.simulated.programs import Program
from openpai.kube.objects.kinds import LEASES, NODES, PODS, RESOURCE_CLAIMS
from openpai.lifecycle.model import AttemptKey
from tests.kube.standin import Object, StandInApi

BEAT_S: Final = 10.0
CLAIMS_S: Final = 0.5
LOST_AFTER_S: Final = 40.0
"""When the node controller declares a node lost."""
COLLECT_S: Final = 40.0
"""How often pods of nodes that are gone are collected."""
GPU: Final = "nvidia.com/gpu"
DRIVER: Final = "gpu.nvidia.com"
NAMESPACE: Final = "jobs"


@dataclass(eq=False)
class Container:
    """A task that runs, or ran, on a machine."""

    uid: str
    pod: str
    key: AttemptKey
    grant: int
    node: str
    devices: tuple[int, ...]
    """As the pod's identity names them."""
    cards: frozenset[str]
    """The devices that it really has."""
    is_unique: bool
    started_at: str
    code: int | None = None
    printed: dict[str, str] = field(default_factory=dict)
    """What its status says beside the code: reason and message of the pod."""
    ended_at: str = ""
    turn: int = 0
    is_terminating: bool = False
    program: Program = field(default_factory=Program)


@dataclass(eq=False)
class Machine:
    """A machine with its kubelet."""

    name: str
    address: str
    cards: tuple[str, ...]
    is_on: bool = True
    is_cut: bool = False
    """Whether its network is broken."""
    broken: frozenset[int] = frozenset()
    containers: dict[str, Container] = field(default_factory=dict)
    began: set[str] = field(default_factory=set)
    """The UIDs of pods whose container began here, kept on its disk."""


class Control:
    """The controllers of one cluster, and what kubelets and drivers write about their machines."""

    def __init__(self, api: StandInApi, loop: Any, machines: dict[str, Machine], *, has_driver: bool) -> None:
        self.api = api
        self.machines = machines
        self.is_api_up: Callable[[], bool] = lambda: True
        self._loop = loop
        self._has_driver = has_driver
        for machine in machines.values():
            self._join(machine)
        self._put(f"/apis/resource.k8s.io/v1/deviceclasses/{DRIVER}", {"metadata": {"name": DRIVER}, "spec": {}})
        self._every(BEAT_S, self._beat)
        self._every(COLLECT_S, self._collect)
        self._every(CLAIMS_S, self._release_claims)

    def _hears(self, machine: Machine) -> bool:
        return machine.is_on and not machine.is_cut and self.is_api_up()

    def _report(self, pod: Object, status: Object) -> None:
        path = PODS.path(NAMESPACE, pod["metadata"]["name"], "status")
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        self.api.handle("PATCH", path, {}, json.dumps(body).encode(), "application/merge-patch+json")

    def _confirm(self, pod: Object) -> None:
        """Let a pod go whose containers have ended."""
        path = PODS.path(NAMESPACE, pod["metadata"]["name"])
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self.api.handle("DELETE", path, {}, json.dumps(options).encode())

    def _join(self, machine: Machine) -> None:
        """Write the Node and its devices as the kubelet and the driver do."""
        count, broken = len(machine.cards), machine.broken
        room = {"cpu": "64", "memory": "512Gi", "pods": "250"}
        if not self._has_driver and count:
            room[GPU] = str(count)
        usable = {**room, **({GPU: str(count - len(broken))} if GPU in room else {})}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        addresses = [{"type": "InternalIP", "address": machine.address}]
        status = {"capacity": room, "allocatable": usable, "conditions": [ready], "addresses": addresses}
        self._put(NODES.path("", machine.name), {"metadata": {"name": machine.name}, "spec": {}})
        self._patch(NODES.path("", machine.name, "status"), {"status": status})
        self._beat_of(machine)
        if self._has_driver and count:
            devices = [
                {
                    "name": f"gpu-{number}",
                    "attributes": {"uuid": {"string": card}, "type": {"string": "gpu"}},
                    **({"taints": [{"key": "xid", "effect": "NoSchedule"}]} if number in broken else {}),
                }
                for number, card in enumerate(machine.cards)
            ]
            pool = {"name": machine.name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "nodeName": machine.name, "pool": pool, "devices": devices}
            path = f"/apis/resource.k8s.io/v1/resourceslices/{machine.name}"
            self._put(path, {"metadata": {"name": machine.name}, "spec": spec})
            self._patch(path, {"spec": spec})

    def _beat(self) -> None:
        """Renew the leases of nodes that can, and mark the others after a while."""
        if not self.is_api_up():
            return
        for machine in self.machines.values():
            if self._hears(machine):
                self._beat_of(machine)
        now = self.api.now()
        for node in self.api.all("nodes"):
            name = node["metadata"]["name"]
            lease = self.api.get("leases", name, "kube-node-lease")
            if lease is None:
                continue
            silent_s = (now - datetime.fromisoformat(lease["spec"]["renewTime"])).total_seconds()
            was = node["status"]["conditions"][0]["status"]
            if (is_lost := silent_s > LOST_AFTER_S) == (was == "True"):
                ready = {"type": "Ready", "status": "Unknown" if is_lost else "True", "reason": "NodeStatus"}
                self._patch(NODES.path("", name, "status"), {"status": {"conditions": [ready]}})

    def _beat_of(self, machine: Machine) -> None:
        spec = {"holderIdentity": machine.name, "leaseDurationSeconds": 40, "renewTime": self.api.now().isoformat()}
        path = LEASES.path("kube-node-lease", machine.name)
        self._put(path, {"metadata": {"name": machine.name}, "spec": spec})
        self._patch(path, {"spec": spec})

    def _collect(self) -> None:
        """Remove pods of nodes that were removed or taken out of service."""
        if not self.is_api_up():
            return
        for pod in self.api.all("pods"):
            name = pod["spec"].get("nodeName", "")
            node = self.api.get("nodes", name)
            taints = node["spec"].get("taints", ()) if node else ()
            is_out = any(taint["key"] == "node.kubernetes.io/out-of-service" for taint in taints)
            if name and (node is None or (is_out and "deletionTimestamp" in pod["metadata"])):
                why = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "gone"}
                if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                    self._report(pod, {"phase": "Failed", "conditions": [why]})
                self._confirm(pod)

    def _release_claims(self) -> None:
        """Let claims go that are deleted and that no pod uses, as the controller of claims does."""
        if not self.is_api_up():
            return
        users = {pod["metadata"]["uid"] for pod in self.api.all("pods") if "nodeName" in pod["spec"]}
        for claim in self.api.all("resourceclaims"):
            is_used = any(user["uid"] in users for user in claim["status"].get("reservedFor", ()))
            if not is_used and "deletionTimestamp" in claim["metadata"]:
                path = RESOURCE_CLAIMS.path(NAMESPACE, claim["metadata"]["name"])
                self._patch(path, {"metadata": {"finalizers": None}})

    def _put(self, path: str, body: Object) -> None:
        self.api.handle("POST", path.rpartition("/")[0], {}, json.dumps(body).encode())

    def _patch(self, path: str, body: Object) -> None:
        self.api.handle("PATCH", path, {}, json.dumps(body).encode(), "application/merge-patch+json")

    def _every(self, seconds: float, do: Callable[[], None]) -> None:
        def again() -> None:
            do()
            self._loop.call_later(seconds, again)

        self._loop.call_later(seconds, again)


def container(state: Object) -> Object:
    return {"name": "task", "image": "i", "imageID": "", "state": state, "ready": "running" in state, "restartCount": 0}


def running_status(one: Container) -> Object:
    state = {"running": {"startedAt": one.started_at}}
    return {"phase": "Running", "startTime": one.started_at, "containerStatuses": [container(state)]}


def ended_status(one: Container) -> Object:
    terminated = {
        "exitCode": one.code,
        "reason": "Error" if one.code else "Completed",
        "startedAt": one.started_at,
        "finishedAt": one.ended_at,
    }
    phase = "Failed" if one.code or one.printed else "Succeeded"
    return {"phase": phase, "containerStatuses": [container({"terminated": terminated})], **one.printed}


def unknown_status() -> Object:
    terminated = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"}
    return {"phase": "Failed", "containerStatuses": [container({"terminated": terminated})]}

"""Describes a task attempt as a pod. Plain data in, plain data out.

The pod runs the platform's wrapper in the user's own image, which needs nothing but /bin/sh: the scripts lie in a
Secret. An attempt runs at most once, because its pod's name follows from the attempt and the pod never restarts a
container. A fence is a pod of the same name that no node ever gets, so that a delayed launch of the attempt fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from openpai.backends.host.capabilities import kept_capabilities
from openpai.backends.host.mounts import variable
from openpai.backends.kubernetes.bundles import ENTRY_FILE, WRAPPER_FILE, Bundle, job_labels
from openpai.backends.kubernetes.claims import SCHEDULER
from openpai.backends.kubernetes.devices import DeviceRequest
from openpai.backends.kubernetes.names import (
    EPOCH_LABEL,
    FINALIZER,
    JOB_LABEL,
    NOTICE_ANNOTATION,
    PART_LABEL,
    SCOPE_LABEL,
    host_name,
    label_value,
    people_labels,
    pod_name,
    service_name,
)
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.backends.kubernetes.volumes import PodVolumes
from openpai.kube.objects.kinds import PODS, SERVICES
from openpai.lifecycle.model import ExitReport
from openpai.ports.backend import LaunchTask
from openpai.runtime.notice import CHECKPOINT_VARIABLE, NO_CHECKPOINTS_VARIABLE, NOTICE_FILE, NOTICE_VARIABLE
from openpai.runtime.outputs import HAND_OVER_VARIABLE, LEFT_FILE, OUTPUTS_VARIABLE, find_words
from openpai.runtime.progress import PROGRESS_FILE, PROGRESS_VARIABLE
from openpai.runtime.script import HOSTS_FILE, SCRIPT_FILE
from openpai.runtime.unpacking import CODE_FILE, CODE_VARIABLE

TASK: Final = "/usr/local/pai"
"""Where the wrapper keeps its ticket and its report."""
WORK: Final = f"{TASK}/work"
PROGRESS: Final = f"{TASK}/{PROGRESS_FILE}"
"""Where tasks with code start, since an image's own directory may be closed to its user."""
FILES: Final = "/usr/local/pai-files"
MESSAGE_FILE: Final = "/dev/termination-log"
CONTAINER: Final = "task"
PORTS_MAX: Final = 64
"""How many ports of the node a pod on the cluster's network may have."""
CHECKPOINTS: Final = "/usr/local/pai-checkpoints"
STORAGE_FOLDER: Final = ".pai-checkpoints"
"""Where checkpoints are on a storage that the job mounts."""
NOTICE_PART: Final = "notice"
_NO_PLACE: Final = (
    "no place for checkpoints is shared by the nodes: mount a storage that the job may write to, or ask the "
    "administrator for one (pai up --kube-checkpoint-claim)"
)
_NODE_GONE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
HAND_OVER_S: Final = (120, 900)
"""How long a container whose task has ended waits for the server to begin to fetch its files, and to end that."""
_LEFT: Final = ("/bin/sh", "-c", f"[ -e {TASK}/{LEFT_FILE} ]")
_LEFT_EVERY_S: Final = 2
_NO_DEVICES: Final = DeviceRequest()
_NO_VOLUMES: Final = PodVolumes()


class Placement(StrEnum):
    """How a pod gets to its node."""

    DIRECT = "direct"
    """The pod names its node, and no other scheduler sees it: for nodes that only this platform uses."""
    POLITE = "polite"
    """kube-scheduler places the pod on the one node that it may have, after everything else that it checks."""


@dataclass(frozen=True, slots=True)
class PodOptions:
    """The settings that are the same for every pod of this backend."""

    placement: Placement = Placement.DIRECT
    host_network: bool = False
    """Whether pods use their node's own network instead of the cluster's."""
    setuid: bool = False
    """Whether programs with a setuid bit, such as sudo, work."""
    infiniband: str = ""
    """The extended resource of InfiniBand devices, such as rdma/hca, for jobs that ask for it; empty: not allowed."""
    priority_class: str = ""
    tolerations: Sequence[Mapping[str, Any]] = ()
    """Taints that pods accept, beside those of a node that does not answer."""
    pull_secrets: Sequence[str] = ()
    """Secrets with registry credentials that every pod uses."""
    checkpoint_claim: str = ""
    """The PersistentVolumeClaim with a directory for each task's checkpoints; empty if there is none."""
    work_mb_max: int = 0
    """The limit on what a pod writes to its node's disk; 0 for no limit."""
    fetch_mb_max: int = 0
    """The limit on what is fetched of a pod's working directory when its task has ended; 0 fetches nothing."""
    epoch: int = 0
    """The epoch of the leader that creates the pods."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What other modules work out for a task: its Secrets, its devices and its storages."""

    bundle: Bundle
    devices: DeviceRequest = _NO_DEVICES
    storages: PodVolumes = _NO_VOLUMES
    claims: Sequence[Mapping[str, str]] = ()
    """The claims for devices, as `spec.resourceClaims`."""


def task_pod(launch: LaunchTask, options: PodOptions, seals: Seals, parts: Parts) -> dict[str, Any]:
    """Return the pod of a task attempt."""
    identity = Identity(launch.key, launch.grant, launch.node, launch.devices, is_unique=launch.is_unique)
    spec: dict[str, Any] = {
        **_on_node(launch.node, options.placement, has_claims=bool(parts.claims)),
        **_on_network(launch, options),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_seconds(launch.grace_s),
        # Without a token, a task cannot act on the cluster; without these variables, it does not see other services.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [*_when_silent(), *map(dict, options.tolerations)],
        "volumes": [*_own_volumes(launch, parts.bundle, options), *parts.storages.volumes],
        "containers": [_container(launch, options, parts)],
    }
    if options.priority_class:
        spec["priorityClassName"] = options.priority_class
    secrets = [*options.pull_secrets, *([parts.bundle.registry] if parts.bundle.registry else [])]
    if secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in secrets]
    if parts.claims:
        spec["resourceClaims"] = [dict(claim) for claim in parts.claims]
    labels = {**people_labels(launch.labels), EPOCH_LABEL: str(options.epoch)}
    return _pod(identity, seals, "task", labels, spec)


def fence_pod(identity: Identity, image: str, report: ExitReport, seals: Seals, epoch: int = 0) -> dict[str, Any]:
    """Return a pod that takes the attempt's name and never runs: its scheduling gate is never opened."""
    sealed = Identity(identity.key, identity.grant, identity.node, identity.devices, report)
    resources = {"cpu": "1m", "memory": "1Mi"}
    spec: dict[str, Any] = {
        "schedulingGates": [{"name": "openpai/fence"}],
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": CONTAINER,
                "image": image or "none",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                # A quota refuses pods without requests.
                "resources": {"requests": resources, "limits": resources},
            }
        ],
    }
    # Of an earlier leader it is refused as its tasks are: its report would end a task of the one that leads.
    return _pod(sealed, seals, "fence", {EPOCH_LABEL: str(epoch)}, spec)


def network_service(launch: LaunchTask, scope: str) -> dict[str, Any]:
    """Return the service that gives the tasks of a job names in DNS: ROLE-INDEX.pai-JOB."""
    labels = job_labels(scope, launch.key)
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.name,
        "metadata": {"name": service_name(launch.key.job), "labels": {**labels, PART_LABEL: "network"}},
        "spec": {
            "clusterIP": "None",
            # Peers look each other up while they start.
            "publishNotReadyAddresses": True,
            "selector": {SCOPE_LABEL: scope, JOB_LABEL: label_value(launch.key.job), PART_LABEL: "task"},
        },
    }


def has_peers(launch: LaunchTask) -> bool:
    """Return whether the job has other tasks."""
    return launch.hosts.count("\n") > 1


def grace_seconds(grace_s: float) -> int:
    """Return a grace period as Kubernetes counts it: 0 would remove the pod without waiting for its container."""
    return max(1, math.ceil(grace_s))


def _pod(
    identity: Identity, seals: Seals, part: str, labels: Mapping[str, str], spec: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.name,
        "metadata": {
            "name": pod_name(seals.scope, identity.key),
            "labels": {**labels, **job_labels(seals.scope, identity.key), PART_LABEL: part},
            "annotations": seals.annotations(identity),
            "finalizers": [FINALIZER],
        },
        "spec": spec,
    }


def _on_node(node: str, placement: Placement, *, has_claims: bool) -> dict[str, Any]:
    if placement is Placement.DIRECT:
        # A kubelet that sees a pod before its claim is allocated waits ten seconds and more: `Claims` binds it then.
        return {"schedulerName": SCHEDULER} if has_claims else {"nodeName": node}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    }


def _on_network(launch: LaunchTask, options: PodOptions) -> dict[str, Any]:
    found: dict[str, Any] = {"hostname": host_name(launch.key)}
    if has_peers(launch):
        found["subdomain"] = service_name(launch.key.job)
    if options.host_network:
        found |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return found


def _when_silent() -> list[dict[str, Any]]:
    """Return tolerations that keep a task on a node that does not answer: it may run on, and may be heard of again."""
    return [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in _NODE_GONE]


def _own_volumes(launch: LaunchTask, bundle: Bundle, options: PodOptions) -> list[dict[str, Any]]:
    sources: list[dict[str, Any]] = [{"secret": {"name": name}} for name in bundle.files]
    # The node rewrites the file when the annotation changes.
    annotation = {"path": NOTICE_PART, "fieldRef": {"fieldPath": f"metadata.annotations['{NOTICE_ANNOTATION}']"}}
    sources.append({"downwardAPI": {"items": [annotation]}})
    claim = options.checkpoint_claim
    return [
        *([{"name": "pai-checkpoints", "persistentVolumeClaim": {"claimName": claim}}] if claim else []),
        {"name": "pai-task", "emptyDir": {}},
        {"name": "pai-files", "projected": {"sources": sources, "defaultMode": 0o444}},
        {"name": "pai-shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{launch.shm_mb}Mi"}},
    ]


def _container(launch: LaunchTask, options: PodOptions, parts: Parts) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": launch.image,
        "command": ["/bin/sh", *_arguments(launch, options)],
        "env": [
            # Kubernetes would replace $(NAME).
            {"name": name, "value": text.replace("$", "$$")}
            for name, text in _environment(launch, options, parts).items()
        ],
        "resources": _resources(launch, options, parts),
        "securityContext": _security(launch, options),
        "terminationMessagePath": MESSAGE_FILE,
        "volumeMounts": [
            {"name": "pai-task", "mountPath": TASK},
            {"name": "pai-files", "mountPath": FILES, "readOnly": True},
            {"name": "pai-shm", "mountPath": "/dev/shm"},  # noqa: S108
            *_checkpoint_mount(launch, options),
            *parts.storages.mounts,
        ],
    }
    if options.fetch_mb_max:
        # Ready to be read: its status says it to a server that starts later, too.
        probe = {"exec": {"command": list(_LEFT)}, "periodSeconds": _LEFT_EVERY_S, "timeoutSeconds": 5}
        container["readinessProbe"] = {**probe, "initialDelaySeconds": 1, "failureThreshold": 1}
    if parts.bundle.env:
        container["envFrom"] = [{"secretRef": {"name": parts.bundle.env}}]
    if launch.ports and not options.host_network:
        # The platform allocates ports of the node, so a port has the same number inside and outside.
        container["ports"] = [{"containerPort": port, "hostPort": port} for port in launch.ports]
    return container


def _arguments(launch: LaunchTask, options: PodOptions) -> list[str]:
    # The kubelet enforces the grace period, which may differ from that of the launch.
    run = [f"{FILES}/{WRAPPER_FILE}", TASK, "-", "", "-", "probe", "", f"{FILES}/{SCRIPT_FILE}"]
    if not (options.host_network and launch.ports):
        return run
    ports = " ".join(f"{port}:{port:04X}" for port in launch.ports)
    return [f"{FILES}/{ENTRY_FILE}", MESSAGE_FILE, ports, *run]


def _checkpoint_mount(launch: LaunchTask, options: PodOptions) -> list[dict[str, Any]]:
    if not options.checkpoint_claim:
        return []
    return [{"name": "pai-checkpoints", "mountPath": CHECKPOINTS, "subPath": _checkpoint_path(launch)}]


def _checkpoint_path(launch: LaunchTask) -> str:
    return f"{launch.key.job}/{launch.key.role}.{launch.key.index}"


def _checkpoints(launch: LaunchTask, options: PodOptions) -> dict[str, str]:
    """Return the variable with the task's checkpoint directory, or the one that says why there is none."""
    if options.checkpoint_claim:
        return {CHECKPOINT_VARIABLE: CHECKPOINTS}
    shared = next((mount for mount in launch.mounts if not mount.is_read_only), None)
    if shared is not None:
        place = f"{shared.mount_path.rstrip('/')}/{STORAGE_FOLDER}/{_checkpoint_path(launch)}"
        return {CHECKPOINT_VARIABLE: place}
    return {NO_CHECKPOINTS_VARIABLE: _NO_PLACE}


def _environment(launch: LaunchTask, options: PodOptions, parts: Parts) -> Mapping[str, str]:
    shared = {} if parts.bundle.env else launch.shared_env
    environment = {**shared, **launch.env, **{variable(mount): mount.mount_path for mount in launch.mounts}}
    environment |= {NOTICE_VARIABLE: f"{TASK}/{NOTICE_FILE}", PROGRESS_VARIABLE: PROGRESS}
    environment |= _checkpoints(launch, options)
    if launch.code:
        environment |= {CODE_VARIABLE: f"{FILES}/{CODE_FILE}", "PAI_WORK_DIR": WORK}
    if options.fetch_mb_max:
        waits_s = f"{HAND_OVER_S[0]} {HAND_OVER_S[1]}"
        environment |= {"PAI_WORK_DIR": WORK, HAND_OVER_VARIABLE: waits_s, OUTPUTS_VARIABLE: find_words(launch.outputs)}
    if launch.hosts:
        environment["PAI_HOSTS_FILE"] = f"{FILES}/{HOSTS_FILE}"
    for name in parts.devices.unset:
        environment.pop(name, None)
    return {**environment, **parts.devices.env}


def _resources(launch: LaunchTask, options: PodOptions, parts: Parts) -> dict[str, Any]:
    amounts = {"cpu": str(launch.cpus), "memory": f"{launch.memory_mb}Mi"}
    amounts |= {resource: str(count) for resource, count in parts.devices.resources.items()}
    if options.work_mb_max:
        amounts["ephemeral-storage"] = f"{options.work_mb_max}Mi"
    if launch.infiniband:
        amounts[options.infiniband] = "1"
    resources: dict[str, Any] = {"requests": amounts, "limits": amounts}
    if parts.claims:
        resources["claims"] = [{"name": claim["name"]} for claim in parts.claims]
    return resources


def _security(launch: LaunchTask, options: PodOptions) -> dict[str, Any]:
    kept = kept_capabilities(is_on_host_network=options.host_network)
    if launch.infiniband:
        # Programs lock the memory that the network card reads.
        kept = sorted([*kept, "IPC_LOCK"])
    return {"allowPrivilegeEscalation": options.setuid, "capabilities": {"drop": ["ALL"], "add": kept}}

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
from openpai.backends.kubernetes.bundles import ENTRY_FILE, WRAPPER_FILE, Bundle, job_labels
from openpai.backends.kubernetes.claims import SCHEDULER
from openpai.backends.kubernetes.devices import DeviceRequest
from openpai.backends.kubernetes.names import (
    EPOCH_LABEL,
    FINALIZER,
    INDEX_LABEL,
    JOB_LABEL,
    NOTICE_ANNOTATION,
    PART_LABEL,
    SCOPE_LABEL,
    host_name,
    index_label,
    label_value,
    people_labels,
    pod_name,
    service_name,
)
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.backends.kubernetes.variables import (
    CHECKPOINTS,
    FILES,
    TASK,
    checkpoint_path,
    checkpoint_variable,
    environment,
    job_variables,
    loading,
)
from openpai.backends.kubernetes.volumes import PodVolumes
from openpai.kube.objects.kinds import PODS, SERVICES
from openpai.lifecycle.model import AttemptKey, ExitReport
from openpai.ports.backend import LaunchTask
from openpai.runtime.outputs import LEFT_FILE
from openpai.runtime.script import SCRIPT_FILE

MESSAGE_FILE: Final = "/dev/termination-log"
CONTAINER: Final = "task"
PORTS_MAX: Final = 64
"""How many ports of the node a pod on the cluster's network may have."""
NOTICE_PART: Final = "notice"
_NODE_GONE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LEFT: Final = ("/bin/sh", "-c", f"[ -e {TASK}/{LEFT_FILE} ]")
_LEFT_EVERY_S: Final = 2
# The kubelet enforces the grace period, which may differ from that of the launch.
_RUN: Final = (f"{FILES}/{WRAPPER_FILE}", TASK, "-", "", "-", "probe", "", f"{FILES}/{SCRIPT_FILE}")
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


@dataclass(frozen=True, slots=True)
class RolePod:
    """What the pods of a role in a job attempt have in common."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    container: Mapping[str, Any]
    variables: Mapping[str, str]
    """The variables of `variables_of_job`."""


def role_pod(launch: LaunchTask, options: PodOptions, scope: str, parts: Parts) -> RolePod:
    """Return what the pod of a task has in common with those of its role that get as many devices."""
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_seconds(launch.grace_s),
        # Without a token, a task cannot act on the cluster; without these variables, it does not see other services.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [*_when_silent(), *map(dict, options.tolerations)],
        "volumes": [*_own_volumes(launch, parts.bundle, options), *parts.storages.volumes],
    }
    if has_peers(launch):
        spec["subdomain"] = service_name(launch.key.job)
    if options.host_network:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if options.priority_class:
        spec["priorityClassName"] = options.priority_class
    secrets = [*options.pull_secrets, *([parts.bundle.registry] if parts.bundle.registry else [])]
    if secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in secrets]
    labels = people_labels(launch.labels)
    labels.pop(INDEX_LABEL, None)
    labels[EPOCH_LABEL] = str(options.epoch)
    metadata = _common_metadata(launch.key, scope, "task", labels)
    return RolePod(metadata, spec, _role_container(launch, options, parts), variables_of_job(launch, options))


@dataclass(frozen=True, slots=True)
class OwnPod:
    """What the pod of a task has beside that of its role: no field is in both, but labels in the metadata of both."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    container: Mapping[str, Any]
    variables: Mapping[str, str]
    """By name, what `env` of the container has as a list."""


def task_pod(launch: LaunchTask, options: PodOptions, seals: Seals, parts: Parts) -> dict[str, Any]:
    """Return the pod of a task attempt."""
    role = role_pod(launch, options, seals.scope, parts)
    own = own_pod(launch, task_identity(launch), options, seals, parts, role)
    container = {**role.container, **whole_container(own)}
    return _pod(whole_metadata(own, role), {**own.spec, **role.spec, "containers": [container]})


def whole_metadata(own: OwnPod, role: RolePod) -> dict[str, Any]:
    """Return the metadata of a pod."""
    labels = {**role.metadata["labels"], **own.metadata.get("labels", {})}
    return {**role.metadata, **own.metadata, "labels": labels}


def whole_container(own: OwnPod) -> dict[str, Any]:
    """Return what the container of a pod has of its own."""
    return {"env": [{"name": name, "value": text} for name, text in own.variables.items()], **own.container}


def own_pod(
    launch: LaunchTask, identity: Identity, options: PodOptions, seals: Seals, parts: Parts, role: RolePod
) -> OwnPod:
    """Return what is the task's own of its pod; `role` is what `role_pod` returned for one like it."""
    spec = _on_node(launch.node, options.placement, has_claims=bool(parts.claims))
    spec["hostname"] = host_name(launch.key)
    if parts.claims:
        spec["resourceClaims"] = [dict(claim) for claim in parts.claims]
    metadata = _own_metadata(identity, seals)
    if index := index_label(launch.labels):
        metadata["labels"] = index
    # Kubernetes would replace $(NAME).
    found = _environment(launch, options, parts, role.variables)
    variables = {name: text.replace("$", "$$") for name, text in found.items()}
    return OwnPod(metadata, spec, _task_container(launch, options, parts), variables)


def task_identity(launch: LaunchTask) -> Identity:
    """Return what the pod of a task attempt is."""
    return Identity(launch.key, launch.grant, launch.node, launch.devices, is_unique=launch.is_unique)


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
    # That of an earlier leader is refused as its tasks are: its report would end a task of the one that leads.
    common = _common_metadata(identity.key, seals.scope, "fence", {EPOCH_LABEL: str(epoch)})
    return _pod({**common, **_own_metadata(sealed, seals)}, spec)


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
    # The text of a large job is long, and each of its pods asks.
    return launch.hosts.find("\n", launch.hosts.find("\n") + 1) > 0


def grace_seconds(grace_s: float) -> int:
    """Return a grace period as Kubernetes counts it: 0 would remove the pod without waiting for its container."""
    return max(1, math.ceil(grace_s))


def _pod(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": PODS.api_version, "kind": PODS.name, "metadata": metadata, "spec": spec}


def _common_metadata(key: AttemptKey, scope: str, part: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"labels": {**labels, **job_labels(scope, key), PART_LABEL: part}, "finalizers": [FINALIZER]}


def _own_metadata(identity: Identity, seals: Seals) -> dict[str, Any]:
    return {"name": pod_name(seals.scope, identity.key), "annotations": seals.annotations(identity)}


def _on_node(node: str, placement: Placement, *, has_claims: bool) -> dict[str, Any]:
    if placement is Placement.DIRECT:
        # A kubelet that sees a pod before its claim is allocated waits ten seconds and more: `Claims` binds it then.
        return {"schedulerName": SCHEDULER} if has_claims else {"nodeName": node}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    }


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


def _role_container(launch: LaunchTask, options: PodOptions, parts: Parts) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": launch.image,
        "resources": _resources(launch, options, parts),
        "securityContext": _security(launch, options),
        "terminationMessagePath": MESSAGE_FILE,
    }
    if options.fetch_mb_max:
        # Ready to be read: its status says it to a server that starts later, too.
        probe = {"exec": {"command": list(_LEFT)}, "periodSeconds": _LEFT_EVERY_S, "timeoutSeconds": 5}
        container["readinessProbe"] = {**probe, "initialDelaySeconds": 1, "failureThreshold": 1}
    if parts.bundle.env:
        container["envFrom"] = [{"secretRef": {"name": parts.bundle.env}}]
    if not _listens_on_node(launch, options):
        container["command"] = _command(parts.bundle, *_RUN)
    if not options.checkpoint_claim:
        container["volumeMounts"] = _volume_mounts(launch, options, parts)
    return container


def _task_container(launch: LaunchTask, options: PodOptions, parts: Parts) -> dict[str, Any]:
    container: dict[str, Any] = {}
    if _listens_on_node(launch, options):
        ports = " ".join(f"{port}:{port:04X}" for port in launch.ports)
        container["command"] = _command(parts.bundle, f"{FILES}/{ENTRY_FILE}", MESSAGE_FILE, ports, *_RUN)
    elif launch.ports:
        # The platform allocates ports of the node, so a port has the same number inside and outside.
        container["ports"] = [{"containerPort": port, "hostPort": port} for port in launch.ports]
    if options.checkpoint_claim:
        container["volumeMounts"] = _volume_mounts(launch, options, parts)
    return container


def _command(bundle: Bundle, *script: str) -> list[str]:
    words = ("/bin/sh", *script)
    return list(loading(words) if bundle.has_variables else words)


def _listens_on_node(launch: LaunchTask, options: PodOptions) -> bool:
    return options.host_network and bool(launch.ports)


def _volume_mounts(launch: LaunchTask, options: PodOptions, parts: Parts) -> list[Mapping[str, Any]]:
    return [
        {"name": "pai-task", "mountPath": TASK},
        {"name": "pai-files", "mountPath": FILES, "readOnly": True},
        {"name": "pai-shm", "mountPath": "/dev/shm"},  # noqa: S108
        *_checkpoint_mount(launch, options),
        *parts.storages.mounts,
    ]


def _checkpoint_mount(launch: LaunchTask, options: PodOptions) -> list[dict[str, Any]]:
    if not options.checkpoint_claim:
        return []
    return [{"name": "pai-checkpoints", "mountPath": CHECKPOINTS, "subPath": checkpoint_path(launch)}]


def _environment(launch: LaunchTask, options: PodOptions, parts: Parts, of_job: Mapping[str, str]) -> Mapping[str, str]:
    own = checkpoint_variable(launch, has_claim=bool(options.checkpoint_claim))
    in_secret = parts.bundle.variables if parts.bundle.has_variables else None
    return environment(launch, {**of_job, **own} if own else of_job, in_secret, parts.devices)


def variables_of_job(launch: LaunchTask, options: PodOptions) -> dict[str, str]:
    """Return the variables that the containers of all tasks of a job attempt have, beside `shared_env`."""
    return job_variables(launch, has_claim=bool(options.checkpoint_claim), is_fetched=options.fetch_mb_max > 0)


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

"""Creates the backend that the settings name. Other backends are not even imported."""

from __future__ import annotations

import os
import re
import secrets
from typing import TYPE_CHECKING, Final

from openpai.app.clock import MonotonicClock
from openpai.app.datadir import DataDir
from openpai.app.settings import Settings
from openpai.app.startup import BY
from openpai.ports.backend import Backend
from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import KUBERNETES, SettingsStore
from openpai.protocol.errors import BadConfiguration, Refused

if TYPE_CHECKING:
    from openpai.backends.process.dropping import Accounts

SIMULATED_NODES: Final = 4
SIMULATED_GPUS: Final = 8
SIMULATED_CPUS: Final = 64
_DRIVER: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_RESOURCE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9*]([-A-Za-z0-9_.*]*[A-Za-z0-9*])?")


async def make_backend(
    settings: Settings, data: DataDir, clock: Clock, accounts: Accounts, kept: SettingsStore
) -> Backend:
    """Return the backend that the settings name, not opened yet."""
    if settings.backend == "process":
        return _process(settings, data, clock, accounts)
    if settings.backend == "kubernetes":
        return _kubernetes(settings, data, clock, await platform_secret(kept, clock))
    return {"docker": _docker, "simulated": _simulated}[settings.backend](settings, data, clock)


def why_unkept(settings: Settings) -> str:
    """Return why nothing is kept of the files that tasks leave; empty if they are kept."""
    if settings.work_retention_hours <= 0:
        return "this server keeps no files of tasks (--work-retention-hours 0)"
    if settings.backend == "docker" and os.geteuid() != 0:
        return "only a server that runs as root keeps the files of containers"
    if settings.backend == "kubernetes" and not settings.work_fetch_mb:
        return "this server fetches no files of pods (--work-fetch-mb 0)"
    return ""


async def platform_secret(kept: SettingsStore, clock: Clock) -> bytes:
    """Return the secret by which all servers of a platform recognise its pods; it is made once.

    The key of the vault would not do: after its rotation the pods that run would be those of a stranger.
    """
    found = await kept.setting(KUBERNETES)
    if found is None:
        body = {"secret": secrets.token_hex(32)}
        try:
            found = await kept.set_setting(KUBERNETES, body, by=BY, at_ms=clock.now_ms(), version=0)
        except Refused:
            found = await kept.setting(KUBERNETES)
            if found is None:
                raise
    return bytes.fromhex(found.body["secret"])


def _process(settings: Settings, data: DataDir, clock: Clock, accounts: Accounts) -> Backend:
    from openpai.backends.host.machine import LOOPBACK
    from openpai.backends.process.backend import ProcessBackend
    from openpai.backends.process.dropping import OneUser, TaskUsers, find_user, users_in
    from openpai.backends.process.uids import UidRange

    root = data.tasks / "process"
    task_users: TaskUsers | None = None
    if settings.task_user is not None:
        task_users = OneUser(find_user(settings.task_user))
    elif settings.task_uids is not None:
        task_users = users_in(UidRange.parse(settings.task_uids), data.task_uids, accounts)
    if task_users is not None:
        data.let_pass(root)
    return ProcessBackend(
        root,
        data.logs,
        clock,
        nodes=settings.nodes or 1,
        gpus_per_node=settings.gpus_per_node,
        cpus_per_node=settings.cpus_per_node,
        address=settings.node_address or LOOPBACK,
        task_users=task_users,
        work_bytes_max=settings.work_max_mb << 20,
        keeps_work=settings.work_retention_hours > 0,
        required_mounts=settings.mounts,
    )


def _docker(settings: Settings, data: DataDir, clock: Clock) -> Backend:
    try:
        from openpai.backends.docker.backend import DockerBackend
        from openpai.backends.docker.networks import SUBNETS_DEFAULT
        from openpai.backends.docker.security import PIDS_DEFAULT, Allowed
    except ModuleNotFoundError as error:
        raise BadConfiguration(
            f"--backend docker needs {error.name}", "install it with: pip install 'openpai[docker]'"
        ) from error
    allowed = Allowed(
        host_network=settings.host_network,
        setuid=settings.allow_setuid,
        infiniband=settings.allow_infiniband,
        pids_max=settings.pids_per_task or PIDS_DEFAULT,
    )
    return DockerBackend(
        data.tasks / "docker",
        data.logs,
        clock,
        url=settings.docker_url,
        nodes=settings.nodes or 1,
        gpus_per_node=settings.gpus_per_node,
        cpus_per_node=settings.cpus_per_node,
        address=settings.node_address,
        allowed=allowed,
        subnets=settings.task_network or SUBNETS_DEFAULT,
        work_bytes_max=settings.work_max_mb << 20,
        # Only root can remove files that a container's root created.
        keeps_work=settings.work_retention_hours > 0 and os.geteuid() == 0,
        required_mounts=settings.mounts,
    )


def _kubernetes(settings: Settings, data: DataDir, clock: Clock, secret: bytes) -> Backend:
    try:
        from openpai.backends.host.directory import KEPT
        from openpai.backends.kubernetes.backend import KubernetesBackend
        from openpai.backends.kubernetes.node_health import OWN_TAINT, NodeRules
        from openpai.backends.kubernetes.nodes import DeviceRules
        from openpai.backends.kubernetes.options import KubernetesOptions
        from openpai.backends.kubernetes.pods import Placement, PodOptions
        from openpai.kube.config import cluster_access
    except ModuleNotFoundError as error:
        raise BadConfiguration(
            f"--backend kubernetes needs {error.name}", "install it with: pip install 'openpai[kubernetes]'"
        ) from error
    tolerated = frozenset({OWN_TAINT, *(settings.tolerate or "").replace(",", " ").split()})
    pods = PodOptions(
        placement=Placement(settings.placement),
        host_network=settings.host_network,
        setuid=settings.allow_setuid,
        infiniband=settings.rdma_resource if settings.allow_infiniband else "",
        pull_secrets=(settings.kube_pull_secrets or "").replace(",", " ").split(),
        priority_class=settings.task_priority_class or "",
        tolerations=[{"key": key, "operator": "Exists"} for key in sorted(tolerated)],
        work_mb_max=settings.work_max_mb,
        checkpoint_claim=settings.kube_checkpoint_claim or "",
        fetch_mb_max=settings.work_fetch_mb if settings.work_retention_hours > 0 else 0,
    )
    known, (resources, classes) = DeviceRules(), gpus_in(settings.kube_gpus)
    options = KubernetesOptions(
        namespace=settings.kube_namespace or "",
        pods=pods,
        nodes=NodeRules(labels_in(settings.node_selector), tolerated),
        devices=DeviceRules(known.resources + resources, {**known.classes, **classes}),
        has_queues=bool(settings.kueue_queues),
        gives_up_after_s=settings.lost_after,
    )
    access = cluster_access(settings.kubeconfig, settings.kube_context)
    return KubernetesBackend(access, secret, clock, options, data.logs, data.tasks / "kubernetes" / KEPT)


def labels_in(text: str | None) -> dict[str, str]:
    """Return the labels of `key=value,...`. Raises Refused for anything else."""
    pairs = [pair.partition("=") for pair in (text or "").replace(",", " ").split()]
    if not all(key and equals for key, equals, _ in pairs):
        message = f"{text} is not a list of labels"
        raise BadConfiguration(message, "write key=value, with commas between several")
    return {key: value for key, _, value in pairs}


def gpus_in(text: str | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the extended resources and, by driver, the DeviceClasses of `RESOURCE,DRIVER=CLASS`. Raises Refused."""
    parts = [part.partition("=") for part in (text or "").replace(",", " ").split()]
    for name, equals, device_class in parts:
        if not (_DRIVER if equals else _RESOURCE).fullmatch(name) or (equals and not _DRIVER.fullmatch(device_class)):
            message = f"{name}{equals}{device_class} is neither a resource nor a driver with its class"
            raise BadConfiguration(message, "write habana.ai/gaudi or gpu.intel.com=gpu.intel.com")
    resources = tuple(name for name, equals, _ in parts if not equals)
    return resources, {name: device_class for name, equals, device_class in parts if equals}


def _simulated(settings: Settings, data: DataDir, clock: Clock) -> Backend:
    from openpai.backends.simulated.backend import LogFiles, SimulatedBackend, virtual_nodes
    from openpai.backends.simulated.cluster import SimulatedCluster

    gpus = SIMULATED_GPUS if settings.gpus_per_node is None else settings.gpus_per_node
    nodes = virtual_nodes(settings.nodes or SIMULATED_NODES, gpus, cpus=settings.cpus_per_node or SIMULATED_CPUS)
    cluster = SimulatedCluster(nodes, say=LogFiles(data.logs).say)
    return SimulatedBackend(cluster, clock, steady=MonotonicClock())

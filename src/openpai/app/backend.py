"""Creates the backend that the settings name. Other backends are not even imported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from openpai.app.clock import MonotonicClock
from openpai.app.datadir import DataDir
from openpai.app.settings import Settings
from openpai.ports.backend import Backend
from openpai.ports.clock import Clock
from openpai.protocol.errors import BadConfiguration

if TYPE_CHECKING:
    from openpai.backends.process.dropping import Accounts

SIMULATED_NODES: Final = 4
SIMULATED_GPUS: Final = 8
SIMULATED_CPUS: Final = 64


def make_backend(settings: Settings, data: DataDir, clock: Clock, accounts: Accounts) -> Backend:
    """Return the backend that the settings name, not opened yet."""
    if settings.backend == "process":
        return _process(settings, data, clock, accounts)
    return {"docker": _docker, "simulated": _simulated}[settings.backend](settings, data, clock)


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
    )


def _simulated(settings: Settings, data: DataDir, clock: Clock) -> Backend:
    from openpai.backends.simulated.backend import LogFiles, SimulatedBackend, virtual_nodes
    from openpai.backends.simulated.cluster import SimulatedCluster

    gpus = SIMULATED_GPUS if settings.gpus_per_node is None else settings.gpus_per_node
    nodes = virtual_nodes(settings.nodes or SIMULATED_NODES, gpus, cpus=settings.cpus_per_node or SIMULATED_CPUS)
    cluster = SimulatedCluster(nodes, say=LogFiles(data.logs).say)
    return SimulatedBackend(cluster, clock, steady=MonotonicClock())

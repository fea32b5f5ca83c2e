"""The settings of a server with their defaults, and which of them exclude each other."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from openpai.app.connection_limits import PER_ADDRESS, networks
from openpai.protocol.errors import Refused

BackendName = Literal["process", "docker", "simulated"]
PORT_DEFAULT: Final = 9186
AUDIT_DAYS_DEFAULT: Final = 730.0
DAYS_MAX: Final = 36_525
PIDS_MIN: Final = 16
WORK_HOURS_DEFAULT: Final = 24.0
LOG_DAYS_DEFAULT: Final = 30.0
LOG_GB_DEFAULT: Final = 50.0
LOG_MAX_MB_DEFAULT: Final = 1024
LOG_MAX_MB_LEAST: Final = 1
GB_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """One server's settings. Durations in seconds, sizes in bytes."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    """0 takes any free port."""
    backend: BackendName = "process"
    nodes: int | None = None
    """The number of virtual nodes; None: this machine as it is (simulated: 4)."""
    gpus_per_node: int | None = None
    cpus_per_node: int | None = None
    """Processors each node offers; None: those the machine has, at least 8 (simulated: 64)."""
    database_url: str | None = None
    """None: SQLite in the data directory."""
    task_user: str | None = None
    """The system user that runs all tasks of the process backend; None: the server's own."""
    task_uids: str | None = None
    """Range of user numbers, such as 200000-265535, from which each user's tasks get a system user of their own."""
    allow_remote: bool = False
    """Whether other machines may reach a server with the process backend."""
    ready_file: Path | None = None
    """Written, as JSON with `url` and `pid`, once the server answers."""
    docker_url: str | None = None
    node_address: str | None = None
    """The address under which tasks reach this node; None: loopback, or with Docker the address of its network."""
    host_network: bool = False
    """Whether containers use the machine's own network."""
    task_subnets: str | None = None
    """The range, such as 10.213.0.0/16, from which each job's network gets its addresses."""
    pids_per_task: int | None = None
    """How many processes and threads a container may have; None: the docker backend's default."""
    allow_setuid: bool = False
    """Whether setuid programs such as sudo work in containers."""
    allow_infiniband: bool = False
    """Whether containers whose job asks for InfiniBand get it."""
    api_only: bool = False
    """Whether to answer requests only, on the data directory and the database of a server that runs the jobs."""
    cluster: Path | None = None
    """A file that configures the virtual clusters, in HiveD's format."""
    share: str | None = None
    """The same as text, such as `team-a: 3 nodes, team-b: 8 GPUs`."""
    identity: Path | None = None
    """The file that configures other sources of users."""
    log_max_mb: int = LOG_MAX_MB_DEFAULT
    """Limit on the logs of a task attempt; the middle of larger logs is cut out. 0: no limit."""
    work_max_mb: int = 0
    """Limit on a task's working directory and container; 0: no limit."""
    work_retention_hours: float = WORK_HOURS_DEFAULT
    """How long the working directories of ended tasks are kept; 0: not at all."""
    log_retention_days: float = LOG_DAYS_DEFAULT
    log_retention_gb: float = LOG_GB_DEFAULT
    """Limit on all logs together, beyond which the oldest are removed."""
    event_retention_days: float = 0.0
    """How long the events of jobs are kept; 0: as long as their jobs."""
    audit_retention_days: float = AUDIT_DAYS_DEFAULT
    """How long entries of the audit log are kept; 0: for ever."""

    connections_per_address: int = PER_ADDRESS
    trusted_proxies: tuple[str, ...] | None = None
    """Addresses and networks whose X-Forwarded-For is trusted and whose connections are not counted by address.

    None: trust the variable FORWARDED_ALLOW_IPS, by default this machine only, and count all by address."""

    def check(self) -> None:
        """Raise Refused for invalid settings, and for those that exclude each other."""
        if not 0 <= self.port <= 65535:
            raise Refused(
                "BadConfigurationError", f"--port {self.port} is not a port number", "use 0 (any free one) to 65535"
            )
        if self.nodes is not None and self.nodes < 1:
            raise Refused("BadConfigurationError", f"--nodes {self.nodes} leaves nothing to run on", "use 1 or more")
        if self.cpus_per_node is not None and self.cpus_per_node < 1:
            raise Refused("BadConfigurationError", f"--cpus-per-node {self.cpus_per_node} is too few", "use 1 or more")
        if self.gpus_per_node is not None and self.gpus_per_node < 0:
            raise Refused("BadConfigurationError", f"--gpus-per-node {self.gpus_per_node} is negative", "use 0 or more")
        self._check_retention()
        if self.cluster is not None and self.share is not None:
            raise Refused(
                "BadConfigurationError", "--cluster and --share both define the virtual clusters", "give one of them"
            )
        if self.api_only and (self.cluster is not None or self.share is not None):
            message = "--api-only leaves the virtual clusters to the server that runs the jobs"
            raise Refused("BadConfigurationError", message, "use --cluster or --share with that one, or `pai vc`")
        if self.connections_per_address < 1:
            message = f"--connections-per-address {self.connections_per_address} would refuse every connection"
            raise Refused("BadConfigurationError", message, "use 1 or more")
        networks(self.trusted_proxies or ())
        if self.has_task_users:
            self._check_task_users()
        self._check_containers()
        if self.backend == "process" and not self.allow_remote and not is_loopback(self.host):
            raise Refused(
                "BadConfigurationError",
                f"--backend process gives every job {self.rights}, and --host {self.host} lets other machines reach it",
                "use --backend docker, listen on 127.0.0.1, or add --allow-remote to permit it",
            )

    def _check_retention(self) -> None:
        if not 0 <= self.work_retention_hours <= DAYS_MAX * 24:
            message = f"--work-retention-hours {self.work_retention_hours:g} is not a valid number of hours"
            raise Refused("BadConfigurationError", message, "use 0, which keeps nothing, or more")
        if not 0 <= self.work_max_mb <= GB_MAX * 1024:
            message = f"--work-max-mb {self.work_max_mb} is not a valid size"
            raise Refused("BadConfigurationError", message, "use 0, which sets no limit, or more")
        if not 0 <= self.audit_retention_days <= DAYS_MAX:
            message = f"--audit-retention-days {self.audit_retention_days:g} is not a valid number of days"
            raise Refused("BadConfigurationError", message, "use 0, which keeps entries for ever, or more")
        if not 0 <= self.event_retention_days <= DAYS_MAX:
            message = f"--event-retention-days {self.event_retention_days:g} is not a valid number of days"
            raise Refused("BadConfigurationError", message, "use 0, which keeps events as long as their jobs, or more")
        if not 0 <= self.log_retention_days <= DAYS_MAX:
            message = f"--log-retention-days {self.log_retention_days:g} is not a valid number of days"
            raise Refused("BadConfigurationError", message, "use 0, which keeps logs until there are too many, or more")
        if not 0 <= self.log_retention_gb <= GB_MAX:
            message = f"--log-retention-gb {self.log_retention_gb:g} is not a valid size"
            raise Refused("BadConfigurationError", message, "use 0, which keeps logs until they are too old, or more")
        if self.log_max_mb and not LOG_MAX_MB_LEAST <= self.log_max_mb <= GB_MAX * 1024:
            message = f"--log-max-mb {self.log_max_mb} leaves too little of a log to be of use"
            raise Refused(
                "BadConfigurationError", message, f"use 0, which keeps all of it, or {LOG_MAX_MB_LEAST} or more"
            )

    @property
    def rights(self) -> str:
        """Return a phrase for the rights of tasks of the process backend."""
        if self.task_user is not None:
            return f"the rights of the user {self.task_user}"
        if self.task_uids is not None:
            return "the rights of a system user of its owner's own"
        return "the server's own rights" + (", which are root's" if self.runs_tasks_as_root else "")

    @property
    def runs_tasks_as_root(self) -> bool:
        """Return whether tasks of the process backend run as root."""
        return not self.has_task_users and os.geteuid() == 0

    @property
    def has_task_users(self) -> bool:
        """Return whether tasks run as other users than the server."""
        return self.task_user is not None or self.task_uids is not None

    def _check_task_users(self) -> None:
        option = "--task-user" if self.task_user is not None else "--task-uids"
        if self.task_user is not None and self.task_uids is not None:
            message = "--task-user runs all tasks as one user, and --task-uids as a user for each owner"
            raise Refused("BadConfigurationError", message, "give one of them")
        if self.backend != "process":
            message = f"{option} is for the process backend, and --backend is {self.backend}"
            raise Refused("BadConfigurationError", message, f"remove {option}: the image defines the user of its tasks")
        if os.geteuid() != 0:
            message = f"only a server that is root can run tasks as {self.task_user or 'other users'}"
            raise Refused("BadConfigurationError", message, f"remove {option}, or start the server as root")

    def _check_containers(self) -> None:
        """Raise Refused for invalid container options, and for any of them without the docker backend."""
        options = {
            "--host-network": self.host_network,
            "--task-subnets": self.task_subnets is not None,
            "--pids-per-task": self.pids_per_task is not None,
            "--allow-setuid": self.allow_setuid,
            "--allow-infiniband": self.allow_infiniband,
        }
        if self.backend != "docker":
            for option in (option for option, is_given in options.items() if is_given):
                message = f"{option} is for the docker backend, and --backend is {self.backend}"
                raise Refused("BadConfigurationError", message, "remove it, or use --backend docker")
        if self.host_network and self.task_subnets is not None:
            message = "--task-subnets has no effect with --host-network"
            raise Refused("BadConfigurationError", message, "give one of them")
        if self.pids_per_task is not None and self.pids_per_task < PIDS_MIN:
            message = f"--pids-per-task {self.pids_per_task} is too few for the shells around a task"
            raise Refused("BadConfigurationError", message, f"use {PIDS_MIN} or more")
        if self.node_address is not None:
            try:
                ipaddress.ip_address(self.node_address)
            except ValueError:
                message = f"--node-address {self.node_address} is not an IP address"
                raise Refused("BadConfigurationError", message, "give one such as 192.0.2.7") from None
        subnets = self.task_network
        if subnets is not None and self.node_address and ipaddress.ip_address(self.node_address) in subnets:
            message = f"--node-address {self.node_address} is inside --task-subnets {subnets}"
            raise Refused("BadConfigurationError", message, "choose a range that is not in use")

    @property
    def task_network(self) -> ipaddress.IPv4Network | None:
        """Return the range of --task-subnets. Raises Refused if it is invalid."""
        if self.task_subnets is None:
            return None
        try:
            return ipaddress.IPv4Network(self.task_subnets)
        except ValueError as error:
            message = f"--task-subnets {self.task_subnets} is not a range of addresses: {error}"
            raise Refused("BadConfigurationError", message, "give one such as 10.213.0.0/16") from None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

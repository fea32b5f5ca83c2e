"""The settings of a server with their defaults, and which of them exclude each other."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal

from openpai.app.connection_limits import PER_ADDRESS, networks
from openpai.cli.options import setting
from openpai.protocol.errors import BadConfiguration

BackendName = Literal["process", "docker", "kubernetes", "simulated"]
LogFormat = Literal["auto", "text", "json"]
PORT_DEFAULT: Final = 9186
DATA_DIR_DEFAULT: Final = Path("~/.local/share/openpai")
DAYS_MAX: Final = 36_525
PIDS_MIN: Final = 16
LOG_MAX_MB_LEAST: Final = 1
GB_MAX: Final = 1 << 20
LOST_AFTER_LEAST: Final = 25.0
_MACHINES: Final[tuple[BackendName, ...]] = ("process", "docker", "simulated")
_CONTAINERS: Final[tuple[BackendName, ...]] = ("docker", "kubernetes")
_BACKENDS_OF: Final[Mapping[str, tuple[BackendName, ...]]] = {
    "host_network": _CONTAINERS,
    "allow_setuid": _CONTAINERS,
    "allow_infiniband": _CONTAINERS,
    "task_subnets": ("docker",),
    "pids_per_task": ("docker",),
    "nodes": _MACHINES,
    "gpus_per_node": _MACHINES,
    "cpus_per_node": _MACHINES,
    "node_address": _MACHINES,
    "required_mounts": ("process", "docker"),
    "kubeconfig": ("kubernetes",),
    "kube_context": ("kubernetes",),
    "kube_namespace": ("kubernetes",),
    "placement": ("kubernetes",),
    "node_selector": ("kubernetes",),
    "tolerate": ("kubernetes",),
    "task_priority_class": ("kubernetes",),
    "lost_after": ("kubernetes",),
    "kube_checkpoint_claim": ("kubernetes",),
    "work_fetch_mb": ("kubernetes",),
    "rdma_resource": ("kubernetes",),
}
"""The backends for which an option has a meaning, where not for all."""
_RETENTION: Final = (
    ("work_retention_hours", DAYS_MAX * 24, "number of hours", "keeps nothing"),
    ("checkpoint_retention_days", DAYS_MAX, "number of days", "keeps them as long as their jobs"),
    ("work_max_mb", GB_MAX * 1024, "size", "sets no limit"),
    ("work_fetch_mb", GB_MAX * 1024, "size", "fetches nothing"),
    ("audit_retention_days", DAYS_MAX, "number of days", "keeps entries for ever"),
    ("alert_retention_days", DAYS_MAX, "number of days", "keeps them for ever"),
    ("event_retention_days", DAYS_MAX, "number of days", "keeps events as long as their jobs"),
    ("log_retention_days", DAYS_MAX, "number of days", "keeps logs until there are too many"),
    ("app_idle_hours", DAYS_MAX * 24, "number of hours", "stops none"),
    ("metrics_10s_days", DAYS_MAX, "number of days", "keeps only coarser values"),
    ("metrics_5m_days", DAYS_MAX, "number of days", "keeps only coarser values"),
    ("metrics_1h_days", DAYS_MAX, "number of days", "keeps only finer values"),
    ("log_retention_gb", GB_MAX, "size", "keeps logs until they are too old"),
    ("work_kept_gb", GB_MAX, "size", "keeps files until they are too old"),
)
"""The greatest value of each limit on what is kept, its unit, and what 0 means."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One server's settings: each field is an option of `pai up`, a key of its file and a variable."""

    data_dir: Path = setting("Directory of the database, logs and keys.", DATA_DIR_DEFAULT, envvar="PAI_DATA_DIR")
    host: str = setting("Address to listen on.", "127.0.0.1")
    port: int = setting("Port to listen on; 0 takes any free one.", PORT_DEFAULT)
    backend: BackendName = setting("What runs the tasks.", "process")
    ssh_port: int | None = setting("Port for SSH clients of running tasks; 0 takes any free one [default: none].")
    ssh_host_key: Path | None = setting("File of the SSH host key [default: one is made in the data directory].")
    app_ports: str = setting(
        "Ports at which browsers reach applications, such as Jupyter, one for each; none switches them off.",
        "9300-9399",
    )
    app_url: str | None = setting(
        "Address of all applications below a wildcard domain, such as https://*.apps.example.org, whose requests come "
        "to the first of --app-ports [default: a port of this machine for each]."
    )
    app_idle_hours: float = setting(
        "After how long without use a job is stopped that exists for an application only, as those of `pai lab`; 0 for "
        "never.",
        8.0,
    )
    nodes: int | None = setting("Number of virtual nodes [default: this machine as it is].")
    gpus_per_node: int | None = setting("GPUs of each node [default: those found].")
    cpus_per_node: int | None = setting("CPUs each node offers [default: those found, at least 8].")
    database_url: str | None = setting("PostgreSQL instead of SQLite: postgresql://...", envvar="PAI_DATABASE_URL")
    required_mounts: str | None = setting(
        "Directories that must be mounted before this machine takes tasks, such as /data,/scratch, with commas between "
        "them."
    )
    docker_url: str | None = setting("Engine API of Docker or Podman [default: the local one].", envvar="DOCKER_HOST")
    node_address: str | None = setting("Address under which tasks and users reach tasks on this node [default: found].")
    host_network: bool = setting("Give containers the machine's own network, without separation.", False)
    task_subnets: str | None = setting("Addresses for the networks of jobs in containers [default: 10.213.0.0/16].")
    pids_per_task: int | None = setting("Limit on processes and threads of a container [default: 8192].")
    allow_setuid: bool = setting("Allow sudo and other setuid programs in containers.", False)
    allow_infiniband: bool = setting("Give InfiniBand to containers whose job asks for it.", False)
    kubeconfig: Path | None = setting(
        "Access to a Kubernetes cluster [default: KUBECONFIG, this pod's, or ~/.kube/config]."
    )
    kube_context: str | None = setting("Context in the kubeconfig [default: its current one].")
    kube_namespace: str | None = setting("Namespace of the pods of tasks [default: that of the context].")
    placement: Literal["direct", "polite"] = setting(
        "Whether the pods of tasks name their node (direct), or kube-scheduler puts them on it (polite), for nodes "
        "that other programs use, too.",
        "direct",
    )
    node_selector: str | None = setting("Labels of the nodes to use: key=value,... [default: all workers].")
    tolerate: str | None = setting("Keys of taints of nodes that tasks tolerate, with commas between them.")
    task_priority_class: str | None = setting("PriorityClass of the pods of tasks.")
    lost_after: float = setting(
        "Seconds of silence after which the tasks of a Kubernetes node start again elsewhere; 0 waits for proof "
        "that they do not run any more.",
        LOST_AFTER_LEAST,
    )
    kube_checkpoint_claim: str | None = setting(
        "PersistentVolumeClaim, shared by all nodes, with a directory for each task's checkpoints."
    )
    checkpoint_retention_days: float = setting(
        "How long the checkpoints of ended jobs are kept; 0 keeps them until the job is archived or deleted.",
        30.0,
    )
    rdma_resource: str = setting("Extended resource of the InfiniBand devices of Kubernetes nodes.", "rdma/hca")
    task_user: str | None = setting("Run tasks as this user of the machine; the server must be root.")
    task_uids: str | None = setting("Run each user's tasks as a system user of their own, from a range: 200000-265535.")
    allow_remote: bool = setting("Allow other machines to reach a server with the process backend.", False)
    cluster: Path | None = setting("File that defines the virtual clusters, in HiveD's format.")
    share: str | None = setting("The same as text: 'team-a: 3 nodes, team-b: 8 GPUs'.")
    identity: Path | None = setting("File that configures an OpenID provider or a directory for logins.")
    alert_commands: Path | None = setting(
        "File of the commands that alert rules may run: names with a program and its arguments."
    )
    webhook_networks: str | None = setting(
        "Networks that webhooks of users may reach besides public addresses, such as 10.0.0.0/8."
    )
    api_only: bool = setting("Answer requests only; another server runs the jobs.", False)
    audit_retention_days: float = setting("How long entries of the audit log are kept; 0 keeps them for ever.", 730.0)
    event_retention_days: float = setting("How long events of jobs are kept; 0 keeps them as long as the job.", 365.0)
    alert_retention_days: float = setting(
        "How long alerts that are over, their actions and messages are kept; 0 keeps them for ever.", 90.0
    )
    log_max_mb: int = setting(
        "Limit on the logs of a task attempt, in MiB; the middle of larger logs is cut out. 0 keeps all.", 1024
    )
    work_max_mb: int = setting(
        "Limit on a task's working directory and container, in MiB, beyond which it is killed; 0 sets no limit.", 0
    )
    work_retention_hours: float = setting(
        "How long the working directories of ended tasks are kept for `pai job fetch`; 0 keeps nothing. "
        "Of containers, PAI_WORK_DIR is kept, if the server runs as root.",
        24.0,
    )
    work_kept_gb: float = setting(
        "Limit on the kept working directories of one user together, in GiB, beyond which the oldest are removed; "
        "0 sets no limit.",
        100.0,
    )
    work_fetch_mb: int = setting(
        "Limit on what is fetched of the working directory of a task on Kubernetes, in MiB; 0 fetches nothing.", 256
    )
    log_retention_days: float = setting(
        "How long the logs of ended tasks are kept; 0 sets no limit on their age.", 30.0
    )
    log_retention_gb: float = setting(
        "Limit on all logs together, in GiB, beyond which the oldest are removed; 0 sets no limit.", 50.0
    )
    metrics_10s_days: float = setting("How long measured values are kept every 10 s.", 7.0)
    metrics_5m_days: float = setting("How long their means, lows and highs of 5 minutes are kept.", 90.0)
    metrics_1h_days: float = setting("How long their means, lows and highs of an hour are kept.", 730.0)
    metrics_url: str | None = setting(
        "Prometheus or VictoriaMetrics with the measured values, http://..., instead of keeping them here."
    )
    remote_write_url: str | None = setting(
        "Prometheus or another store that is sent each round of values by remote write, such as "
        "https://metrics.example.org/api/v1/write."
    )
    connections_per_address: int = setting(
        "Limit on open connections of one address or IPv6 network of 64 bits.", PER_ADDRESS
    )
    trusted_proxies: str | None = setting(
        "Proxies before the platform, such as 127.0.0.1,10.0.0.0/8: their X-Forwarded-For is believed, and their "
        "connections are not counted by address [default: this machine is believed, and counted]."
    )
    log_format: LogFormat = setting(
        "Form of the server's own log: text, a JSON object on each line, or text on a terminal and JSON elsewhere "
        "(auto).",
        "auto",
    )
    log_requests: bool = setting("Write a line into the server's log for each request that is answered.", False)
    traces_url: str | None = setting(
        "Collector of OpenTelemetry traces that takes OTLP over HTTP, such as http://127.0.0.1:4318 [default: none]."
    )
    traces_ratio: float = setting("Which part of the traces is sent, from 0 to 1, unless the caller decides.", 1.0)
    ready_file: Path | None = setting("Write {url, pid} here, as JSON, once the server answers.")

    @property
    def proxies(self) -> tuple[str, ...]:
        """Return the addresses and networks of the trusted proxies."""
        return tuple((self.trusted_proxies or "").replace(",", " ").split())

    @property
    def mounts(self) -> tuple[str, ...]:
        """Return the directories that must be mounted, as the kernel writes them."""
        given = (self.required_mounts or "").split(",")
        return tuple(os.path.normpath(path.strip()) for path in given if path.strip())

    def check(self) -> None:
        """Raise Refused for invalid settings, and for those that exclude each other."""
        if not 0 <= self.port <= 65535:
            raise BadConfiguration(f"--port {self.port} is not a port number", "use 0 (any free one) to 65535")
        self._check_ssh()
        if self.nodes is not None and self.nodes < 1:
            raise BadConfiguration(f"--nodes {self.nodes} leaves nothing to run on", "use 1 or more")
        for path in self.mounts:
            if not path.startswith("/"):
                message = f"--required-mounts {path} is no path from the root of the file system"
                raise BadConfiguration(message, "give directories such as /data,/scratch")
        if self.cpus_per_node is not None and self.cpus_per_node < 1:
            raise BadConfiguration(f"--cpus-per-node {self.cpus_per_node} is too few", "use 1 or more")
        if self.gpus_per_node is not None and self.gpus_per_node < 0:
            raise BadConfiguration(f"--gpus-per-node {self.gpus_per_node} is negative", "use 0 or more")
        self._check_retention()
        self._check_addresses()
        if self.cluster is not None and self.share is not None:
            raise BadConfiguration("--cluster and --share both define the virtual clusters", "give one of them")
        if self.api_only and (self.cluster is not None or self.share is not None):
            message = "--api-only leaves the virtual clusters to the server that runs the jobs"
            raise BadConfiguration(message, "use --cluster or --share with that one, or `pai vc`")
        if self.connections_per_address < 1:
            message = f"--connections-per-address {self.connections_per_address} would refuse every connection"
            raise BadConfiguration(message, "use 1 or more")
        networks(self.proxies)
        if self.has_task_users:
            self._check_task_users()
        self._check_containers()
        if self.backend == "process" and not self.allow_remote and not is_loopback(self.host):
            raise BadConfiguration(
                f"--backend process gives every job {self.rights}, and --host {self.host} lets other machines reach it",
                "use --backend docker, listen on 127.0.0.1, or add --allow-remote to permit it",
            )

    def _check_addresses(self) -> None:
        for name in ("metrics_url", "remote_write_url", "traces_url"):
            if not (getattr(self, name) or "http://").startswith(("http://", "https://")):
                message = f"--{name.replace('_', '-')} is not the address of a server"
                raise BadConfiguration(message, "use http://... or https://...")
        if not 0 <= self.traces_ratio <= 1:
            raise BadConfiguration(f"--traces-ratio {self.traces_ratio:g} is not a part of all", "use 0 to 1")

    def _check_ssh(self) -> None:
        if self.ssh_port is None:
            if self.ssh_host_key is not None:
                raise BadConfiguration("--ssh-host-key has no effect without --ssh-port", "give both, or neither")
            return
        if not 0 <= self.ssh_port <= 65535:
            raise BadConfiguration(f"--ssh-port {self.ssh_port} is not a port number", "use 0 (any free one) to 65535")
        if self.ssh_port == self.port != 0:
            raise BadConfiguration(f"--ssh-port and --port are both {self.port}", "choose another port for one of them")
        if self.api_only:
            message = "--ssh-port is for the server that runs the jobs, and --api-only leaves them to another one"
            raise BadConfiguration(message, "give --ssh-port to that one")

    def _check_retention(self) -> None:
        for name, most, unit, zero in _RETENTION:
            if not 0 <= (value := getattr(self, name)) <= most:
                message = f"--{name.replace('_', '-')} {value:g} is not a valid {unit}"
                raise BadConfiguration(message, f"use 0, which {zero}, or more")
        if self.log_max_mb and not LOG_MAX_MB_LEAST <= self.log_max_mb <= GB_MAX * 1024:
            message = f"--log-max-mb {self.log_max_mb} leaves too little of a log to be of use"
            raise BadConfiguration(message, f"use 0, which keeps all of it, or {LOG_MAX_MB_LEAST} or more")

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
            raise BadConfiguration(message, "give one of them")
        if self.backend != "process":
            message = f"{option} is for the process backend, and --backend is {self.backend}"
            raise BadConfiguration(message, f"remove {option}: the image defines the user of its tasks")
        if os.geteuid() != 0:
            message = f"only a server that is root can run tasks as {self.task_user or 'other users'}"
            raise BadConfiguration(message, f"remove {option}, or start the server as root")

    def _check_containers(self) -> None:
        """Raise Refused for invalid container options, and for options of another backend."""
        defaults = {field.name: field.default for field in fields(self)}
        for name, backends in _BACKENDS_OF.items():
            if self.backend not in backends and getattr(self, name) != defaults[name]:
                given, whose = f"--{name.replace('_', '-')}", " or ".join(backends)
                message = f"{given} is for the {whose} backend, and --backend is {self.backend}"
                raise BadConfiguration(message, f"remove it, or use --backend {whose}")
        if self.lost_after and not self.lost_after >= LOST_AFTER_LEAST:
            message = f"--lost-after {self.lost_after:g} is too short: a healthy node may be silent for some seconds"
            raise BadConfiguration(message, f"use {LOST_AFTER_LEAST:g} or more, or 0 to wait for proof")
        if self.host_network and self.task_subnets is not None:
            raise BadConfiguration("--task-subnets has no effect with --host-network", "give one of them")
        if self.pids_per_task is not None and self.pids_per_task < PIDS_MIN:
            message = f"--pids-per-task {self.pids_per_task} is too few for the shells around a task"
            raise BadConfiguration(message, f"use {PIDS_MIN} or more")
        if self.node_address is not None:
            try:
                ipaddress.ip_address(self.node_address)
            except ValueError:
                message = f"--node-address {self.node_address} is not an IP address"
                raise BadConfiguration(message, "give one such as 192.0.2.7") from None
        subnets = self.task_network
        if subnets is not None and self.node_address and ipaddress.ip_address(self.node_address) in subnets:
            message = f"--node-address {self.node_address} is inside --task-subnets {subnets}"
            raise BadConfiguration(message, "choose a range that is not in use")

    @property
    def task_network(self) -> ipaddress.IPv4Network | None:
        """Return the range of --task-subnets. Raises Refused if it is invalid."""
        if self.task_subnets is None:
            return None
        try:
            return ipaddress.IPv4Network(self.task_subnets)
        except ValueError as error:
            message = f"--task-subnets {self.task_subnets} is not a range of addresses: {error}"
            raise BadConfiguration(message, "give one such as 10.213.0.0/16") from None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

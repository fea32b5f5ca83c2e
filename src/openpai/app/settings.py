"""The settings of a server with their defaults."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from openpai.app.connection_limits import PER_ADDRESS
from openpai.cli.options import setting

BackendName = Literal["process", "docker", "kubernetes", "simulated"]
LogFormat = Literal["auto", "text", "json"]
PORT_DEFAULT: Final = 9186
DATA_DIR_DEFAULT: Final = Path("~/.local/share/openpai")
DAYS_MAX: Final = 36_525
GB_MAX: Final = 1 << 20
LOST_AFTER_LEAST: Final = 25.0


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
    kube_gpus: str | None = setting(
        "What else counts as GPUs, besides those of NVIDIA, AMD and Ascend: extended resources (* stands for any end), "
        "and drivers with their DeviceClass, as in habana.ai/gaudi,gpu.intel.com=gpu.intel.com."
    )
    kube_pull_secrets: str | None = setting(
        "Secrets in the namespace of the tasks with registry credentials that every pod uses, with commas between them."
    )
    kueue_queues: str | None = setting(
        "LocalQueues of Kueue, in the namespace of the tasks, that admit the jobs of virtual clusters: "
        "virtual-cluster=queue,... [default: the platform's own queue admits all]."
    )
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
    plugin_pages: str | None = setting(
        "Pages of other servers that the portal's navigation has, each in a frame of its own origin: "
        "'Wiki=https://wiki.example.org/, GPUs=https://grafana.example.org/d/gpus?theme={theme}'."
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

    @property
    def task_network(self) -> ipaddress.IPv4Network | None:
        """Return the range of --task-subnets."""
        return None if self.task_subnets is None else ipaddress.IPv4Network(self.task_subnets)

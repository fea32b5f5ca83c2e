"""What entrances may ask the platform to do. An answered command is kept, whatever fails afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from openpai.access.quotas import Quota
from openpai.ports.usage import AuditEntry
from openpai.protocol.errors import Unavailable
from openpai.scheduler.interface import Amount, Inspection, VcView
from openpai.scheduler.model import Wait


class NotLeading(Unavailable):
    """Only the server that leads can answer this; `url` is where it is, empty when nobody leads."""

    def __init__(self, url: str = "") -> None:
        super().__init__("this server does not lead", "ask again in a moment")
        self.url = url


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submits, and what they are allowed."""

    user: str
    virtual_clusters: frozenset[str] | None = None
    """Granted virtual clusters; None: all."""
    storages: tuple[str, ...] | None = None
    """Granted storages, the default ones of their groups first; None: all."""
    default_storages: tuple[str, ...] = ()
    quotas: tuple[Quota, ...] = ()
    """Quotas that may hold for them."""
    idempotency_key: str = ""
    clone_of: str = ""
    """A job of theirs, by name or id, whose secrets stand behind the masks of the file."""
    since_ms: int = 0
    """When their account was made; older jobs are of somebody who had their name before."""
    audit: AuditEntry | None = None
    """What to write into the audit log along with the job."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submission that is durable: the job will run or say why not."""

    job: str
    user: str
    name: str
    warnings: tuple[str, ...] = ()
    """What was understood but will not have the effect its author may expect."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A machine and how much of it is in use."""

    name: str
    address: str
    is_healthy: bool
    message: str
    gpu_model: str
    cpus_total: int
    cpus_used: int
    memory_mb_total: int
    memory_mb_used: int
    gpus_total: int
    gpus_used: int
    bad_devices: tuple[int, ...]
    tasks: int
    """How many task attempts hold something there."""
    is_drained: bool = False
    drained_because: str = ""
    virtual_clusters: tuple[str, ...] = ()
    """Whose jobs hold something there."""
    bad_because: str = ""
    deadline_ms: int | None = None
    """Until when jobs may run on it, if it is drained until a time."""
    changed_by: str = ""
    """Who drained it or marked its devices last."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a job holds, on one node or in the whole cluster."""

    job: str
    user: str
    name: str
    virtual_cluster: str
    is_private: bool
    submitted_at_ms: int
    tasks: int
    gpus: int
    cpus: int
    memory_mb: int
    devices: tuple[int, ...]
    """Numbers of its GPUs, where it is about one node."""
    since_ms: int | None
    """Since when it runs; None while it is being started."""
    ends_ms: int | None
    """When its time limit ends it, if it has one."""
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The new state of a node; None leaves it as it is."""

    is_drained: bool | None = None
    bad_devices: frozenset[int] | None = None
    reason: str = ""
    """Why, whichever of the two changes."""
    deadline_s: int | None = None
    """How long jobs may run on when it is drained; None for as long as they like."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What was promised to whom, as an administrator wrote it, and the whole configuration that follows from it."""

    promises: str | None
    """The short form, such as `team-a: 3 nodes, team-b: 8 GPUs`; None when `hived` was given instead."""
    hived: str
    """In HiveD's format: what the scheduler goes by now."""
    version: int
    """0 until somebody set it."""
    problems: tuple[str, ...] = field(default=())
    """What of it cannot be kept at the moment, such as promises for nodes that are not there."""
    demoted: tuple[str, ...] = ()
    """`user~job` of the jobs that run on without their guarantee because of the last change."""


class Platform(Protocol):
    """The commands, one function each. Jobs are named by their owner and name; unknown ones raise NoJobError."""

    async def submit(self, by: Submitter, text: bytes) -> Submitted:
        """Check a job file, remember the job, and answer once that is durable.

        Raises InvalidProtocol with every fault, Refused ConflictJobError for a name the user already uses,
        Refused InvalidProtocolError for a job that could not run even if everything were free,
        Refused ForbiddenUserError for a virtual cluster that is not granted, NoVirtualClusterError for one that is
        not there, NoStorageError for a storage that is not granted, and NoEnoughQuotaError beyond a quota. The same
        idempotency key again is the same job again, and harmless.
        """
        ...

    async def stop(self, user: str, name: str, by: str, reason: str = "") -> None:
        """Let the job end, for a reason that its owner reads. Harmless when it is over or already stopping."""
        ...

    async def start(self, user: str, name: str, by: str, reason: str = "") -> None:
        """Let a finished job run again as a new attempt; takes back a stop that has not been carried out yet.

        The history of the job says who wanted that and why.

        Raises NoEnoughQuotaError for a finished one that is beyond a quota of its owner, and ConflictJobError for
        one that runs or waits to run already.
        """
        ...

    async def restart(self, user: str, name: str, by: str, reason: str = "") -> None:
        """Let the job run again from its beginning, as a new attempt: a running one ends first, with its grace period.

        Raises ConflictJobError for a job that waits to run, Unavailable for one that is just ending by itself, and
        what `start` raises for one that is over.
        """
        ...

    async def kill(self, user: str, name: str, by: str, reason: str = "") -> None:
        """Let the job end like `stop`, but kill its tasks at once, also those that use their grace period already."""
        ...

    async def set_priority(self, user: str, name: str, priority_class: str, by: str) -> None:
        """Change the priority class of a job that is not over; where it runs, it runs on."""
        ...

    async def set_rank(self, user: str, name: str, rank: int, by: str) -> None:
        """Change the place of a job in its queue: among equal priorities a higher rank goes first."""
        ...

    async def checkpointed(self, user: str, name: str) -> None:
        """Learn that a job has just saved its work."""
        ...

    async def why(self, user: str, name: str) -> tuple[Wait, ...]:
        """Return why the job's tasks wait; empty when nothing of it waits."""
        ...

    async def in_the_way(self, user: str, name: str) -> tuple[Holding, ...]:
        """Return which jobs hold the room that a waiting job wants, the largest first; empty when it does not wait."""
        ...

    async def node_holdings(self, name: str) -> tuple[Holding, ...]:
        """Return what jobs hold on a node, the largest first. Raises NoNodeError."""
        ...

    async def nodes(self) -> tuple[NodeView, ...]:
        """Return every machine, by name."""
        ...

    async def change_node(self, name: str, change: NodeChange, by: str) -> NodeView:
        """Drain a node, give it back, or mark devices of it as bad. Raises NoNodeError."""
        ...

    async def forget_node(self, name: str, by: str) -> None:
        """Forget a node that is gone for good. Raises NoNodeError, or Refused while the backend still sees it."""
        ...

    async def virtual_clusters(self) -> tuple[VcView, ...]:
        """Return every virtual cluster, by name."""
        ...

    async def sku_types(self, virtual_cluster: str | None = None) -> Mapping[str, Amount]:
        """Return what one device of each type brings along. Raises NoVirtualClusterError."""
        ...

    async def cluster_config(self) -> ClusterConfig:
        """Return what was promised to whom."""
        ...

    async def configure(
        self, *, promises: str | None, hived: str | None, version: int | None, by: str
    ) -> ClusterConfig:
        """Replace all promises, given in words or in HiveD's format. No job is stopped for it.

        Raises Refused BadConfigurationError with every fault, having changed nothing, and ConflictSettingError when
        the configuration is not at `version` any more.
        """
        ...

    async def promise(self, virtual_cluster: str, change: str | None, by: str) -> ClusterConfig:
        """Promise a virtual cluster something else, such as `3 nodes` or `8 GPUs of A100 + 2 nodes`; None removes it.

        Raises NoVirtualClusterError when there is none to remove, RemoveRunningVcError while jobs use one that is
        removed, ReadOnlyVcError for `default`, BadConfigurationError for what cannot be promised.
        """
        ...

    async def inspect(self) -> Inspection:
        """Return cells and gangs in HiveD's own shapes."""
        ...

    async def scheduler_snapshot(self) -> Mapping[str, Any]:
        """Return the scheduler's whole state as plain data, for replaying a decision elsewhere."""
        ...

    async def limits_changed(self) -> None:
        """Learn that quotas or the fairness setting changed, wherever that was written."""
        ...

"""The commands of entrances. An answered command is durable, whatever fails afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from openpai.access.model import Principal
from openpai.access.quotas import Quota
from openpai.diagnosis.rules import RuleSet
from openpai.lifecycle.model import AttemptKey
from openpai.lifecycle.rescaling import Scales
from openpai.ports.alert_rules import AlertRules
from openpai.ports.applications import PlacedApplication
from openpai.ports.backend import NodeCheck
from openpai.ports.queues import Queues
from openpai.ports.revisions import Edit, Revised, Revision
from openpai.ports.shells import Shell, ShellCommand, Stream
from openpai.ports.task_usage import TaskUse
from openpai.ports.usage import AuditEntry
from openpai.protocol.errors import Unavailable
from openpai.scheduler.interface import Amount, Inspection, VcView
from openpai.scheduler.model import Wait


class NotLeading(Unavailable):
    """Only the leader can answer this; `url` is its URL, empty if no server leads, and `newest` finds it again."""

    def __init__(self, url: str = "", newest: Callable[[], Awaitable[str]] | None = None) -> None:
        super().__init__("this server does not lead", "ask again in a moment")
        self.url = url
        self.newest = newest


@dataclass(frozen=True, slots=True)
class Submitter:
    """The user who submits a job, with their grants and quotas."""

    user: str
    virtual_clusters: frozenset[str] | None = None
    """Granted virtual clusters; None: all."""
    storages: tuple[str, ...] | None = None
    """Granted storages, default ones of their groups first; None: all."""
    default_storages: tuple[str, ...] = ()
    quotas: tuple[Quota, ...] = ()
    """Quotas that may apply to them."""
    idempotency_key: str = ""
    clone_of: str = ""
    """A job of theirs, by name or id, whose secrets replace the masks in the file."""
    since_ms: int = 0
    """When their account was created; older jobs belong to an earlier user of the same name."""
    principal: Principal | None = None
    """With their rights, which decide which jobs they may wait for; None: only their own."""
    audit: AuditEntry | None = None
    """The entry to add to the audit log in the same transaction."""
    made_from: str = ""
    """The item of the marketplace that the job is made from."""
    item_revision: int = 0


@dataclass(frozen=True, slots=True)
class Submitted:
    """A durable submission."""

    job: str
    user: str
    name: str
    warnings: tuple[str, ...] = ()
    """Legal parts of the job file that may not have the expected effect."""


@dataclass(frozen=True, slots=True)
class SubmittedSweep:
    """A stored sweep."""

    user: str
    name: str
    jobs: tuple[str, ...]
    """The names of its jobs."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """A job file that may be submitted."""

    name: str
    virtual_cluster: str
    gpus_total: int
    warnings: tuple[str, ...] = ()
    waits: tuple[Wait, ...] | None = None
    """Why it would wait if it were submitted now, empty if it would start; None where only the leader knows."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, and how much of it is in use."""

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
    """The number of task attempts that hold resources on it."""
    is_drained: bool = False
    drained_because: str = ""
    virtual_clusters: tuple[str, ...] = ()
    """The virtual clusters whose jobs hold resources on it."""
    bad_because: str = ""
    deadline_ms: int | None = None
    """Until when jobs may run on it, if its drain has a deadline."""
    changed_by: str = ""
    """The user who drained it or marked its devices last."""
    lemon_score: float = 0.0
    """How many users' jobs failed lately for its hardware, older failures counting less."""
    lemon_users: int = 0
    """How many users these are."""
    checks: tuple[NodeCheck, ...] = ()
    temperatures_c: Mapping[int, float] = field(default_factory=dict)
    """By the number of each GPU of a running task, where it was measured."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Resources that a job holds, on one node or in the whole cluster."""

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
    """Numbers of its GPUs, if this is about one node."""
    since_ms: int | None
    """When it started to run; None before that."""
    ends_ms: int | None
    """When it reaches its time limit, if it has one."""
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The new state of a node; None leaves it as it is."""

    is_drained: bool | None = None
    bad_devices: frozenset[int] | None = None
    reason: str = ""
    """The reason of either change."""
    deadline_s: int | None = None
    """How long jobs may run on after the drain; None for no limit."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """The promises to virtual clusters as an administrator wrote them, and the configuration derived from them."""

    promises: str | None
    """The short form, such as `team-a: 3 nodes, team-b: 8 GPUs`; None when `hived` was given instead."""
    hived: str
    """The scheduler's configuration, in HiveD's format."""
    version: int
    """0 before it is set for the first time."""
    problems: tuple[str, ...] = field(default=())
    """Promises that cannot be kept at the moment, for missing nodes for instance."""
    demoted: tuple[str, ...] = ()
    """`user~job` of the jobs that run on without their guarantee because of the last change."""


@dataclass(frozen=True, slots=True)
class PromisePreview:
    """What a change of promises would do; nothing was changed."""

    promises: str | None
    """All promises as they would be."""
    before: Mapping[str, Amount]
    """What each virtual cluster is promised now, by name."""
    after: Mapping[str, Amount]
    """What each would be promised."""
    problems: tuple[str, ...] = ()
    """Promises that could not be kept at the moment."""
    demoted: tuple[str, ...] = ()
    """`user~job` of the jobs that would run on without their guarantee."""


ExitSpecContent = Mapping[str, Any]
"""As `diagnosis.exit_specs.read_spec` reads it."""


class Platform(AlertRules, Queues, Protocol):
    """The commands, one method each. Jobs are named by their owner and name; unknown ones raise NoJobError."""

    async def submit(self, by: Submitter, text: bytes) -> Submitted:
        """Check a job file, store the job, and return once it is durable.

        Raises InvalidProtocol with every fault, Refused ConflictJobError for a name the user already uses,
        Refused InvalidProtocolError for a job that could not run even if everything were free,
        Refused ForbiddenUserError for a virtual cluster that is not granted, NoVirtualClusterError for one that is
        not there, NoStorageError for a storage that is not granted, and NoEnoughQuotaError beyond a quota. The same
        idempotency key again is the same job again, and harmless.
        """

    async def submit_sweep(self, by: Submitter, text: bytes) -> SubmittedSweep:
        """Submit a job for each combination of a file's matrix, all of them or none; durable when this returns.

        Raises what `submit` raises.
        """

    async def check(self, by: Submitter, text: bytes) -> Checked:
        """Check a job file as `submit` does, except for what changes every moment: names and quotas that are used up.

        Changes nothing, and raises the same errors.
        """

    async def stop(self, user: str, name: str, by: str, reason: str = "") -> None:
        """Stop a job, with a reason for its owner. Harmless when it is over or already stopping."""

    async def start(self, user: str, name: str, by: str, reason: str = "") -> None:
        """Start a finished job again as a new attempt; cancels a stop that has not taken effect yet.

        An event of the job records the user and the reason.

        Raises NoEnoughQuotaError for a finished one that is beyond a quota of its owner, and ConflictJobError for
        one that runs or waits to run already.
        """

    async def restart(self, user: str, name: str, by: str, reason: str = "") -> None:
        """Run a job again from its beginning, as a new attempt: a running one is stopped first, with its grace period.

        Raises ConflictJobError for a job that waits to run, Unavailable for one that is just ending by itself, and
        what `start` raises for one that is over.
        """

    async def kill(self, user: str, name: str, by: str, reason: str = "") -> None:
        """Stop a job, but kill its tasks at once, also those in their grace period."""

    async def set_priority(self, user: str, name: str, priority_class: str, by: str) -> None:
        """Change the priority class of a job that is not over; a running job runs on."""

    async def rescale(self, user: str, name: str, scales: Scales, by: str) -> None:
        """Change the number of tasks of task roles of a job that is not over; the other tasks run on.

        A smaller role loses the tasks of its highest indices, a larger one gets new tasks as soon as there is room.
        Raises InvalidParametersError for numbers it cannot have, NoEnoughQuotaError, and Unavailable while a task that
        it would get again still ends.
        """

    async def set_rank(self, user: str, name: str, rank: int, by: str) -> None:
        """Change the place of a job in its queue: among equal priorities a higher rank goes first."""

    async def checkpointed(self, user: str, name: str) -> None:
        """Record that a job has just saved its work."""

    async def why(self, job: str) -> tuple[Wait, ...]:
        """Return why tasks of a job, by its id, wait; empty if none does."""

    async def interruptible_clusters(self) -> frozenset[str]:
        """Return the virtual clusters whose jobs may be interrupted unless they say otherwise, on any server."""

    async def in_the_way(self, job: str) -> tuple[Holding, ...]:
        """Return the jobs that hold what a job, by its id, waits for, largest first; empty when it does not wait."""

    async def borrowed(self, job: str) -> Amount:
        """Return what a job, by its id, uses without a guarantee; nothing when it does not run."""

    async def task_use(self, job: str) -> tuple[TaskUse, ...]:
        """Return what each running task of a job, by its id, uses; empty where that is not measured."""

    def progress(self) -> Mapping[str, TaskUse]:
        """Return the use of the task that is least far, by the ids of jobs that report progress.

        Empty on a server that does not lead.
        """

    async def node_holdings(self, name: str) -> tuple[Holding, ...]:
        """Return what jobs hold on a node, the largest first. Raises NoNodeError."""

    async def nodes(self) -> tuple[NodeView, ...]:
        """Return every node, by name."""

    async def change_node(self, name: str, change: NodeChange, by: str) -> NodeView:
        """Drain a node, end its drain, or mark devices of it as bad. Raises NoNodeError."""

    async def forget_node(self, name: str, by: str) -> None:
        """Forget a node that is gone for good. Raises NoNodeError, or Refused while the backend still reports it."""

    async def virtual_clusters(self) -> tuple[VcView, ...]:
        """Return every virtual cluster, by name."""

    async def sku_types(self, virtual_cluster: str | None = None) -> Mapping[str, Amount]:
        """Return the amounts of one device of each type. Raises NoVirtualClusterError."""

    async def cluster_config(self) -> ClusterConfig:
        """Return the promises to virtual clusters."""

    async def configure(
        self, *, promises: str | None, hived: str | None, version: int | None, by: str
    ) -> ClusterConfig:
        """Replace all promises, given as text or in HiveD's format. Running jobs are not stopped.

        Raises Refused BadConfigurationError with every fault, changing nothing, and ConflictSettingError when
        the configuration is not at `version` any more.
        """

    async def promise(self, virtual_cluster: str, change: str | None, by: str) -> ClusterConfig:
        """Change a promise, to text such as `3 nodes` or `8 GPUs of A100 + 2 nodes`; None removes it.

        Raises NoVirtualClusterError when there is none to remove, RemoveRunningVcError while jobs use one that is
        removed, ReadOnlyVcError for `default`, BadConfigurationError for what cannot be promised.
        """

    async def preview_promise(self, virtual_cluster: str, change: str | None) -> PromisePreview:
        """Return what `promise` would do, and refuse what it would refuse. Changes nothing."""

    async def exit_specs(self) -> tuple[Revised[ExitSpecContent], ...]:
        """Return every exit spec, by name, with the edits of administrators, on any server."""

    async def exit_spec_history(self, name: str = "") -> tuple[Revision[ExitSpecContent], ...]:
        """Return the changes of exit specs, or of one, the newest first, on any server."""

    async def edited_rules(self, name: str = "", body: Mapping[str, Any] | None = None) -> tuple[RuleSet, RuleSet]:
        """Return the rules in effect, and as they would be with an edit, on any server.

        Raises InvalidParameters with the fault of the edit.
        """

    async def change_exit_spec(self, name: str, edit: Edit[ExitSpecContent], by: str) -> Revised[ExitSpecContent]:
        """Replace, add or disable an exit spec, or revert it to the bundled one; it holds from the next diagnosis on.

        Raises InvalidParameters with the fault of the edit, NoExitSpecError for one that is not there, and
        ConflictSettingError when the specs are not at the given revision any more, or when samples of others would show
        another cause.
        """

    async def inspect(self) -> Inspection:
        """Return cells and gangs in HiveD's own shapes."""

    async def scheduler_snapshot(self) -> Mapping[str, Any]:
        """Return the scheduler's whole state as plain data, to repeat its decisions elsewhere."""

    async def limits_changed(self) -> None:
        """Read quotas, orders and the fairness setting again, after a change on any server."""

    async def require_leader(self) -> None:
        """Raise NotLeading on a server that does not lead."""

    async def check_shell(self, key: AttemptKey) -> None:
        """Raise NotLeading on a server that does not lead, and NoRunningTaskError unless the task attempt runs."""

    async def shell(self, key: AttemptKey, command: ShellCommand) -> Shell:
        """Start a command in a running task attempt; raise what `check_shell` and `ports.shells` raise."""

    async def connect(self, key: AttemptKey, port: int) -> Stream:
        """Connect to a port of a running task attempt; raise what `check_shell` and `ports.shells` raise."""

    async def applications(self, job: str | None = None) -> tuple[PlacedApplication, ...]:
        """Return the applications of a job, by its id, or of all jobs that are not over.

        Raise NotLeading on a server that does not lead.
        """

    async def warn(self, job: str, reason: str, message: str) -> None:
        """Add a warning to the events of a job that is not over. Raise NotLeading on a server that does not lead."""

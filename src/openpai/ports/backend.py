"""The interface of backends, which run tasks, and what they promise.

A backend decides nothing: it carries out actions and reports what it sees. Actions are idempotent. A backend repeats
its reports until a `ForgetTask` arrives, so a server that dies between reading and saving one loses nothing. Tasks
outlive the server: after a restart `observe` lists what is still there, with the real exit code of ended tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, Protocol, runtime_checkable

from openpai.lifecycle.actions import EndNotice
from openpai.lifecycle.model import AttemptKey, ExitReport

GRACE_S: Final = 30.0
"""How long a task may run on after SIGTERM."""


@dataclass(frozen=True, slots=True)
class RegistryAuth:
    """Credentials for pulling one image. Never logged."""

    username: str
    password: str = field(repr=False)
    registry: str = ""


@dataclass(frozen=True, slots=True)
class Mount:
    """A storage as a task finds it in its own file tree."""

    name: str
    source: str
    """A directory of the node, or the source of a network `filesystem`: `:/export`, `//host/share`.

    Empty for a storage that only its `claim` mounts.
    """
    mount_path: str
    is_read_only: bool = False
    folder: str = ""
    """The folder below a local source that the task sees instead of all of it; created if it is missing."""
    filesystem: str = ""
    """nfs or cifs; empty for a directory of the node."""
    options: str = field(default="", repr=False)
    """Mount options of a network file system, with credentials."""
    claim: str = ""
    """The PersistentVolumeClaim that pods mount instead."""


@dataclass(frozen=True, slots=True)
class LaunchTask:
    """Start this task attempt, unless it ran before or a newer grant holds one of its devices."""

    key: AttemptKey
    grant: int
    node: str
    devices: tuple[int, ...]
    cpus: int
    memory_mb: int
    image: str
    commands: str = field(repr=False)
    """The user's commands, rendered with secrets: the script that the user's shell runs."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The task's own variables."""
    shared_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of all tasks of the job; `env` overrides them.

    They are up to a megabyte, and the same object in the launches of thousands of tasks: copy them for a task only when
    it starts.
    """
    ports: tuple[int, ...] = ()
    shm_mb: int = 512
    infiniband: bool = False
    auth: RegistryAuth | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels for people who inspect the node: `user`, `job`, `role`, `index`."""
    grace_s: float = GRACE_S
    """How long the task may run on after SIGTERM before it is killed."""
    hosts: str = field(default="", repr=False)
    """Content of the file that PAI_HOSTS_FILE names inside the task; empty for neither file nor variable."""
    submitted_at_ms: int = 0
    """When the job was submitted; a newer account with the owner's name belongs to another user."""
    is_unique: bool = False
    """Whether the attempt may count as lost only once it is certain that it does not run any more."""
    code: str = ""
    """A file on the server, the packed code of the job, which the task reads as `PAI_CODE_FILE`; empty without one."""
    outputs: tuple[str, ...] = ()
    """Which files of its working directory are results, as paths and patterns; all if empty."""
    mounts: tuple[Mount, ...] = ()
    """Storages; the task finds the path of each in the variable PAI_STORAGE_NAME."""


@dataclass(frozen=True, slots=True)
class KillTask:
    """End this task attempt: SIGTERM, then SIGKILL after `grace_s`. Reports ABSENT if there is nothing.

    Before SIGTERM the task finds `notice`, with the deadline, in the file that PAI_PREEMPTION_NOTICE names.
    """

    key: AttemptKey
    grace_s: float = GRACE_S
    notice: EndNotice | None = None


@dataclass(frozen=True, slots=True)
class ForgetTask:
    """Remove what is left of this task attempt, whose end is saved; its logs stay."""

    key: AttemptKey


Action = LaunchTask | KillTask | ForgetTask


class TaskStep(StrEnum):
    """What happens to a task attempt beside its start and end: the reason of an event of its job."""

    NONE = ""
    """Mere progress, which is no event."""
    PULLING_IMAGE = "PullingImage"
    IMAGE_PULLED = "ImagePulled"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CREATION_FAILED = "ContainerCreationFailed"
    SCHEDULING_FAILED = "SchedulingFailed"
    QUOTA_EXCEEDED = "QuotaExceeded"
    STUCK_TERMINATING = "StuckTerminating"
    NODE_SILENT = "NodeSilent"
    """The node does not answer: the task may run on there."""
    FILES_LOST = "FilesLost"
    """It is reported with the end of the attempt, too, because that follows at once."""

    @property
    def is_warning(self) -> bool:
        """Return whether its event is a warning."""
        return self in _WARNINGS


_WARNINGS: Final = frozenset(
    {TaskStep.IMAGE_PULL_FAILED, TaskStep.CREATION_FAILED, TaskStep.SCHEDULING_FAILED, TaskStep.FILES_LOST}
)


@dataclass(frozen=True, slots=True)
class TaskSeen:
    """A task attempt as a backend sees it: running while `exit` is None, ended otherwise."""

    key: AttemptKey
    grant: int
    started_at_ms: int | None
    exit: ExitReport | None = None
    message: str = ""
    """The current step of its start, or what is wrong with its node, in a sentence; may be empty."""
    step: TaskStep = TaskStep.NONE


DISK_CHECKS: Final = frozenset({"disk", "DiskPressure"})
"""The checks of a node's disk: our own, and the kubelet's condition."""
CheckResult = Literal["passed", "warning", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """What a check of a node found. One that failed keeps new tasks away, from the node or from devices of it."""

    name: str
    result: CheckResult
    """`warning` keeps nothing away, `unknown` is what cannot be checked there."""
    message: str = ""
    """What was found, in a sentence; empty if all is well."""
    since_ms: int | None = None
    """Since when it has this result."""
    checked_ms: int | None = field(default=None, compare=False)
    """When it was checked last."""
    is_about_storage: bool = False
    """Whether it is about a storage, whose name and place only administrators may know."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node as a backend sees it."""

    name: str
    address: str
    """The IP address under which tasks on other nodes reach it."""
    cpus: int
    memory_mb: int
    gpus: int = 0
    is_healthy: bool = True
    bad_devices: frozenset[int] = frozenset()
    gpu_model: str = ""
    message: str = ""
    """Why it is not healthy, or why devices are bad, in a sentence."""
    devices: tuple[str, ...] = ()
    """What identifies each device for good, such as its UUID, by index: empty where that is not known (yet)."""
    checks: tuple[NodeCheck, ...] = ()

    @property
    def is_short_of_disk(self) -> bool:
        """Return whether a check found too little disk space."""
        return any(check.name in DISK_CHECKS and check.result == "failed" for check in self.checks)


class Backend(Protocol):
    """Runs task attempts on nodes. One per platform.

    Promises, each held by the contract suite:
    - a task attempt runs at most once, however often it is launched and however often the server dies;
    - a launch whose grant is older than the newest known grant of one of its devices is not started and is
      reported as STALE_GRANT;
    - `apply` returns soon: slow work (pulling an image, a grace period) runs in the background;
    - an exit is reported by `news` and by `observe` until the attempt is forgotten;
    - after KillTask, an exit is reported within the grace period plus a few seconds, ABSENT if there is nothing,
      and no process of the task is left;
    - `close` leaves running tasks running.
    """

    async def open(self) -> None:
        """Get ready, and adopt the tasks that an earlier server left running."""

    async def close(self) -> None:
        """Release everything but the tasks."""

    async def nodes(self) -> tuple[NodeSeen, ...]:
        """Return every node as it is now."""

    async def apply(self, actions: Sequence[Action]) -> None:
        """Start to carry out `actions`, in order. Repeating them is harmless."""

    async def observe(self, among: Collection[AttemptKey] | None = None) -> tuple[TaskSeen, ...]:
        """Return every task attempt that runs, or that ended and is not forgotten; only these if `among` is given.

        Those of `among` are as they are when it returns. Of all, some may have changed meanwhile: there are thousands.
        """

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait for changes since the last call and return them, many at once if there are."""


@runtime_checkable
class SharedBackend(Backend, Protocol):
    """A backend whose tasks any of several servers can take over: only the one that leads opens it."""

    async def reach(self) -> None:
        """Raise Unavailable if the cluster cannot be used now."""
        ...

    def lead_in(self, epoch: int) -> None:
        """Act as the leader of this epoch from the next `open` on; what earlier ones still try is refused."""
        ...


@runtime_checkable
class BringsLogs(Protocol):
    """A backend whose tasks write to no file here: it brings their logs itself, and knows which of them grow."""

    def note_growth(self, grown: set[AttemptKey]) -> None:
        """Add the attempts whose logs here grow from now on, until `close`; whoever gave the set takes them out."""
        ...


@runtime_checkable
class SeesCheckpoints(Protocol):
    """A backend that can look into the checkpoint directories of its tasks."""

    async def checkpoints(self) -> Mapping[AttemptKey, int]:
        """Return when the newest complete file in each running attempt's checkpoint directory was written, in ms."""
        ...


@runtime_checkable
class MarksDevices(Protocol):
    """A backend that can keep programs of others away from bad devices, too."""

    async def mark_bad(self, bad: Mapping[str, Mapping[int, str]]) -> None:
        """Mark these devices, by node and index with the reason, and no others. Repeating it is harmless."""
        ...


@runtime_checkable
class ChecksStorages(Protocol):
    """A backend that can see whether the directories of storages are there."""

    def expect_storages(self, directories: Mapping[str, str]) -> None:
        """Check these directories of nodes from now on, by the names of their storages, and no others."""
        ...

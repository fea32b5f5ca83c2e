"""What the platform asks of anything that can run tasks, and what it promises in return.

A backend decides nothing: it makes the world agree with its actions and reports what it sees.
Actions are idempotent. Everything it reports it can report again until a `ForgetTask` arrives, so a server that
dies between hearing and writing loses nothing. Tasks outlive the server: after a restart `observe` lists what is
still there, with the real exit code of whatever ended in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from openpai.lifecycle.model import AttemptKey, ExitReport


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
    """A directory of the node, or for a `filesystem` what is mounted from the network: `:/export`, `//host/share`."""
    mount_path: str
    is_read_only: bool = False
    folder: str = ""
    """The folder below a local source that the task sees instead of all of it; made when it is not there."""
    filesystem: str = ""
    """nfs or cifs; empty for a directory of the node."""
    options: str = field(default="", repr=False)
    """How a network file system is mounted, credentials included."""


@dataclass(frozen=True, slots=True)
class LaunchTask:
    """Make this task attempt run, unless it already did or a newer grant holds one of its devices."""

    key: AttemptKey
    grant: int
    node: str
    devices: tuple[int, ...]
    cpus: int
    memory_mb: int
    image: str
    commands: str = field(repr=False)
    """The user's commands, rendered with secrets: the text of the script the user's shell runs."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The task's own variables."""
    shared_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of all tasks of the job; one in `env` counts before one of the same name here.

    They are up to a megabyte, and the same object in the launches of thousands of tasks: copy them for a task only when
    it starts.
    """
    ports: tuple[int, ...] = ()
    shm_mb: int = 512
    infiniband: bool = False
    auth: RegistryAuth | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Who and what, for people who look at the machine: `user`, `job`, `role`, `index`."""
    grace_s: float = 30.0
    """How long the task may take to end after SIGTERM before it is killed."""
    hosts: str = field(default="", repr=False)
    """Text of the file that PAI_HOSTS_FILE names inside the task; the backend sets both unless it is empty."""
    submitted_at_ms: int = 0
    """When the job was submitted: an account of its owner's name that is younger belongs to another user."""
    mounts: tuple[Mount, ...] = ()
    """Storages; the variable PAI_STORAGE_ and its name gives the task the path of each."""


@dataclass(frozen=True, slots=True)
class KillTask:
    """Make this task attempt end: SIGTERM, then SIGKILL after `grace_s`. Reports ABSENT if there is nothing."""

    key: AttemptKey
    grace_s: float = 30.0


@dataclass(frozen=True, slots=True)
class ForgetTask:
    """The end of this task attempt is recorded: remove what is left of it, but keep its logs."""

    key: AttemptKey


Action = LaunchTask | KillTask | ForgetTask


@dataclass(frozen=True, slots=True)
class TaskSeen:
    """A task attempt as a backend sees it: running while `exit` is None, else over."""

    key: AttemptKey
    grant: int
    started_at_ms: int | None
    exit: ExitReport | None = None
    message: str = ""
    """What is being done so that it may begin, in a sentence; empty when there is nothing to say."""
    step: str = ""
    """What kind of step that is, a CamelCase word, where the job's events should tell it; empty for mere progress."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A machine as a backend sees it."""

    name: str
    address: str
    """Where tasks on other nodes reach it: an IP address."""
    cpus: int
    memory_mb: int
    gpus: int = 0
    is_healthy: bool = True
    bad_devices: frozenset[int] = frozenset()
    gpu_model: str = ""
    message: str = ""
    """Why it is not healthy, in a sentence."""


class Backend(Protocol):
    """Runs task attempts on nodes. One per platform.

    Promises, each held by the contract suite:
    - a task attempt runs at most once, however often it is launched and however often the server dies;
    - a launch whose grant is older than the newest grant heard for one of its devices is not started and is
      reported as STALE_GRANT;
    - `apply` returns soon: slow work (pulling an image, a grace period) goes on in the background and ends in news;
    - an exit is reported by `news` and by `observe` until the attempt is forgotten;
    - after KillTask, an exit is reported within the grace period plus a few seconds, ABSENT if there is nothing,
      and no process of the task is left;
    - `close` leaves running tasks running.
    """

    async def open(self) -> None:
        """Get ready, and take up again whatever an earlier server left running."""
        ...

    async def close(self) -> None:
        """Release everything but the tasks."""
        ...

    async def nodes(self) -> tuple[NodeSeen, ...]:
        """Return every machine as it is now."""
        ...

    async def apply(self, actions: Sequence[Action]) -> None:
        """Start making the world agree with `actions`, in order. Doing it twice is harmless."""
        ...

    async def observe(self) -> tuple[TaskSeen, ...]:
        """Return every task attempt that is there now: running, or over and not forgotten."""
        ...

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait until something changed since the last call and return it, many changes at once if there are."""
        ...

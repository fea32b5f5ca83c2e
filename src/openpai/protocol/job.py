"""A job as the protocol defines it, after every check: plain frozen values that all rooms share.

`protocol.reading` reads a file into these values. Names follow
the protocol in snake case (`resourcePerInstance.memoryMB` is `resources.memory_mb`). Mappings keep the order of
the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DEFAULT_VIRTUAL_CLUSTER: Final = "default"
VIRTUAL_CLUSTER_NAME: Final = r"^[A-Za-z0-9]([A-Za-z0-9_. -]{0,62}[A-Za-z0-9_.-])?$"
SHM_MB_DEFAULT: Final = 512
MAX_JOB_BYTES: Final = 1024 * 1024
"""The limit on the size of a job file."""
LONG_JOB_BYTES: Final = 64 * 1024
"""A longer file takes seconds to read or write, so it is done in a thread."""
TASKS_MAX: Final = 10_000
PLUGIN_PREFIX: Final = "com.microsoft.pai.runtimeplugin"


@dataclass(frozen=True, slots=True)
class Auth:
    """Credentials of a registry; each field may hold a `<% $secrets.x %>` reference."""

    username: str = ""
    password: str = field(default="", repr=False)
    registry_uri: str = ""


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """A prerequisite of task roles: `type` is dockerimage, data, script or output."""

    type: str
    name: str
    uri: tuple[str, ...] = ()
    """One URI, or several for data; none when the prerequisite only carries a plugin."""
    auth: Auth | None = None
    plugin: str | None = None
    require: tuple[str, ...] = ()
    version: str | None = None
    contributor: str | None = None
    description: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Every other key, as written (`callbacks`, `failurePolicy`, ...)."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The completion policy of a task role; -1 switches a rule off."""

    min_failed: int = 1
    min_succeeded: int = -1


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of one task. `ports` maps a label to its number of ports."""

    cpus: int
    memory_mb: int
    gpus: int
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskRole:
    """A task role: the number of its tasks, their image, resources and commands."""

    name: str
    docker_image: str
    resources: Resources
    commands: tuple[str, ...]
    instances: int = 1
    completion: Completion = Completion()
    """Defaults applied: an absent `minSucceededInstances` is already the number of instances."""
    task_retry_count: int = 0
    prerequisites: tuple[str, ...] = ()
    data: str | None = None
    output: str | None = None
    script: str | None = None
    shm_mb: int = SHM_MB_DEFAULT
    infiniband: bool = False


@dataclass(frozen=True, slots=True)
class RoleCommands:
    """The commands of a deployment around a task role's own."""

    pre: tuple[str, ...] = ()
    post: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deployment:
    """A named set of commands around the task roles' own; only the one in `defaults.deployment` is used."""

    name: str
    task_roles: Mapping[str, RoleCommands]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A whole job as its owner specified it, without any state."""

    name: str
    task_roles: tuple[TaskRole, ...]
    prerequisites: tuple[Prerequisite, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    job_retry_count: int = 0
    deployments: tuple[Deployment, ...] = ()
    virtual_cluster: str = DEFAULT_VIRTUAL_CLUSTER
    deployment: str | None = None
    defaults_extra: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    version: str | None = None
    contributor: str | None = None
    description: str | None = None

    @property
    def is_gang(self) -> bool:
        """Return whether all tasks start together or not at all (`extras.gangAllocation`, by default true)."""
        return self.extras.get("gangAllocation") is not False

    def role(self, name: str) -> TaskRole:
        """Return the task role called `name`; raise KeyError when there is none."""
        for role in self.task_roles:
            if role.name == name:
                return role
        raise KeyError(name)

    def prerequisite(self, type_: str, name: str) -> Prerequisite:
        """Return the prerequisite of that type and name; raise KeyError when there is none."""
        for prerequisite in self.prerequisites:
            if prerequisite.type == type_ and prerequisite.name == name:
                return prerequisite
        raise KeyError(name)

    @property
    def gpus_total(self) -> int:
        """Return the GPUs of all tasks together."""
        return sum(role.instances * role.resources.gpus for role in self.task_roles)

    @property
    def tasks_total(self) -> int:
        """Return the number of tasks."""
        return sum(role.instances for role in self.task_roles)


def owner_and_job(name: str, user: str) -> tuple[str, str]:
    """Return the owner and the name of the job that `user~job` names, or `job` for a job of `user`."""
    owner, tilde, job = name.partition("~")
    return (owner, job) if tilde else (user, name)

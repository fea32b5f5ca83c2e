"""The model of access: actors and their roles, resources, and what an action requires."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Protocol


class Role(IntEnum):
    """The role of a caller; each includes the rights of those before it."""

    GUEST = 0
    """Not logged in."""
    VIEWER = 1
    """May read."""
    USER = 2
    """May run jobs."""
    ADMIN = 3
    """May do everything."""


class Scope(StrEnum):
    """The scope of a token."""

    READ = "read"
    JOBS = "jobs"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Action:
    """An action, and who may do it.

    A caller may do it if their role is at least `role`, or if they have one of the relations that allow it.
    """

    name: str
    message: str
    """A description for the page of permissions."""
    role: Role
    """The least role that may do it to any resource."""
    is_open_to_owner: bool = False
    is_open_to_manager: bool = False
    """Also managers of the resource's virtual cluster."""
    is_open_to_granted: bool = False
    """Also members of groups that are granted the resource: a storage, or the virtual cluster of a non-private job."""
    in_person: bool = False
    """Refused with an application token."""
    scope: Scope = Scope.ALL
    """The narrowest scope that allows it."""
    reaches_archived: bool = False
    """Whether it changes an archived job, too; that has given up its name, which may be another job's now."""
    widens: str = ""
    """An action whose answers show more to callers who may do this one; this one has no routes of its own."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller, with what their groups grant them."""

    name: str
    role: Role
    virtual_clusters: frozenset[str] = frozenset()
    """Granted ones; an administrator may use all."""
    managed: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    """The groups they are in."""
    storages: frozenset[str] = frozenset()
    default_storages: tuple[str, ...] = ()
    """The first storage of each of their groups."""
    is_application: bool = False
    scope: Scope = Scope.ALL
    since_ms: int = 0
    """When their account was created; older resources belong to an earlier user of the same name."""

    def may_use(self, virtual_cluster: str) -> bool:
        """Return whether they may run jobs in a virtual cluster."""
        return self.role >= Role.ADMIN or virtual_cluster in self.virtual_clusters

    def owns(self, thing: Thing) -> bool:
        """Return whether a resource is theirs, and not that of an earlier user of the same name."""
        return thing.owner == self.name and (thing.made_at_ms is None or thing.made_at_ms >= self.since_ms)


@dataclass(frozen=True, slots=True)
class Thing:
    """The resource that an action is done to; fields that do not matter are empty."""

    owner: str = ""
    virtual_cluster: str = ""
    storage: str = ""
    is_private: bool = False
    made_at_ms: int | None = None
    """When its owner created it; None where that does not matter."""
    label: str = field(default="", compare=False)
    """Its name in the message of a refusal."""


class OwnedJob(Protocol):
    """What rights depend on of a job, in whatever form it is at hand."""

    @property
    def user(self) -> str:
        """Return its owner."""

    @property
    def virtual_cluster(self) -> str:
        """Return its virtual cluster."""

    @property
    def is_private(self) -> bool:
        """Return whether only its owner and managers may read its file."""

    @property
    def submitted_at_ms(self) -> int:
        """Return when it was submitted."""


def thing_of(job: OwnedJob, name: str = "") -> Thing:
    """Return a job as the table of permissions sees it; `name` is for the message of a refusal."""
    label = f"job {job.user}~{name} belongs to {job.user}" if name else ""
    return Thing(job.user, job.virtual_cluster, is_private=job.is_private, made_at_ms=job.submitted_at_ms, label=label)


NOTHING = Thing()
GUEST = Principal("", Role.GUEST)

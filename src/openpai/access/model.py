"""The words of access: who somebody is, what a thing is to them, and what an action needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Role(IntEnum):
    """What somebody is on the platform; each may do what those below may."""

    GUEST = 0
    """Nobody we know."""
    VIEWER = 1
    """May look."""
    USER = 2
    """May run jobs."""
    ADMIN = 3
    """May do everything."""


class Scope(StrEnum):
    """What a token may be used for."""

    READ = "read"
    JOBS = "jobs"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done, and who may do it.

    Somebody may if their role reaches `role`, or if they stand in one of the relations the action is open to.
    """

    name: str
    message: str
    """What it is, for the page of permissions."""
    role: Role
    """The least role that may do it to anything."""
    is_open_to_owner: bool = False
    is_open_to_manager: bool = False
    """Those who manage the thing's virtual cluster."""
    is_open_to_granted: bool = False
    """Those whom a group grants the thing: the virtual cluster of a job that is not private, or a storage."""
    in_person: bool = False
    """Not with an application's token."""
    scope: Scope = Scope.ALL
    """The narrowest token that will do."""
    widens: str = ""
    """The action whose requests show more to those who may do this one; it has no requests of its own."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who wants to do something, with what their groups grant them."""

    name: str
    role: Role
    virtual_clusters: frozenset[str] = frozenset()
    """Granted; an administrator may use them all."""
    managed: frozenset[str] = frozenset()
    storages: frozenset[str] = frozenset()
    default_storages: tuple[str, ...] = ()
    """The first storage of each of their groups."""
    is_application: bool = False
    scope: Scope = Scope.ALL
    since_ms: int = 0
    """When their account was made; what somebody of the same name left behind before is not theirs."""

    def may_use(self, virtual_cluster: str) -> bool:
        """Return whether they may run jobs in a virtual cluster."""
        return self.role >= Role.ADMIN or virtual_cluster in self.virtual_clusters

    def owns(self, thing: Thing) -> bool:
        """Return whether a thing is theirs, and not of somebody who had their name before."""
        return thing.owner == self.name and (thing.made_at_ms is None or thing.made_at_ms >= self.since_ms)


@dataclass(frozen=True, slots=True)
class Thing:
    """What an action is done to; empty where that plays no part."""

    owner: str = ""
    virtual_cluster: str = ""
    storage: str = ""
    is_private: bool = False
    made_at_ms: int | None = None
    """When its owner made it; None where that plays no part."""
    label: str = field(default="", compare=False)
    """What people call it, for the sentence of a refusal."""


NOTHING = Thing()
GUEST = Principal("", Role.GUEST)

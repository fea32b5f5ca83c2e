"""Which groups a user is in after a change, and what the groups grant.

OpenPAI's clients grant a user virtual clusters by name and mean the groups of these names. Every user is in the group
`default`; a user is an administrator by being in a group that makes its members administrators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, Token, User, check_extension
from openpai.access.model import Principal, Role, Scope
from openpai.protocol.errors import Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER

GRANTED_TO_ALL: Final = frozenset({DEFAULT_VIRTUAL_CLUSTER})
Groups = Mapping[str, Group]
_NEEDED: Final = frozenset({DEFAULT_GROUP, ADMIN_GROUP})


@dataclass(frozen=True, slots=True)
class UserChange:
    """A change of a user; fields that are None do not change."""

    email: str | None = None
    is_admin: bool | None = None
    is_viewer: bool | None = None
    virtual_clusters: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    extension: Mapping[str, Any] | None = None
    """Keys to replace; the others stay."""


def changed_user(user: User, change: UserChange, groups: Groups) -> User:
    """Return the user after a change; `groups` are all groups. Raises NoGroupError and NoVirtualClusterError."""
    extension = user.extension
    if change.extension is not None:
        extension = {**extension, **change.extension}
        check_extension(extension)
    return replace(
        user,
        email=user.email if change.email is None else change.email,
        is_viewer=user.is_viewer if change.is_viewer is None else change.is_viewer,
        groups=_changed_groups(user, change, groups),
        extension=extension,
    )


def new_user(blank: User, change: UserChange, groups: Groups) -> User:
    """Return a new user with what `change` gives them. Raises NoGroupError and NoVirtualClusterError."""
    # Include what the listed groups grant: otherwise naming a virtual cluster would revoke those.
    clusters = {*(change.virtual_clusters or ()), *granted_clusters(groups_named(groups, change.groups or ()))}
    return changed_user(blank, replace(change, virtual_clusters=sorted(clusters)), groups)


def joining(user: User, group: str) -> UserChange:
    """Return the change that puts a user into a group."""
    return UserChange(groups=[*(of.name for of in user.groups), group])


def leaving(user: User, group: str) -> UserChange:
    """Return the change that takes a user out of a group; raise ReadOnlyGroupError for the group of all users."""
    if group == DEFAULT_GROUP:
        message = f"every user is in group {DEFAULT_GROUP!r}"
        raise Refused("ReadOnlyGroupError", message, "change what the group grants instead")
    return UserChange(groups=[of.name for of in user.groups if of.name != group])


def granting(user: User, virtual_clusters: Sequence[str]) -> UserChange:
    """Return the change that grants a user exactly these virtual clusters; administrators have all."""
    if user.is_admin:
        message = f"{user.name} is an administrator, and administrators may use every virtual cluster"
        raise Refused("ForbiddenUserError", message)
    return UserChange(virtual_clusters=virtual_clusters)


def check_removable_user(user: User) -> None:
    """Raise RemoveAdminError for an administrator."""
    if user.is_admin:
        message = f"{user.name} is an administrator, and administrators cannot be removed"
        raise Refused("RemoveAdminError", message, f"first `pai user set {user.name} --no-admin`")


def check_removable_group(name: str) -> None:
    """Raise ReadOnlyGroupError for a group that the platform needs."""
    if name in _NEEDED:
        raise Refused("ReadOnlyGroupError", f"group {name!r} cannot be removed", "the platform needs it")


def check_admins(name: str, is_admin: bool) -> None:
    """Raise ReadOnlyGroupError for a group that must, or must not, make its members administrators."""
    if name == ADMIN_GROUP and not is_admin:
        message = f"group {name!r} is what makes administrators"
        raise Refused("ReadOnlyGroupError", message, "remove its members instead")
    if name == DEFAULT_GROUP and is_admin:
        message = f"every user is in group {name!r}, so it cannot make its members administrators"
        raise Refused("ReadOnlyGroupError", message, f"add administrators to the group {ADMIN_GROUP!r}")


def _changed_groups(user: User, change: UserChange, groups: Groups) -> tuple[Group, ...]:
    held = groups_named(groups, (group.name for group in user.groups) if change.groups is None else change.groups)
    if change.is_admin is not None:
        held = with_admin(groups, held, change.is_admin)
    if change.virtual_clusters is None:
        return held
    # Clients send an administrator's virtual clusters back as they were shown, which is all of them.
    every = granted_clusters(groups.values()) | GRANTED_TO_ALL
    if any(group.is_admin for group in held) and every <= {*change.virtual_clusters, *GRANTED_TO_ALL}:
        return held
    return with_clusters(groups, held, change.virtual_clusters)


def groups_named(groups: Groups, names: Iterable[str]) -> tuple[Group, ...]:
    """Return the default group and the groups of these names; raise NoGroupError."""
    found = [DEFAULT_GROUP, *names]
    missing = [name for name in found if name not in groups]
    if missing:
        raise no_group(missing[0])
    return tuple(groups[name] for name in dict.fromkeys(found))


def no_group(name: str) -> Refused:
    """Return the error for a group that does not exist."""
    return Refused("NoGroupError", f"there is no group named {name!r}", "`pai group list` shows the groups")


def with_clusters(groups: Groups, held: Collection[Group], names: Collection[str]) -> tuple[Group, ...]:
    """Return the groups that grant a user exactly these virtual clusters.

    Groups that grant no virtual cluster stay. Raises NoVirtualClusterError for a name without a group.
    """
    allowed = {*names, *GRANTED_TO_ALL}
    kept = [group for group in held if group.is_admin or granted_clusters([group]) <= allowed]
    missing = [name for name in names if name not in granted_clusters(kept) | GRANTED_TO_ALL]
    return groups_named(groups, [*(group.name for group in kept), *(_vc_group(groups, name).name for name in missing)])


def with_admin(groups: Groups, held: Collection[Group], is_admin: bool) -> tuple[Group, ...]:
    """Return the groups that make a user an administrator, or an ordinary user."""
    if not is_admin:
        return tuple(group for group in held if not group.is_admin)
    if any(group.is_admin for group in held):
        return tuple(held)
    return (*held, *groups_named(groups, [ADMIN_GROUP])[1:])


def with_external(groups: Groups, held: Collection[Group], external: Collection[str]) -> tuple[Group, ...]:
    """Return the groups of a user whose identity provider lists the groups `external`.

    Groups without an external name are kept: an administrator put the user into them.
    """
    kept = [group.name for group in held if not group.external_name]
    listed = [group.name for group in groups.values() if group.external_name and group.external_name in external]
    return groups_named(groups, [*kept, *listed])


def granting_groups(groups: Iterable[Group], virtual_cluster: str) -> list[Group]:
    """Return those groups that grant a virtual cluster."""
    return [group for group in groups if virtual_cluster in granted_clusters([group])]


def granted_clusters(groups: Iterable[Group]) -> set[str]:
    """Return the virtual clusters that groups grant; managers of a virtual cluster may also use it."""
    return {name for group in groups for name in (*group.virtual_clusters, *group.managed)}


def usable_clusters(user: User, groups: Iterable[Group]) -> list[str]:
    """Return the virtual clusters that a user may use; administrators all that any of `groups` grants."""
    return sorted(GRANTED_TO_ALL | granted_clusters(groups if user.is_admin else user.groups))


def vc_group(virtual_cluster: str) -> Group:
    """Return the group that grants a new virtual cluster."""
    return Group(virtual_cluster, f"may use virtual cluster {virtual_cluster}", virtual_clusters=(virtual_cluster,))


def without_clusters(group: Group, names: Collection[str]) -> Group:
    """Return a group that no longer grants these virtual clusters."""
    return replace(
        group,
        virtual_clusters=tuple(name for name in group.virtual_clusters if name not in names),
        managed=tuple(name for name in group.managed if name not in names),
    )


def is_spent(group: Group) -> bool:
    """Return whether a group grants nothing, has no values of clients, and is not required by the platform."""
    is_needed = group.is_admin or group.external_name or group.name in _NEEDED
    return not (is_needed or group.virtual_clusters or group.managed or group.storages or group.extension)


def _vc_group(groups: Groups, virtual_cluster: str) -> Group:
    group = groups.get(virtual_cluster)
    if group is None:
        message = f"there is no virtual cluster {virtual_cluster!r}"
        raise Refused("NoVirtualClusterError", message, "`pai vc list` shows the virtual clusters")
    if virtual_cluster not in granted_clusters([group]):
        raise Refused(
            "ConflictGroupError",
            f"group {group.name!r} does not grant the virtual cluster of its name",
            "grant it to the group, or add the user to another group that has it",
        )
    return group


def principal_of(user: User, token: Token) -> Principal:
    """Return the actor of a request, from its user and token."""
    return replace(rights_of(user), is_application=token.is_application, scope=Scope(token.scope))


def rights_of(user: User) -> Principal:
    """Return a user as an actor, with the rights of all their groups."""
    return Principal(
        user.name,
        Role.ADMIN if user.is_admin else Role.VIEWER if user.is_viewer else Role.USER,
        virtual_clusters=frozenset({*granted_clusters(user.groups), DEFAULT_VIRTUAL_CLUSTER}),
        managed=frozenset(name for group in user.groups for name in group.managed),
        groups=frozenset(group.name for group in user.groups),
        storages=frozenset(name for group in user.groups for name in group.storages),
        default_storages=tuple(dict.fromkeys(group.storages[0] for group in user.groups if group.storages)),
        since_ms=user.created_at_ms,
    )

"""Users in OpenPAI's shapes, without passwords and their hashes."""

from __future__ import annotations

from collections.abc import Iterable

from openpai.access.accounts import Group, User
from openpai.access.memberships import usable_clusters
from openpai.wire import groups, users


def user(found: User, groups: Iterable[Group]) -> users.User:
    """Return all fields of a user, for the user and administrators; `groups` are all groups."""
    return {
        "username": found.name,
        "email": found.email,
        "grouplist": [group.name for group in found.groups],
        "extension": dict(found.extension),
        "admin": found.is_admin,
        "viewer": found.is_viewer,
        "virtualCluster": usable_clusters(found, groups),
        "storageConfig": list(dict.fromkeys(name for group in found.groups for name in group.storages)),
        "source": found.source,
        "createdTime": found.created_at_ms,
    }


def public_user(found: User) -> users.PublicUser:
    """Return the fields that all users may see."""
    return {"username": found.name}


def member(found: User) -> groups.Member:
    return {"username": found.name, "clusterAdmin": found.is_admin}

"""Derives the rights of a caller from their user, groups and token, in this one place."""

from __future__ import annotations

from dataclasses import replace

from openpai.access.accounts import Token, User
from openpai.access.memberships import granted_clusters
from openpai.access.model import Principal, Role, Scope
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER


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
        storages=frozenset(name for group in user.groups for name in group.storages),
        default_storages=tuple(dict.fromkeys(group.storages[0] for group in user.groups if group.storages)),
        since_ms=user.created_at_ms,
    )

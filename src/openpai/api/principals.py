"""From a user and their token to what they may do: the one place where groups become rights."""

from __future__ import annotations

from dataclasses import replace

from openpai.access.model import Principal, Role, Scope
from openpai.ports.accounts import Token, User
from openpai.ports.platform import Submitter
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER


def principal_of(user: User, token: Token) -> Principal:
    """Return a user who came with a token, as the table of permissions sees them."""
    return replace(rights_of(user), is_application=token.is_application, scope=Scope(token.scope))


def rights_of(user: User) -> Principal:
    """Return a user with all that their groups grant them."""
    role = Role.ADMIN if user.is_admin else Role.VIEWER if user.is_viewer else Role.USER
    managed = frozenset(name for group in user.groups for name in group.managed)
    granted = frozenset(name for group in user.groups for name in group.virtual_clusters)
    return Principal(
        user.name,
        role,
        virtual_clusters=granted | managed | {DEFAULT_VIRTUAL_CLUSTER},
        managed=managed,
        storages=frozenset(name for group in user.groups for name in group.storages),
        default_storages=tuple(dict.fromkeys(group.storages[0] for group in user.groups if group.storages)),
        since_ms=user.created_at_ms,
    )


def submitter_of(who: Principal) -> Submitter:
    """Return what somebody is allowed who submits a job; quotas are added by whoever knows them."""
    if who.role is Role.ADMIN:
        return Submitter(who.name, default_storages=who.default_storages, since_ms=who.since_ms)
    others = sorted(who.storages.difference(who.default_storages))
    storages = (*who.default_storages, *others)
    return Submitter(who.name, who.virtual_clusters, storages, who.default_storages, since_ms=who.since_ms)

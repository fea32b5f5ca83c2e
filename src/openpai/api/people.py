"""What a wish about a user makes of them: pure, so that it can be done while nobody else writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from openpai.api.extensions import check_extension
from openpai.api.memberships import EVERYWHERE, Groups, granted, named, with_admin, with_clusters
from openpai.ports.accounts import Group, User


@dataclass(frozen=True, slots=True)
class UserChange:
    """How a user shall be; None leaves it as it is."""

    email: str | None = None
    is_admin: bool | None = None
    is_viewer: bool | None = None
    virtual_clusters: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    extension: Mapping[str, Any] | None = None
    """Keys to be replaced; the others stay."""


def fulfilled(user: User, change: UserChange, groups: Groups) -> User:
    """Return the user as wished; `groups` are all there are. Raises NoGroupError, NoVirtualClusterError."""
    return replace(
        user,
        email=user.email if change.email is None else change.email,
        is_viewer=user.is_viewer if change.is_viewer is None else change.is_viewer,
        groups=_joined(user, change, groups),
        extension=user.extension if change.extension is None else _extended(user, change.extension),
    )


def _joined(user: User, change: UserChange, groups: Groups) -> tuple[Group, ...]:
    held = named(groups, (group.name for group in user.groups) if change.groups is None else change.groups)
    if change.is_admin is not None:
        held = with_admin(groups, held, change.is_admin)
    if change.virtual_clusters is None:
        return held
    # Clients hand an administrator's virtual clusters back as they were shown: all there are.
    everything = granted(groups.values()) | EVERYWHERE
    if any(group.is_admin for group in held) and everything <= {*change.virtual_clusters, *EVERYWHERE}:
        return held
    return with_clusters(groups, held, change.virtual_clusters)


def _extended(user: User, wished: Mapping[str, Any]) -> Mapping[str, Any]:
    extension = {**user.extension, **wished}
    check_extension(extension)
    return extension

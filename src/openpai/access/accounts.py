"""Users, groups and tokens as values, and which names users may have.

A group grants virtual clusters and storages, may make its members administrators, and may let them manage virtual
clusters. What a user may do follows from the groups they are in at that moment; a token carries no rights of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from openpai.protocol.errors import InvalidParameters, Refused

DEFAULT_GROUP: Final = "default"
ADMIN_GROUP: Final = "admingroup"
# ASCII only: letters of other alphabets look like ours, and a name may become part of a path or a command line.
# No dot at the end: some file servers drop it, and the folder would then be another user's.
USER_NAME: Final = r"^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?$"
_NAME: Final = re.compile(USER_NAME.strip("^$"))
_ROUTES: Final = frozenset({"me"})


@dataclass(frozen=True, slots=True)
class Group:
    """Users with the same rights."""

    name: str
    description: str = ""
    external_name: str = ""
    """The identity provider's name for the group; the provider then decides at each login who its members are."""
    is_admin: bool = False
    virtual_clusters: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    """Virtual clusters that its members manage: they see and stop the jobs there and set limits."""
    storages: tuple[str, ...] = ()
    """The first one is the group's default storage."""
    extension: Mapping[str, Any] = field(default_factory=dict)
    """Other keys that clients store there, without `acls`."""


@dataclass(frozen=True, slots=True)
class User:
    """A person or service that may log in, with the groups they are in."""

    name: str
    password_hash: str = field(repr=False)
    """Empty for users of an identity provider."""
    created_at_ms: int
    email: str = ""
    groups: tuple[Group, ...] = ()
    is_viewer: bool = False
    """May read, but neither submit nor change anything."""
    source: str = "local"
    """local, oidc or ldap: who checks the password."""
    subject: str = field(default="", repr=False)
    """The identity provider's identifier of the user, which never changes."""
    extension: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Values that clients store there: public SSH keys, settings. Shown to the user alone."""

    @property
    def is_admin(self) -> bool:
        """Return whether any group makes them an administrator."""
        return any(group.is_admin for group in self.groups)

    @property
    def is_local(self) -> bool:
        """Return whether the password is kept here, not by an identity provider."""
        return self.source == "local"


@dataclass(frozen=True, slots=True)
class Token:
    """A login or an application token. The token itself is never stored, only its SHA-256."""

    digest: str = field(repr=False)
    user: str
    is_application: bool
    created_at_ms: int
    expires_at_ms: int | None
    scope: str = "all"
    """all, jobs (jobs and storages, and reading) or read."""
    name: str = ""
    """The name its owner gave it."""


def is_user_name(name: str) -> bool:
    """Return whether a new user may have this name."""
    return _NAME.fullmatch(name) is not None and not is_reserved(name)


def is_reserved(name: str) -> bool:
    """Return whether a name is a path of the API, so that a user of this name would have no path."""
    return name in _ROUTES


def own_fields(user: User) -> frozenset[str]:
    """Return what of a user is kept here alone; of users of an identity provider, it says the rest at each login."""
    extension = frozenset({"extension"})
    return extension | {"email", "groups", "password_hash"} if user.is_local else extension


def check_local(user: User) -> None:
    """Raise InvalidParametersError for a user whose password is kept by an identity provider."""
    if not user.is_local:
        message = f"{user.name} logs in through {user.source.upper()}; the platform keeps no password to change"
        raise InvalidParameters(message, "change the password at the identity provider")


def no_user(name: str) -> Refused:
    """Return the error for a user that does not exist."""
    return Refused("NoUserError", f"there is no user named {name!r}", "`pai user list` shows the users")


EXTENSION_BYTES_MAX: Final = 64 * 1024
EXTENSION_DEPTH_MAX: Final = 32


def check_extension(document: Mapping[str, Any]) -> None:
    """Raise InvalidParametersError for an extension that is too large or nested too deeply."""
    if _depth(document) > EXTENSION_DEPTH_MAX:
        raise _invalid(f"extension: it is nested more than {EXTENSION_DEPTH_MAX} levels deep")
    if len(json.dumps(document)) > EXTENSION_BYTES_MAX:
        raise _invalid(f"extension: it would be larger than {EXTENSION_BYTES_MAX // 1024} KiB")


def _invalid(message: str) -> Refused:
    return InvalidParameters(message, "put large documents into a storage")


def _depth(value: Any) -> int:
    """Return the depth of a document, counted up to one level more than is allowed."""
    level, depth = [value], 0
    while level and depth <= EXTENSION_DEPTH_MAX:
        inner = [list(one.values()) if isinstance(one, Mapping) else one for one in level]
        level = [child for one in inner if isinstance(one, list) for child in one]
        depth += 1
    return depth

"""People, groups and tokens: who may log in, and what their groups grant them.

A group grants virtual clusters and storages, may make its members administrators, and may let them manage virtual
clusters. Whatever a user may do follows from the groups they are in at that moment; no token carries a right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

DEFAULT_GROUP: Final = "default"
ADMIN_GROUP: Final = "admingroup"


@dataclass(frozen=True, slots=True)
class Group:
    """People who are granted the same."""

    name: str
    description: str = ""
    external_name: str = ""
    """What an identity provider calls it; its members are then told at each login."""
    is_admin: bool = False
    virtual_clusters: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    """Virtual clusters that its members manage: they see and stop the jobs there and set limits."""
    storages: tuple[str, ...] = ()
    """The first one is the group's default storage."""
    extension: Mapping[str, Any] = field(default_factory=dict)
    """What else clients keep there, without `acls`."""


@dataclass(frozen=True, slots=True)
class User:
    """A person or service that may log in, with the groups they are in."""

    name: str
    password_hash: str = field(repr=False)
    """Empty for those who prove who they are elsewhere."""
    created_at_ms: int
    email: str = ""
    groups: tuple[Group, ...] = ()
    is_viewer: bool = False
    """May look but neither submit nor change anything."""
    source: str = "local"
    """local, oidc or ldap: where they prove who they are."""
    subject: str = field(default="", repr=False)
    """What their identity provider calls them, unchanging."""
    extension: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What clients keep there: public SSH keys, settings. Shown to the user alone."""

    @property
    def is_admin(self) -> bool:
        """Return whether any group makes them an administrator."""
        return any(group.is_admin for group in self.groups)


@dataclass(frozen=True, slots=True)
class Token:
    """A login. The token itself is never stored, only its SHA-256."""

    digest: str = field(repr=False)
    user: str
    is_application: bool
    created_at_ms: int
    expires_at_ms: int | None
    scope: str = "all"
    """all, jobs (what concerns jobs and storages, and reading) or read."""
    name: str = ""
    """What its owner calls it."""


class AccountStore(Protocol):
    """Remembers people, groups and tokens."""

    async def user(self, name: str) -> User | None:
        """Return one user."""
        ...

    async def user_of_subject(self, source: str, subject: str) -> User | None:
        """Return the user whom an identity provider calls `subject`."""
        ...

    async def users(self) -> tuple[User, ...]:
        """Return all users by name."""
        ...

    async def add_user(self, user: User) -> None:
        """Remember a user and their memberships.

        Raises NoGroupError, and ConflictUserError for a name that exists, be it in other letters: people take Root for
        root, and some file servers take the folder of one for that of the other.
        """
        ...

    async def change_user(self, name: str, change: Callable[[User], User]) -> User:
        """Replace what is remembered of a user by what `change` makes of it, memberships included.

        Nobody writes in between. Name, password and time of creation stay as they are. What `change` raises is raised
        here, and NoUserError, NoGroupError, and RemoveAdminError when nobody would be an administrator any more.
        `change` may be called more than once.
        """
        ...

    async def set_password(self, name: str, password_hash: str) -> None:
        """Change a password; revokes the user's browser tokens."""
        ...

    async def remove_user(self, name: str) -> None:
        """Forget a user and every token of theirs. Raises NoUserError, and RemoveAdminError for the last of them."""
        ...

    async def groups(self) -> tuple[Group, ...]:
        """Return all groups by name."""
        ...

    async def group(self, name: str) -> Group | None:
        """Return one group."""
        ...

    async def members(self, group: str) -> tuple[str, ...]:
        """Return the names of a group's members."""
        ...

    async def add_group(self, group: Group) -> None:
        """Remember a group. Raises ConflictGroupError for a name that exists."""
        ...

    async def change_group(self, name: str, change: Callable[[Group], Group]) -> Group:
        """Replace what is remembered of a group by what `change` makes of it, as with `change_user`.

        Raises NoGroupError, and RemoveAdminError when nobody would be an administrator any more.
        """
        ...

    async def remove_group(self, name: str) -> None:
        """Forget a group; its members are members no longer. Raises NoGroupError and RemoveAdminError."""
        ...

    async def add_token(self, token: Token, *, is_foretold: bool = False) -> None:
        """Remember a token, and forget those of its owner that have expired. Raises NoUserError.

        Raises ConflictTokenError for one that is there already, and for a foretold one also if it was there before.
        """
        ...

    async def token(self, digest: str) -> tuple[Token, User] | None:
        """Return a token and whose it is, expired or not."""
        ...

    async def tokens(self, user: str) -> tuple[Token, ...]:
        """Return a user's tokens, oldest first."""
        ...

    async def revoke(self, digest: str) -> bool:
        """Forget a token; return whether there was one."""
        ...

    async def revoke_all(self, user: str, *, is_application: bool | None = None) -> int:
        """Forget a user's tokens, or only logins, or only those of applications; return how many there were."""
        ...

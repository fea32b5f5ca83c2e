"""Where users, groups and tokens are remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from openpai.access.accounts import Group, Token, User


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

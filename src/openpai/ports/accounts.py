"""The store of users, groups and tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from openpai.access.accounts import Group, Token, User


class AccountStore(Protocol):
    """Stores users, groups and tokens."""

    async def user(self, name: str) -> User | None:
        """Return one user."""

    async def user_of_subject(self, source: str, subject: str) -> User | None:
        """Return the user with this `subject` at an identity provider."""

    async def users(self) -> tuple[User, ...]:
        """Return all users by name."""

    async def add_user(self, user: User) -> None:
        """Add a user with their memberships.

        Raises NoGroupError, and ConflictUserError for a name that exists, also if only the case of letters differs:
        people mistake Root for root, and some file servers do not distinguish their directories.
        """

    async def change_user(self, name: str, change: Callable[[User], User]) -> User:
        """Replace a user by what `change` returns for it, memberships included, in one transaction.

        Name, password and time of creation stay as they are. Raises what `change` raises, NoUserError, NoGroupError,
        and RemoveAdminError if no administrator would be left.
        `change` may be called more than once.
        """

    async def set_password(self, name: str, password_hash: str) -> None:
        """Change a password; revokes the user's browser tokens."""

    async def remove_user(self, name: str) -> None:
        """Delete a user with their tokens. Raises NoUserError, and RemoveAdminError for the last administrator."""

    async def groups(self) -> tuple[Group, ...]:
        """Return all groups by name."""

    async def group(self, name: str) -> Group | None:
        """Return one group."""

    async def members(self, group: str) -> tuple[str, ...]:
        """Return the names of a group's members."""

    async def add_group(self, group: Group) -> None:
        """Add a group. Raises ConflictGroupError for a name that exists."""

    async def change_group(self, name: str, change: Callable[[Group], Group]) -> Group:
        """Replace a group by what `change` returns for it, as `change_user` does.

        Raises NoGroupError, and RemoveAdminError if no administrator would be left.
        """

    async def remove_group(self, name: str) -> None:
        """Delete a group and its memberships. Raises NoGroupError and RemoveAdminError."""

    async def add_token(self, token: Token, *, is_predetermined: bool = False) -> None:
        """Add a token, and delete expired tokens of its owner. Raises NoUserError.

        Raises ConflictTokenError for one that exists, and for a predetermined one also if it existed before.
        """

    async def token(self, digest: str) -> tuple[Token, User] | None:
        """Return a token with its owner, expired or not."""

    async def tokens(self, user: str) -> tuple[Token, ...]:
        """Return a user's tokens, oldest first."""

    async def revoke(self, digest: str) -> bool:
        """Delete a token; return whether it existed."""

    async def revoke_all(self, user: str, *, is_application: bool | None = None) -> int:
        """Delete a user's tokens, or only logins, or only those of applications; return how many there were."""

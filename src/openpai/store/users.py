"""Remembering users and their tokens. Passwords arrive hashed and tokens as digests; neither can be read back."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.ports.store import Token, User
from openpai.protocol.errors import Refused
from openpai.store.database import Database
from openpai.store.schema import tokens, users


class SqlUserStore:
    """`ports.store.UserStore` over SQLite or PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def user(self, name: str) -> User | None:
        """Return one user; see `UserStore.user`."""
        query = sa.select(users).where(users.c.name == name)
        row = await self._database.read(lambda connection: connection.execute(query).mappings().first())
        return User(**row) if row else None

    async def users(self) -> tuple[User, ...]:
        """Return all users; see `UserStore.users`."""
        query = sa.select(users).order_by(users.c.name)
        found = await self._database.read(lambda connection: connection.execute(query).mappings().all())
        return tuple(User(**row) for row in found)

    async def add_user(self, user: User) -> None:
        """Remember a user; see `UserStore.add_user`."""
        columns = {column.name: getattr(user, column.name) for column in users.columns}

        def work(connection: sa.Connection) -> None:
            try:
                connection.execute(users.insert(), columns)
            except exc.IntegrityError as error:
                raise Refused("ConflictUserError", f"there is already a user named {user.name!r}") from error

        await self._database.write(work)

    async def set_password(self, name: str, password_hash: str) -> None:
        """Change a password; see `UserStore.set_password`."""
        changed = sa.update(users).where(users.c.name == name).values(password_hash=password_hash)
        revoked = sa.delete(tokens).where(tokens.c.owner == name, tokens.c.is_application.is_(False))

        def work(connection: sa.Connection) -> None:
            if connection.execute(changed).rowcount == 0:
                raise Refused("NoUserError", f"there is no user named {name!r}")
            connection.execute(revoked)

        await self._database.write(work)

    async def remove_user(self, name: str) -> None:
        """Forget a user; see `UserStore.remove_user`."""

        def work(connection: sa.Connection) -> None:
            if connection.execute(sa.delete(users).where(users.c.name == name)).rowcount == 0:
                raise Refused("NoUserError", f"there is no user named {name!r}")
            connection.execute(sa.delete(tokens).where(tokens.c.owner == name))

        await self._database.write(work)

    async def add_token(self, token: Token) -> None:
        """Remember a token; see `UserStore.add_token`."""
        columns = {
            "digest": token.digest,
            "owner": token.user,
            "is_application": token.is_application,
            "created_at_ms": token.created_at_ms,
            "expires_at_ms": token.expires_at_ms,
        }
        await self._database.write(lambda connection: connection.execute(tokens.insert(), columns))

    async def token(self, digest: str) -> tuple[Token, User] | None:
        """Return a token and whose it is; see `UserStore.token`."""

        def work(connection: sa.Connection) -> tuple[Token, User] | None:
            row = connection.execute(sa.select(tokens).where(tokens.c.digest == digest)).mappings().first()
            if row is None:
                return None
            owner = connection.execute(sa.select(users).where(users.c.name == row["owner"])).mappings().first()
            return (_token(row), User(**owner)) if owner else None

        return await self._database.read(work)

    async def tokens(self, user: str) -> tuple[Token, ...]:
        """Return a user's tokens; see `UserStore.tokens`."""
        query = sa.select(tokens).where(tokens.c.owner == user).order_by(tokens.c.created_at_ms)
        found = await self._database.read(lambda connection: connection.execute(query).mappings().all())
        return tuple(_token(row) for row in found)

    async def revoke(self, digest: str) -> bool:
        """Forget a token; see `UserStore.revoke`."""
        gone = sa.delete(tokens).where(tokens.c.digest == digest)
        return await self._database.write(lambda connection: connection.execute(gone).rowcount > 0)


def _token(row: Any) -> Token:
    return Token(row["digest"], row["owner"], row["is_application"], row["created_at_ms"], row["expires_at_ms"])

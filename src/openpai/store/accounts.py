"""Stores users, groups and tokens. Passwords arrive hashed and tokens as digests; neither can be read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.access.accounts import Group, Token, User, no_user
from openpai.access.memberships import no_group
from openpai.protocol.errors import Refused
from openpai.store.database import Stored
from openpai.store.schema import groups, idempotency, memberships, tokens, users

_OTHER_NAME: Final = "choose another name, or change the existing one"


class SqlAccountStore(Stored):
    """`ports.accounts.AccountStore` over SQLite or PostgreSQL."""

    async def user(self, name: str) -> User | None:
        return await self._database.read_inline(lambda connection: _one(connection, users.c.name == name))

    async def user_of_subject(self, source: str, subject: str) -> User | None:
        where = (users.c.source == source) & (users.c.subject == subject)
        return await self._database.read_inline(lambda connection: _one(connection, where))

    async def users(self) -> tuple[User, ...]:
        return await self._database.read_inline(lambda connection: _users(connection, sa.true()))

    async def add_user(self, user: User) -> None:
        alike = sa.select(users.c.name).where(sa.func.lower(users.c.name) == user.name.lower())

        def work(connection: sa.Connection) -> None:
            other = connection.execute(alike).scalar()
            if other is not None and other != user.name:
                message = f"there is already a user named {other!r}, which looks like {user.name!r}"
                raise Refused("ConflictUserError", message, _OTHER_NAME)
            try:
                with connection.begin_nested():
                    connection.execute(users.insert(), _user_columns(user))
            except exc.IntegrityError as error:
                message = f"there is already a user named {user.name!r}"
                raise Refused("ConflictUserError", message, _OTHER_NAME) from error
            _join(connection, user)

        await self._database.write(work, _PEOPLE)

    async def change_user(self, name: str, change: Callable[[User], User]) -> User:
        def work(connection: sa.Connection) -> User:
            had_admin = _has_admin(connection)
            before = _one(connection, users.c.name == name)
            if before is None:
                raise no_user(name)
            kept = {column: getattr(before, column) for column in _USER_FIXED}
            after = replace(change(before), **kept)
            connection.execute(sa.update(users).where(users.c.name == name).values(_user_columns(after)))
            _join(connection, after)
            _keep_an_admin(connection, had_admin)
            return _one(connection, users.c.name == name) or after

        return await self._database.write(work, _PEOPLE)

    async def set_password(self, name: str, password_hash: str) -> None:
        changed = sa.update(users).where(users.c.name == name).values(password_hash=password_hash)
        revoked = sa.delete(tokens).where(tokens.c.owner == name, tokens.c.is_application.is_(False))

        def work(connection: sa.Connection) -> None:
            if connection.execute(changed).rowcount == 0:
                raise no_user(name)
            connection.execute(revoked)

        await self._database.write(work, _PEOPLE)

    async def remove_user(self, name: str) -> None:
        def work(connection: sa.Connection) -> None:
            had_admin = _has_admin(connection)
            if connection.execute(sa.delete(users).where(users.c.name == name)).rowcount == 0:
                raise no_user(name)
            connection.execute(sa.delete(tokens).where(tokens.c.owner == name))
            connection.execute(sa.delete(memberships).where(memberships.c.member == name))
            # A later user of the same name must not get answers about this one's jobs.
            connection.execute(sa.delete(idempotency).where(idempotency.c.owner == name))
            _keep_an_admin(connection, had_admin)

        await self._database.write(work, _PEOPLE)

    async def groups(self) -> tuple[Group, ...]:
        query = sa.select(groups).order_by(groups.c.name)
        found = await self._database.read_inline(lambda connection: connection.execute(query).mappings().all())
        return tuple(_group(row) for row in found)

    async def group(self, name: str) -> Group | None:
        query = sa.select(groups).where(groups.c.name == name)
        row = await self._database.read_inline(lambda connection: connection.execute(query).mappings().first())
        return _group(row) if row else None

    async def members(self, group: str) -> tuple[str, ...]:
        query = sa.select(memberships.c.member).where(memberships.c.group_name == group).order_by(memberships.c.member)
        return tuple(await self._database.read_inline(lambda connection: connection.execute(query).scalars().all()))

    async def add_group(self, group: Group) -> None:
        def work(connection: sa.Connection) -> None:
            try:
                connection.execute(groups.insert(), _group_columns(group))
            except exc.IntegrityError as error:
                message = f"there is already a group named {group.name!r}"
                raise Refused("ConflictGroupError", message, _OTHER_NAME) from error

        await self._database.write(work, _PEOPLE)

    async def change_group(self, name: str, change: Callable[[Group], Group]) -> Group:
        def work(connection: sa.Connection) -> Group:
            had_admin = _has_admin(connection)
            found = sa.select(groups).where(groups.c.name == name).with_for_update()
            row = connection.execute(found).mappings().first()
            if row is None:
                raise no_group(name)
            after = replace(change(_group(row)), name=name)
            connection.execute(sa.update(groups).where(groups.c.name == name).values(_group_columns(after)))
            _keep_an_admin(connection, had_admin)
            return after

        return await self._database.write(work, _PEOPLE)

    async def remove_group(self, name: str) -> None:
        def work(connection: sa.Connection) -> None:
            had_admin = _has_admin(connection)
            if connection.execute(sa.delete(groups).where(groups.c.name == name)).rowcount == 0:
                raise no_group(name)
            connection.execute(sa.delete(memberships).where(memberships.c.group_name == name))
            _keep_an_admin(connection, had_admin)

        await self._database.write(work, _PEOPLE)

    async def add_token(self, token: Token, *, is_predetermined: bool = False) -> None:
        columns = {name: getattr(token, name) for name in _TOKEN} | {"owner": token.user}
        expired = sa.delete(tokens).where(tokens.c.owner == token.user, tokens.c.expires_at_ms <= token.created_at_ms)

        def work(connection: sa.Connection) -> None:
            # A token of a removed user would give access to the account of a later user of the same name.
            if connection.execute(_held_user(token.user)).first() is None:
                raise no_user(token.user)
            # This is the only place that deletes expired tokens.
            connection.execute(expired)
            try:
                with connection.begin_nested():
                    connection.execute(tokens.insert(), columns)
                    if is_predetermined:
                        connection.execute(idempotency.insert(), _opened_once(token))
            except exc.IntegrityError as error:
                raise Refused("ConflictTokenError", "this token exists already", "make a new one") from error

        await self._database.write(work)

    async def token(self, digest: str) -> tuple[Token, User] | None:
        def work(connection: sa.Connection) -> tuple[Token, User] | None:
            row = connection.execute(sa.select(tokens).where(tokens.c.digest == digest)).mappings().first()
            owner = _one(connection, users.c.name == row["owner"]) if row else None
            return (_token(row), owner) if owner else None

        return await self._database.read_inline(work)

    async def tokens(self, user: str) -> tuple[Token, ...]:
        query = sa.select(tokens).where(tokens.c.owner == user).order_by(tokens.c.created_at_ms)
        found = await self._database.read_inline(lambda connection: connection.execute(query).mappings().all())
        return tuple(_token(row) for row in found)

    async def revoke(self, digest: str) -> bool:
        gone = sa.delete(tokens).where(tokens.c.digest == digest)
        return await self._database.write(lambda connection: connection.execute(gone).rowcount > 0)

    async def revoke_all(self, user: str, *, is_application: bool | None = None) -> int:
        gone = sa.delete(tokens).where(tokens.c.owner == user)
        if is_application is not None:
            gone = gone.where(tokens.c.is_application.is_(is_application))
        return await self._database.write(lambda connection: connection.execute(gone).rowcount)


# Every change of users or groups takes this lock: servers that each hold a row the other needs would wait
# for each other for ever.
_PEOPLE = "people and groups"
_USER_FIXED = ("name", "password_hash", "created_at_ms")
_TOKEN = ("digest", "is_application", "created_at_ms", "expires_at_ms", "scope", "name")


def _opened_once(token: Token) -> dict[str, Any]:
    """Return what is kept of a revoked token. Keys of clients contain no space."""
    return {"owner": token.user, "key": f"token {token.digest}", "job": "", "name": "", "at_ms": token.created_at_ms}


def _held_user(name: str) -> sa.Select[Any]:
    """Return a query that locks a user's row against removal, not against changes, until the transaction ends."""
    return sa.select(users.c.name).where(users.c.name == name).with_for_update(read=True, key_share=True)


def _has_admin(connection: sa.Connection) -> bool:
    """Return whether any user is an administrator."""
    joined = sa.join(memberships, groups, groups.c.name == memberships.c.group_name)
    found = sa.select(memberships.c.member).select_from(joined).where(groups.c.is_admin).limit(1)
    return connection.execute(found).first() is not None


def _keep_an_admin(connection: sa.Connection, had_admin: bool) -> None:
    if had_admin and not _has_admin(connection):
        raise Refused(
            "RemoveAdminError",
            "the platform would have no administrator",
            "make another user an administrator first",
        )


def _one(connection: sa.Connection, where: sa.ColumnElement[bool]) -> User | None:
    found = _users(connection, where)
    return found[0] if found else None


def _users(connection: sa.Connection, where: sa.ColumnElement[bool]) -> tuple[User, ...]:
    rows = connection.execute(sa.select(users).where(where).order_by(users.c.name)).mappings().all()
    joined = sa.select(memberships.c.member, groups).join(groups, groups.c.name == memberships.c.group_name)
    order = (memberships.c.member, memberships.c.position, groups.c.name)
    query = joined.where(memberships.c.member.in_(sa.select(users.c.name).where(where))).order_by(*order)
    of: dict[str, list[Group]] = {}
    for row in connection.execute(query).mappings():
        of.setdefault(row["member"], []).append(_group(row))
    return tuple(_user(row, of.get(row["name"], ())) for row in rows)


def _join(connection: sa.Connection, user: User) -> None:
    """Store the memberships of a user, and delete all others."""
    wanted = [group.name for group in user.groups]
    known = set(connection.execute(sa.select(groups.c.name).where(groups.c.name.in_(wanted))).scalars())
    for name in wanted:
        if name not in known:
            raise no_group(name)
    connection.execute(sa.delete(memberships).where(memberships.c.member == user.name))
    rows = [{"member": user.name, "group_name": name, "position": at} for at, name in enumerate(dict.fromkeys(wanted))]
    if rows:
        connection.execute(memberships.insert(), rows)


def _user_columns(user: User) -> dict[str, Any]:
    columns = {column.name: getattr(user, column.name) for column in users.columns}
    return columns | {"extension": json.dumps(dict(user.extension))}


def _user(row: Any, of: Iterable[Group]) -> User:
    return User(**{**row, "extension": json.loads(row["extension"])}, groups=tuple(of))


_LISTS = ("virtual_clusters", "managed", "storages")


def _group_columns(group: Group) -> dict[str, Any]:
    columns = {column.name: getattr(group, column.name) for column in groups.columns}
    lists = {name: json.dumps(list(columns[name])) for name in _LISTS}
    return columns | lists | {"extension": json.dumps(dict(group.extension))}


def _group(row: Any) -> Group:
    values = {column.name: row[column.name] for column in groups.columns}
    lists = {name: tuple(json.loads(values[name])) for name in _LISTS}
    return Group(**{**values, **lists, "extension": json.loads(values["extension"])})


def _token(row: Any) -> Token:
    return Token(user=row["owner"], **{name: row[name] for name in _TOKEN})

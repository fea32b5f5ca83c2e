"""What the store promises about people, groups and tokens, asked of SQLite and of PostgreSQL alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, Token, User
from openpai.protocol.errors import Refused
from openpai.store.accounts import SqlAccountStore
from openpai.store.database import Database

EVERYONE, ADMINS = Group(DEFAULT_GROUP), Group(ADMIN_GROUP)


@pytest.fixture
def accounts(database: Database) -> SqlAccountStore:
    return SqlAccountStore(database)


def user(name: str, *groups: Group, **more: object) -> User:
    return User(name, "hash", 1, groups=(EVERYONE, *groups), **more)  # type: ignore[arg-type]


def names(*groups: Group) -> list[str]:
    return [group.name for group in groups]


async def refused(asked: Callable[[], Awaitable[object]]) -> str:
    with pytest.raises(Refused) as error:
        await asked()
    assert error.value.message
    return error.value.code


async def test_a_complaint_of_the_database_does_not_say_what_was_to_be_written(accounts: SqlAccountStore) -> None:
    ann = replace(user("ann"), password_hash="argon2-of-ann")
    await accounts.add_user(ann)
    with pytest.raises(Refused) as error:
        await accounts.add_user(ann)
    assert "users" in str(error.value.__cause__)
    assert "argon2-of-ann" not in str(error.value.__cause__)


async def test_a_user_is_remembered_with_their_groups_in_order(accounts: SqlAccountStore) -> None:
    vision = Group(
        "vision", "sees", "cn=vision", False, ("a", "b"), ("a",), ("disk", "tape"), {"color": {"sky": "blue"}}
    )
    await accounts.add_group(vision)
    ann = user("ann", vision, email="ann@example.org", is_viewer=True, source="oidc", subject="s-1",
               extension={"sshKeys": [{"title": "é\u2603"}]})  # fmt: skip
    await accounts.add_user(ann)
    found = await accounts.user("ann")
    assert found is not None
    assert names(*found.groups) == [DEFAULT_GROUP, "vision"]
    assert found.groups[1] == vision == await accounts.group("vision")
    assert replace(found, groups=()) == replace(ann, groups=())
    assert await accounts.user_of_subject("oidc", "s-1") == found
    assert await accounts.user_of_subject("ldap", "s-1") is None
    assert (await accounts.users(), await accounts.members("vision")) == ((found,), ("ann",))
    assert not found.is_admin


async def test_every_platform_begins_with_two_groups(accounts: SqlAccountStore) -> None:
    found = {group.name: group for group in await accounts.groups()}
    assert set(found) == {DEFAULT_GROUP, ADMIN_GROUP}
    assert (found[DEFAULT_GROUP].is_admin, found[ADMIN_GROUP].is_admin) == (False, True)


async def test_names_belong_to_one(accounts: SqlAccountStore) -> None:
    await accounts.add_user(user("ann"))
    assert await refused(lambda: accounts.add_user(user("ann"))) == "ConflictUserError"
    await accounts.add_group(Group("vision"))
    assert await refused(lambda: accounts.add_group(Group("vision"))) == "ConflictGroupError"
    assert await refused(lambda: accounts.add_user(user("bob", Group("nowhere")))) == "NoGroupError"
    assert await accounts.user("bob") is None


async def test_a_change_sees_what_was_before_and_leaves_name_and_password_alone(accounts: SqlAccountStore) -> None:
    await accounts.add_user(user("ann", email="old@example.org"))
    await accounts.set_password("ann", "changed meanwhile")

    def change(before: User) -> User:
        assert before.email == "old@example.org"
        return replace(before, name="eve", password_hash="", created_at_ms=9, email="new@example.org", groups=())

    after = await accounts.change_user("ann", change)
    assert after == await accounts.user("ann")
    assert (after.name, after.password_hash, after.created_at_ms) == ("ann", "changed meanwhile", 1)
    assert (after.email, after.groups) == ("new@example.org", ())
    for asked in (
        lambda: accounts.change_user("nobody", lambda before: before),
        lambda: accounts.set_password("nobody", ""),
        lambda: accounts.remove_user("nobody"),
        lambda: accounts.add_token(Token("a" * 64, "nobody", False, 1, None)),
    ):
        assert await refused(asked) == "NoUserError"


async def test_many_changes_at_once_lose_nothing(accounts: SqlAccountStore) -> None:
    await accounts.add_user(user("ann"))
    await accounts.add_group(Group("vision"))

    async def one(number: int) -> None:
        key = f"key-{number}"
        await accounts.change_user("ann", lambda before: replace(before, extension={**before.extension, key: number}))
        await accounts.change_group("vision", lambda before: replace(before, storages=(*before.storages, key)))

    await asyncio.gather(*(one(number) for number in range(20)))
    found, group = await accounts.user("ann"), await accounts.group("vision")
    assert found is not None
    assert group is not None
    assert set(found.extension.values()) == set(range(20))
    assert len(group.storages) == 20


async def test_a_change_that_is_refused_changes_nothing(accounts: SqlAccountStore) -> None:
    await accounts.add_user(user("ann"))

    def no(before: User) -> User:
        raise Refused("InvalidParametersError", "no")

    assert await refused(lambda: accounts.change_user("ann", no)) == "InvalidParametersError"
    lost = replace(user("ann"), email="x", groups=(Group("nowhere"),))
    assert await refused(lambda: accounts.change_user("ann", lambda before: lost)) == "NoGroupError"
    found = await accounts.user("ann")
    assert found is not None
    assert (found.email, names(*found.groups)) == ("", [DEFAULT_GROUP])


async def test_the_last_administrator_stays(accounts: SqlAccountStore) -> None:
    await accounts.add_user(user("root", ADMINS))
    await accounts.add_user(user("ann"))
    demoted = lambda before: replace(before, groups=(EVERYONE,))  # noqa: E731
    powerless = lambda before: replace(before, is_admin=False)  # noqa: E731
    for asked in (
        lambda: accounts.change_user("root", demoted),
        lambda: accounts.remove_user("root"),
        lambda: accounts.change_group(ADMIN_GROUP, powerless),
        lambda: accounts.remove_group(ADMIN_GROUP),
    ):
        assert await refused(asked) == "RemoveAdminError"
        root = await accounts.user("root")
        assert root is not None
        assert root.is_admin
    await accounts.add_group(Group("others", is_admin=True))
    await accounts.change_user("ann", lambda before: replace(before, groups=(EVERYONE, Group("others"))))
    await accounts.change_user("root", demoted)
    assert await refused(lambda: accounts.change_group("others", powerless)) == "RemoveAdminError"


async def test_two_administrators_cannot_take_the_right_from_each_other_at_once(
    accounts: SqlAccountStore, database_url: str
) -> None:
    others = Database(database_url)
    try:
        for name in ("one", "two"):
            await accounts.add_user(user(name, ADMINS))
        demoted = lambda before: replace(before, groups=(EVERYONE,))  # noqa: E731
        stores = (accounts, SqlAccountStore(others))
        results = await asyncio.gather(
            *(store.change_user(name, demoted) for store, name in zip(stores, ("one", "two"), strict=True)),
            return_exceptions=True,
        )
        assert sum(isinstance(result, Refused) for result in results) == 1
        assert [each.is_admin for each in await accounts.users()].count(True) == 1
    finally:
        others.close()


async def test_a_group_that_goes_leaves_its_members(accounts: SqlAccountStore) -> None:
    await accounts.add_group(Group("vision"))
    await accounts.add_user(user("ann", Group("vision")))
    await accounts.remove_group("vision")
    found = await accounts.user("ann")
    assert found is not None
    assert names(*found.groups) == [DEFAULT_GROUP]
    assert await accounts.group("vision") is None
    for asked in (
        lambda: accounts.remove_group("vision"),
        lambda: accounts.change_group("vision", lambda before: before),
    ):
        assert await refused(asked) == "NoGroupError"


async def test_tokens_are_revoked_one_by_one_by_kind_or_with_their_owner(accounts: SqlAccountStore) -> None:
    await accounts.add_user(user("ann"))
    await accounts.add_user(user("bob"))
    logins = [Token(letter * 64, "ann", False, at, 99) for at, letter in enumerate("ab", 1)]
    applications = [Token(letter * 64, "ann", True, at, None, "read", f"app {at}") for at, letter in enumerate("cd", 3)]
    bobs = Token("e" * 64, "bob", False, 5, None)
    for token in (*logins, *applications, bobs):
        await accounts.add_token(token)
    assert await accounts.tokens("ann") == (*logins, *applications)
    assert await accounts.revoke("a" * 64)
    assert not await accounts.revoke("a" * 64)
    await accounts.set_password("ann", "new")
    assert await accounts.tokens("ann") == tuple(applications)
    await accounts.add_token(logins[0])
    assert await accounts.revoke_all("ann", is_application=True) == 2
    assert await accounts.tokens("ann") == (logins[0],)
    await accounts.add_token(applications[0])
    assert await accounts.revoke_all("ann", is_application=False) == 1
    assert await accounts.revoke_all("ann") == 1
    await accounts.add_token(logins[0])
    await accounts.remove_user("ann")
    assert await accounts.token(logins[0].digest) is None
    await accounts.add_user(user("ann"))
    assert await accounts.tokens("ann") == ()
    found = await accounts.token(bobs.digest)
    assert found is not None
    assert (found[0], found[1].name) == (bobs, "bob")


async def test_a_new_token_takes_away_those_that_expired(accounts: SqlAccountStore) -> None:
    await accounts.add_user(user("ann"))
    for letter, at, until in (("a", 1, 10), ("b", 2, 11), ("c", 3, None), ("d", 10, 20)):
        await accounts.add_token(Token(letter * 64, "ann", False, at, until))
    assert [token.digest[0] for token in await accounts.tokens("ann")] == ["b", "c", "d"]


async def test_a_reserved_token_is_remembered_once_whatever_became_of_it(accounts: SqlAccountStore) -> None:
    await accounts.add_user(user("ann"))
    token = Token("a" * 64, "ann", False, 1, None)
    await accounts.add_token(token, is_predetermined=True)
    assert await refused(lambda: accounts.add_token(token, is_predetermined=True)) == "ConflictTokenError"
    assert await accounts.revoke(token.digest)
    assert await refused(lambda: accounts.add_token(token, is_predetermined=True)) == "ConflictTokenError"
    assert await accounts.tokens("ann") == ()


async def test_no_name_differs_from_anothers_in_capital_letters_only(accounts: SqlAccountStore) -> None:
    await accounts.add_user(user("ann"))
    assert await refused(lambda: accounts.add_user(user("Ann"))) == "ConflictUserError"
    assert await refused(lambda: accounts.add_user(user("ann"))) == "ConflictUserError"
    await accounts.add_user(user("ann_"))
    assert [found.name for found in await accounts.users()] == ["ann", "ann_"]


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_servers_that_let_the_same_people_in_do_not_wait_for_each_other(database: Database) -> None:
    """Each server writes in groups, so that what one holds and what it wants next is in any order."""
    other = Database(database.url.render_as_string(hide_password=False))
    complaints: list[str] = []
    for each in (database, other):
        sa.event.listen(each.engine, "handle_error", lambda met: complaints.append(str(met.original_exception)))
    try:
        here, there = SqlAccountStore(database), SqlAccountStore(other)
        for name in ("ann", "bob"):
            await here.add_user(user(name))
        await here.add_user(user("root", ADMINS))
        for turn in range(10):
            writes: list[Awaitable[object]] = []
            for at, (store, order) in enumerate(((here, ("ann", "bob")), (there, ("bob", "ann")))):
                for name in order:
                    writes.append(store.add_token(Token(f"{at}{turn:02}{name}", name, False, 1, None)))
                    writes.append(store.change_user(name, lambda before: replace(before, email="a@b.c")))
            await asyncio.gather(*writes)
        assert len(await here.tokens("ann")) == 20
        assert complaints == []
    finally:
        other.close()

"""Accounts in the store: finds users, and creates or updates those that an identity provider reports."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from openpai.access.accounts import Group, User, is_user_name, no_user
from openpai.access.memberships import Groups, UserChange, changed_user, groups_named, no_group, with_external
from openpai.ports.accounts import AccountStore
from openpai.ports.identity import Vouched
from openpai.ports.platform import Platform
from openpai.protocol.errors import Refused
from openpai.scheduler.config.editing import no_virtual_cluster

_NEVER_MERGED: Final = "accounts are never merged; ask an administrator to remove the other one, or for another name"
_EMAIL: Final = re.compile(r"[^\x00-\x20]{0,254}")


async def find_user(accounts: AccountStore, name: str) -> User:
    """Return a user; raise NoUserError."""
    # No user name has a NUL, and PostgreSQL refuses a query with one.
    user = await accounts.user(name) if "\x00" not in name else None
    if user is None:
        raise no_user(name)
    return user


async def find_group(accounts: AccountStore, name: str) -> Group:
    """Return a group; raise NoGroupError."""
    group = await accounts.group(name) if "\x00" not in name else None
    if group is None:
        raise no_group(name)
    return group


async def check_named(
    accounts: AccountStore, platform: Platform, *, user: str = "", group: str = "", virtual_cluster: str = ""
) -> None:
    """Raise NoUserError, NoGroupError or NoVirtualClusterError for a name that is not empty and of nothing."""
    if user:
        await find_user(accounts, user)
    if group:
        await find_group(accounts, group)
    if virtual_cluster and all(view.name != virtual_cluster for view in await platform.virtual_clusters()):
        raise no_virtual_cluster(virtual_cluster)


async def all_groups(accounts: AccountStore) -> Groups:
    """Return every group, by name."""
    return {group.name: group for group in await accounts.groups()}


async def change_user(accounts: AccountStore, name: str, change: UserChange) -> User:
    """Change a user; raise NoUserError, NoGroupError, NoVirtualClusterError or RemoveAdminError."""
    groups = await all_groups(accounts)
    return await accounts.change_user(name, lambda before: changed_user(before, change, groups))


async def admit(
    accounts: AccountStore, person: Vouched, now_ms: int, changed: Callable[[str], None], *, is_group_required: bool
) -> User:
    """Return the user of a person that a provider authenticated; raise ForbiddenUserError if not admitted.

    `changed` is called with the name of a user whose groups may have changed.
    """
    is_wanted = not is_group_required or await _is_in_a_group(accounts, person)
    user = None
    # A user who is no longer admitted loses the groups from the provider too: their tokens stay valid.
    if is_wanted or await accounts.user_of_subject(person.source, person.subject) is not None:
        user = await welcome(accounts, person, now_ms)
        changed(user.name)
    if user is None or not is_wanted:
        message = f"{person.name} is in none of the groups that may use this platform"
        raise Refused("ForbiddenUserError", message, "ask an administrator which group to join")
    return user


async def _is_in_a_group(accounts: AccountStore, person: Vouched) -> bool:
    return any(group.external_name in person.groups for group in await accounts.groups() if group.external_name)


async def welcome(accounts: AccountStore, person: Vouched, now_ms: int) -> User:
    """Return the user that an identity provider reports: created at the first login, updated at every later one.

    Raises ConflictUserError where the name belongs to another account. Accounts are never merged: a user who may
    choose a name at the provider could take an account over.
    """
    groups = await all_groups(accounts)
    found = await accounts.user_of_subject(person.source, person.subject)
    if found is None:
        return await _first_login(accounts, person, groups, now_ms)
    try:
        return await accounts.change_user(found.name, lambda user: _updated(user, person, groups))
    except Refused as error:
        if error.code != "RemoveAdminError":
            raise
    # A platform without an administrator could not be repaired, so the last one stays until there is another.
    admin = {group.external_name for group in found.groups if group.is_admin}
    still = replace(person, groups=person.groups | admin)
    return await accounts.change_user(found.name, lambda user: _updated(user, still, groups))


def _updated(user: User, person: Vouched, groups: Groups) -> User:
    email = _email_of(person) or user.email
    return replace(user, email=email, groups=with_external(groups, user.groups, person.groups))


def _email_of(person: Vouched) -> str:
    return person.email if _EMAIL.fullmatch(person.email) else ""


async def _first_login(accounts: AccountStore, person: Vouched, groups: Groups, now_ms: int) -> User:
    if not is_user_name(person.name):
        message = f"the identity provider names this user {person.name!r}, which cannot be a user name here"
        raise Refused("ForbiddenUserError", message, "a user name has up to 128 letters, digits, dots, dashes or _")
    if not person.subject:
        raise Refused("ForbiddenUserError", "the identity provider named no user for this login")
    joined = with_external(groups, groups_named(groups, ()), person.groups)
    user = User(person.name, "", now_ms, _email_of(person), joined, source=person.source, subject=person.subject)
    try:
        await accounts.add_user(user)
    except Refused as error:
        same = await accounts.user_of_subject(person.source, person.subject)
        if error.code == "ConflictUserError" and same is not None:
            return same  # Another login of the same person created the account first.
        if error.code == "ConflictUserError":
            error.advice = _NEVER_MERGED
        raise
    return user

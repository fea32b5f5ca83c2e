"""Accounts of people: finding and changing them, and letting in whoever proved who they are.

Proof is a password that fits, or an identity provider that vouches for somebody; who is vouched for is a user from
their first time on.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from fastapi import Request

from openpai.api.bodies import invalid
from openpai.api.context import ApiContext, context_of
from openpai.api.memberships import Groups, named, vouched
from openpai.api.origins import address_of
from openpai.api.people import UserChange, fulfilled
from openpai.api.sessions import digest_of
from openpai.api.shapes.exits import Document
from openpai.ports.accounts import AccountStore, User
from openpai.ports.identity import Vouched
from openpai.protocol.errors import Refused

# Letters of other alphabets look like ours, and a name may become part of a path or an argument of a command.
# Some file servers leave a dot at the end away, and then a folder would be somebody else's.
USER_NAME: Final = r"^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?$"
# Names of routes: a user called so could not be asked for.
RESERVED: Final = frozenset({"me"})
_NAME: Final = re.compile(USER_NAME.strip("^$"))
_NEVER_MERGED: Final = "accounts are never merged; ask an administrator to remove the other one, or for another name"
_EMAIL: Final = re.compile(r"[^\x00-\x20]{0,254}")


def no_user(name: str) -> Refused:
    """Return the error for a user who does not exist."""
    return Refused("NoUserError", f"there is no user named {name!r}", "`pai user list` shows the users there are")


async def find_user(context: ApiContext, name: str) -> User:
    """Return a user; raise NoUserError."""
    # No name has a NUL, and not every database can be asked for one.
    user = await context.services.users.user(name) if "\x00" not in name else None
    if user is None:
        raise no_user(name)
    return user


async def all_groups(accounts: AccountStore) -> Groups:
    """Return every group, by name."""
    return {group.name: group for group in await accounts.groups()}


async def change_person(context: ApiContext, name: str, change: UserChange) -> User:
    """Change a user; what they may do is different from the next request on."""
    groups = await all_groups(context.services.users)
    user = await context.services.users.change_user(name, lambda before: fulfilled(before, change, groups))
    context.sessions.forget(name)
    return user


def check_local(user: User) -> None:
    """Raise for a user whose password is kept elsewhere."""
    if user.source != "local":
        message = f"{user.name} logs in through {user.source.upper()}; there is no password here to change"
        raise invalid(message)


async def check_password(request: Request, user: User, password: str) -> None:
    """Raise ForbiddenUserError unless this is the user's password; guessing is limited as it is for logins."""
    check_local(user)
    context, address = context_of(request), address_of(request.scope)
    # An unattended screen must not be enough to take an account over.
    context.logins.begin(user.name, address)
    if not await context.passwords.matches(password, user.password_hash):
        raise Refused("ForbiddenUserError", "the old password is wrong")
    context.logins.succeeded(user.name, address)


async def change_password(context: ApiContext, user: User, password: str) -> None:
    """Change a password and end the user's logins; tokens of applications stay."""
    check_local(user)
    await context.services.users.set_password(user.name, await context.passwords.hash(password))
    context.sessions.forget(user.name)


async def sign_in(context: ApiContext, user: User, lifetime_s: int | None = None) -> Document:
    """Return OpenPAI's answer to a login that succeeded, with a new token of the user.

    Raises IncorrectPasswordError if the password was changed since it was compared.
    """
    token = await context.sessions.open(user.name, lifetime_s=lifetime_s or context.services.settings.token_lifetime_s)
    # A change of the password ends the logins there are; one that came just after it would outlive it.
    now = await context.services.users.user(user.name)
    if now is None or now.password_hash != user.password_hash:
        await context.sessions.revoke(digest_of(token))
        raise wrong_password()
    return {"user": user.name, "token": token, "admin": user.is_admin, "hasGitHubPAT": "githubPAT" in user.extension}


def wrong_password() -> Refused:
    """Return the error for a login that fails, the same for a user who does not exist: nobody learns names."""
    return Refused("IncorrectPasswordError", "the user name or the password is wrong")


async def welcome(accounts: AccountStore, person: Vouched, now_ms: int) -> User:
    """Return the user whom a provider vouches for, made the first time and brought up to date every time.

    Raises ConflictUserError where the name belongs to somebody else: accounts are never merged, since whoever may
    choose a name at the provider could take an account over.
    """
    groups = await all_groups(accounts)
    found = await accounts.user_of_subject(person.source, person.subject)
    if found is None:
        return await _first_time(accounts, person, groups, now_ms)
    try:
        return await accounts.change_user(found.name, lambda user: _refreshed(user, person, groups))
    except Refused as error:
        if error.code != "RemoveAdminError":
            raise
    # A platform without an administrator could not be mended, so the last one stays until there is another.
    admin = {group.external_name for group in found.groups if group.is_admin}
    still = replace(person, groups=person.groups | admin)
    return await accounts.change_user(found.name, lambda user: _refreshed(user, still, groups))


def _refreshed(user: User, person: Vouched, groups: Groups) -> User:
    email = _email_of(person) or user.email
    return replace(user, email=email, groups=vouched(groups, user.groups, person.groups))


def _email_of(person: Vouched) -> str:
    return person.email if _EMAIL.fullmatch(person.email) else ""


async def _first_time(accounts: AccountStore, person: Vouched, groups: Groups, now_ms: int) -> User:
    if not _NAME.fullmatch(person.name) or person.name in RESERVED:
        message = f"the identity provider calls somebody {person.name!r}, which is no user name here"
        raise Refused("ForbiddenUserError", message, "a user name has up to 128 letters, digits, dots, dashes or _")
    if not person.subject:
        raise Refused("ForbiddenUserError", "the identity provider did not say who this is")
    joined = vouched(groups, named(groups, ()), person.groups)
    user = User(
        person.name,
        "",
        now_ms,
        _email_of(person),
        joined,
        source=person.source,
        subject=person.subject,
    )
    try:
        await accounts.add_user(user)
    except Refused as error:
        same = await accounts.user_of_subject(person.source, person.subject)
        if error.code == "ConflictUserError" and same is not None:
            return same  # two logins at once; the other was faster
        if error.code == "ConflictUserError":
            error.advice = _NEVER_MERGED
        raise
    return user

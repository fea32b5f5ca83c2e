"""Letting people in: whoever proved who they are gets a token, and is a user from their first time on.

Proof is somebody else's business: a password compared here, or an identity provider that vouches for them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from openpai.api.context import Desk
from openpai.api.memberships import Groups, named, vouched
from openpai.api.shapes.exits import Document
from openpai.ports.accounts import AccountStore, User
from openpai.ports.identity import Vouched
from openpai.protocol.errors import Refused

USER_NAME: Final = r"^[\w.-]{1,128}$"
EMAIL_MAX: Final = 254
_NAME: Final = re.compile(r"[\w.-]{1,128}")


async def sign_in(desk: Desk, user: User, lifetime_s: int | None = None) -> Document:
    """Return OpenPAI's answer to a login that succeeded, with a new token of the user."""
    token = await desk.sessions.open(user.name, lifetime_s=lifetime_s or desk.services.settings.token_lifetime_s)
    return {"user": user.name, "token": token, "admin": user.is_admin, "hasGitHubPAT": "githubPAT" in user.extension}


async def welcome(accounts: AccountStore, person: Vouched, now_ms: int) -> User:
    """Return the user whom a provider vouches for, made the first time and brought up to date every time.

    Raises ConflictUserError where the name belongs to somebody else: accounts are never merged, since whoever may
    choose a name at the provider could take an account over.
    """
    groups = {group.name: group for group in await accounts.groups()}
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
    email = person.email[:EMAIL_MAX] or user.email
    return replace(user, email=email, groups=vouched(groups, user.groups, person.groups))


async def _first_time(accounts: AccountStore, person: Vouched, groups: Groups, now_ms: int) -> User:
    if not _NAME.fullmatch(person.name):
        told = f"the identity provider calls somebody {person.name!r}, which is no user name here"
        raise Refused("ForbiddenUserError", told, "a user name has up to 128 letters, digits, dots, dashes or _")
    if not person.subject:
        raise Refused("ForbiddenUserError", "the identity provider did not say who this is")
    joined = vouched(groups, named(groups, ()), person.groups)
    user = User(
        person.name,
        "",
        now_ms,
        person.email[:EMAIL_MAX],
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
            error.advice = "ask an administrator to rename or remove the other user; accounts are never merged"
        raise
    return user

"""Changes of accounts that end or refresh sessions: passwords, memberships, and logins that succeed."""

from __future__ import annotations

from fastapi import Request

from openpai.access.accounts import User, check_local
from openpai.access.memberships import UserChange
from openpai.api.client_address import address_of
from openpai.api.context import ApiContext, context_of
from openpai.api.sessions import digest_of
from openpai.orchestrator import accounts
from openpai.protocol.errors import Refused
from openpai.wire.tokens import Login


async def find_user(context: ApiContext, name: str) -> User:
    """Return a user; raise NoUserError."""
    return await accounts.find_user(context.services.users, name)


async def change_user(context: ApiContext, name: str, change: UserChange) -> None:
    """Change a user; the next request sees their new rights."""
    await accounts.change_user(context.services.users, name, change)
    context.sessions.forget(name)


async def check_password(request: Request, user: User, password: str) -> None:
    """Raise ForbiddenUserError unless this is the user's password; guesses are limited like those of logins."""
    check_local(user)
    context, address = context_of(request), address_of(request.scope)
    # Otherwise a user's unattended screen would be enough to take over the account.
    context.logins.begin(user.name, address)
    if not await context.passwords.matches(password, user.password_hash):
        raise Refused("ForbiddenUserError", "the old password is wrong")
    context.logins.succeeded(user.name, address)


async def change_password(context: ApiContext, user: User, password: str) -> None:
    """Change a password and end the user's logins; application tokens stay valid."""
    check_local(user)
    await context.services.users.set_password(user.name, await context.passwords.hash(password))
    context.sessions.forget(user.name)


async def sign_in(context: ApiContext, user: User, lifetime_s: int | None = None) -> Login:
    """Return OpenPAI's answer to a login that succeeded, with a new token of the user.

    Raises IncorrectPasswordError if the password was changed since it was compared.
    """
    token = await context.sessions.open(user.name, lifetime_s=lifetime_s or context.services.settings.token_lifetime_s)
    # A change of the password ends existing logins; one that begins just after it would survive.
    now = await context.services.users.user(user.name)
    if now is None or now.password_hash != user.password_hash:
        await context.sessions.revoke(digest_of(token))
        raise wrong_password()
    return login_answer(user, token)


def login_answer(user: User, token: str) -> Login:
    """Return OpenPAI's answer to a login."""
    return {"user": user.name, "token": token, "admin": user.is_admin, "hasGitHubPAT": "githubPAT" in user.extension}


def wrong_password() -> Refused:
    """Return the error for a failed login, which does not reveal whether the user exists."""
    return Refused("IncorrectPasswordError", "the user name or the password is wrong")

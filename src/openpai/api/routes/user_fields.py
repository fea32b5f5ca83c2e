"""Single fields of a user: groups, password, e-mail address, tokens. Most are for older clients."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Request
from pydantic import Field

from openpai.access.accounts import check_local
from openpai.access.memberships import UserChange, granting, joining, leaving
from openpai.access.model import Thing
from openpai.api.accounts import change_password, change_user, check_password, find_user
from openpai.api.answers import Accepted, Reply, accepted, reply
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routes.tokens import revoked
from openpai.api.routes.users import CHANGE, Email, Password
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import tokens as shapes
from openpai.identity.passwords import PASSWORD_MAX
from openpai.wire.tokens import Revoked, TokenList

_USER: Final = "/api/v2/users/{username}"
router = Router("users", {"/api/v2/users/{username}": "/api/v2/user/{username}"}, written=201)
ChangingOwn = Annotated[Caller, needs("user.change_own")]
Changing = Annotated[Caller, needs("user.change")]


class NewGroups(Body, example={"grouplist": ["team-vision"]}):
    """The new groups of a user."""

    grouplist: list[str]


class OneGroup(Body, example={"groupname": "team-vision"}):
    """A group to join or to leave."""

    groupname: str


class NewClusters(Body, example={"virtualCluster": ["vision"]}):
    """The virtual clusters to grant to a user."""

    virtualCluster: list[str]


class NewPassword(Body, example={"oldPassword": "correct horse", "newPassword": "battery staple"}):
    """A new password; changing one's own needs the old one."""

    newPassword: Password
    oldPassword: str = Field("", max_length=PASSWORD_MAX)


class NewEmail(Body, example={"email": "ann@example.org"}):
    """A new e-mail address."""

    email: Email


class NewRight(Body, example={"admin": True}):
    """Whether a user becomes an administrator."""

    admin: bool


class NewUserExtension(Body, example={"extension": {"theme": "dark"}}):
    """Keys to replace among the values that clients store with a user."""

    extension: dict[str, Any]


@router.serves(f"PUT {_USER}/grouplist", "Set a user's groups", CHANGE, takes=NewGroups)
async def set_user_groups(request: Request, caller: Changing, username: str) -> Accepted:
    """Put a user into exactly these groups, and the default group."""
    body = await read_body(request, NewGroups)
    return await _changed(request, username, UserChange(groups=body.grouplist))


@router.serves(f"PUT {_USER}/group", "Put a user into a group", CHANGE, takes=OneGroup)
async def join_group(request: Request, caller: Changing, username: str) -> Accepted:
    """Add a user to a group."""
    body = await read_body(request, OneGroup)
    user = await find_user(context_of(request), username)
    return await _changed(request, username, joining(user, body.groupname))


@router.serves(
    f"DELETE {_USER}/group", "Take a user out of a group", f"{CHANGE} ReadOnlyGroupError", status=201, takes=OneGroup
)
async def leave_group(request: Request, caller: Changing, username: str) -> Accepted:
    """Remove a user from a group."""
    body = await read_body(request, OneGroup)
    user = await find_user(context_of(request), username)
    return await _changed(request, username, leaving(user, body.groupname))


@router.serves(
    f"PUT {_USER}/virtualcluster", "Set a user's virtual clusters", CHANGE, takes=NewClusters, deprecated=True
)
async def set_user_virtual_clusters(request: Request, caller: Changing, username: str) -> Accepted:
    """Grant a user exactly these virtual clusters; administrators have all."""
    body = await read_body(request, NewClusters)
    user = await find_user(context_of(request), username)
    return await _changed(request, username, granting(user, body.virtualCluster))


@router.serves(f"PUT {_USER}/admin", "Make a user an administrator", CHANGE, takes=NewRight, deprecated=True)
async def set_user_admin(request: Request, caller: Changing, username: str) -> Accepted:
    """Make a user an administrator, or an ordinary user."""
    body = await read_body(request, NewRight)
    return await _changed(request, username, UserChange(is_admin=body.admin))


@router.serves(
    f"PUT {_USER}/extension", "Change values that clients store with a user", takes=NewUserExtension, deprecated=True
)
async def set_user_extension(request: Request, caller: ChangingOwn, username: str) -> Accepted:
    """Replace the given keys of the values that clients store with a user."""
    caller.check(Thing(owner=username, label=username))
    body = await read_body(request, NewUserExtension)
    return await _changed(request, username, UserChange(extension=body.extension))


@router.serves(f"PUT {_USER}/email", "Change an e-mail address", takes=NewEmail, deprecated=True)
async def set_user_email(request: Request, caller: ChangingOwn, username: str) -> Accepted:
    """Change an e-mail address."""
    caller.check(Thing(owner=username, label=username))
    body = await read_body(request, NewEmail)
    return await _changed(request, username, UserChange(email=body.email))


@router.serves(f"PUT {_USER}/password", "Change a password", takes=NewPassword)
async def set_user_password(request: Request, caller: ChangingOwn, username: str) -> Accepted:
    """Change a password: one's own with the old one, or as an administrator any. Ends the user's logins."""
    caller.check(Thing(owner=username, label=username))
    body = await read_body(request, NewPassword)
    context = context_of(request)
    user = await find_user(context, username)
    check_local(user)
    if username == caller.user:
        await check_password(request, user, body.oldPassword)
    await change_password(context, user, body.newPassword)
    return accepted(f"the password of {username} is changed", 201)


@router.serves(f"GET {_USER}/tokens", "List a user's tokens", tags=("tokens",))
async def list_user_tokens(
    request: Request, caller: Annotated[Caller, needs("user.tokens")], username: str
) -> Reply[TokenList]:
    """Return a user's logins and application tokens, by their ids."""
    caller.check(Thing(owner=username, label=username))
    context = context_of(request)
    user = await find_user(context, username)
    found = await context.sessions.live(user.name)
    details = [shapes.token(token, caller.token) for token in found]
    return reply({"tokens": [token.digest for token in found], "details": details})


@router.serves(f"DELETE {_USER}/tokens", "Revoke a user's tokens", tags=("tokens",))
async def revoke_user_tokens(
    request: Request, caller: Annotated[Caller, needs("user.sign_out")], username: str, browser: bool | None = None
) -> Reply[Revoked]:
    """Revoke a user's tokens: all, or with `browser` only their logins (true) or only those of applications (false)."""
    caller.check(Thing(owner=username, label=username))
    user = await find_user(context_of(request), username)
    return await revoked(request, user.name, browser)


async def _changed(request: Request, name: str, body: UserChange) -> Accepted:
    context = context_of(request)
    await find_user(context, name)
    await change_user(context, name, body)
    return accepted(f"update user {name} successfully", 201)

"""Users: oneself, and for administrators all users. Of other users one sees only the name."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Request
from pydantic import Field

from openpai.access.accounts import USER_NAME, User, check_local, is_reserved, own_fields
from openpai.access.memberships import UserChange, check_removable_user, new_user
from openpai.access.model import Thing
from openpai.api import accounts
from openpai.api.accounts import change_password, check_password, find_user
from openpai.api.answers import Accepted, Reply, accepted, reply
from openpai.api.bodies import Body, invalid, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import users as shapes
from openpai.identity.passwords import PASSWORD_MAX, PASSWORD_MIN
from openpai.orchestrator.accounts import all_groups
from openpai.protocol.errors import Refused
from openpai.wire import users as wire
from openpai.wire.users import PublicUser

router = Router("users", {"/api/v2/users": "/api/v2/user"}, written=201)
_FIELDS: Final = {
    "email": "email",
    "virtualCluster": "groups",
    "admin": "groups",
    "password": "password_hash",
    "extension": "extension",
}
"""Which field of a user a key of a change is kept in."""
CHANGE: Final = "NoGroupError NoVirtualClusterError RemoveAdminError ConflictGroupError"
Email = Annotated[str, Field(max_length=254, pattern=r"^([^\x00-\x20@]+@[^\x00-\x20@]+)?$")]
Password = Annotated[str, Field(min_length=PASSWORD_MIN, max_length=PASSWORD_MAX)]


class NewUser(Body, example={"username": "ann", "password": "correct horse"}):
    """A new user."""

    username: str = Field(pattern=USER_NAME)
    password: Password
    email: Email = ""
    admin: bool = False
    viewer: bool = False
    virtualCluster: list[str] = Field(default_factory=list)
    grouplist: list[str] = Field(default_factory=list)
    extension: dict[str, Any] = Field(default_factory=dict)


class UserData(Body):
    """The new state of a user."""

    username: str
    email: Email | None = None
    virtualCluster: list[str] | None = None
    admin: bool | None = None
    viewer: bool | None = None
    password: Password | None = None
    extension: dict[str, Any] | None = None


class ChangeUser(Body, example={"patch": True, "data": {"username": "ann", "email": "ann@example.org"}}):
    """A change of a user: all fields or, with `patch`, the given ones."""

    patch: bool = False
    data: UserData


class MyData(Body):
    """The new state of the caller's own account."""

    username: str
    email: Email | None = None
    newPassword: Password | None = None
    oldPassword: str | None = Field(None, max_length=PASSWORD_MAX)
    extension: dict[str, Any] | None = None


class ChangeMe(Body, example={"patch": True, "data": {"username": "ann", "email": "a@b.org"}}):
    """A change of the caller's own account; a new password needs the old one."""

    patch: bool = False
    data: MyData


@router.serves("GET /api/v2/users", "List users")
async def list_users(
    request: Request, caller: Annotated[Caller, needs("user.list")]
) -> Reply[list[wire.User | PublicUser]]:
    """Return every user: only the names of others, unless the caller is an administrator."""
    found = await context_of(request).services.users.users()
    groups = await context_of(request).services.users.groups()
    may_see = [caller.may(Thing(owner=user.name), "user.details") for user in found]
    return reply(
        [
            shapes.user(user, groups) if in_full else shapes.public_user(user)
            for user, in_full in zip(found, may_see, strict=True)
        ]
    )


@router.serves("GET /api/v2/users/me", "Show one's own account")
async def get_me(request: Request, caller: Annotated[Caller, needs("user.details")]) -> Reply[wire.User]:
    """Return the caller's own account."""
    return await _shown(request, caller, caller.user)


@router.serves("GET /api/v2/users/{username}", "Show a user", also="/api/v1/user/{username}")
async def get_user(
    request: Request, caller: Annotated[Caller, needs("user.read")], username: str
) -> Reply[wire.User | PublicUser]:
    """Return a user: all fields for administrators and the user, else only the name."""
    return await _shown(request, caller, username)


@router.serves(
    "POST /api/v2/users",
    "Add a user",
    "NoGroupError NoVirtualClusterError ConflictUserError ConflictGroupError",
    takes=NewUser,
)
async def create_user(request: Request, caller: Annotated[Caller, needs("user.add")]) -> Accepted:
    """Create a user."""
    body = await read_body(request, NewUser)
    if is_reserved(body.username):
        raise invalid(f"username: {body.username!r} is a word of the API; choose another name")
    context = context_of(request)
    groups = await all_groups(context.services.users)
    blank = User(body.username, "", context.services.clock.now_ms(), body.email, is_viewer=body.viewer)
    change = UserChange(
        is_admin=body.admin, virtual_clusters=body.virtualCluster, groups=body.grouplist, extension=body.extension
    )
    user = new_user(blank, change, groups)
    await context.services.users.add_user(replace(user, password_hash=await context.passwords.hash(body.password)))
    return accepted(f"User {body.username} is created successfully", 201)


@router.serves("PUT /api/v2/users", "Change a user", f"NoUserError {CHANGE}", takes=ChangeUser)
async def change_user(request: Request, caller: Annotated[Caller, needs("user.change")]) -> Accepted:
    """Change a user: all fields or, with `patch`, the given ones. A new password ends their logins."""
    body = await read_body(request, ChangeUser)
    data = body.data
    context = context_of(request)
    user = await find_user(context, data.username)
    if not body.patch:
        _check_complete(user, data)
    if data.password is not None:
        check_local(user)
    change = UserChange(
        email=data.email,
        is_admin=data.admin,
        is_viewer=data.viewer,
        virtual_clusters=data.virtualCluster,
        extension=data.extension,
    )
    await accounts.change_user(context, user.name, change)
    if data.password is not None:
        await change_password(context, user, data.password)
    return accepted(f"update user {user.name} successfully", 201)


@router.serves("PUT /api/v2/users/me", "Change one's own account", takes=ChangeMe)
async def change_me(request: Request, caller: Annotated[Caller, needs("user.change_own")]) -> Accepted:
    """Change the caller's own account; a new password needs the old one, and ends their logins."""
    body = await read_body(request, ChangeMe)
    data = body.data
    if data.username != caller.user:
        message = f"{caller.user} may not change {data.username} here"
        raise Refused("ForbiddenUserError", message, "administrators change others with PUT /api/v2/users")
    context = context_of(request)
    user = await find_user(context, caller.user)
    if data.newPassword is not None:
        if data.oldPassword is None:
            raise invalid("data.oldPassword: field required with newPassword")
        await check_password(request, user, data.oldPassword)
    await accounts.change_user(context, user.name, UserChange(email=data.email, extension=data.extension))
    if data.newPassword is not None:
        await change_password(context, user, data.newPassword)
    return accepted(f"update user {user.name} successfully", 201)


@router.serves("DELETE /api/v2/users/{username}", "Remove a user", "RemoveAdminError")
async def delete_user(request: Request, caller: Annotated[Caller, needs("user.remove")], username: str) -> Accepted:
    """Remove a user; an administrator cannot be removed."""
    context = context_of(request)
    user = await find_user(context, username)
    check_removable_user(user)
    await context.services.users.remove_user(username)
    context.sessions.forget(username)
    return accepted(f"user {username} is removed")


async def _shown(request: Request, caller: Caller, name: str) -> Reply[Any]:
    user = await find_user(context_of(request), name)
    if not caller.may(Thing(owner=user.name), "user.details"):
        return reply(shapes.public_user(user))
    return reply(shapes.user(user, await context_of(request).services.users.groups()))


def _check_complete(user: User, data: UserData) -> None:
    """Raise Refused for a missing field of what is kept here alone."""
    own = own_fields(user)
    lacking = [name for name, field in _FIELDS.items() if field in own and getattr(data, name) is None]
    if lacking:
        raise invalid(f"data.{lacking[0]}: is missing, unless patch is true")

"""People who may log in: oneself, and for administrators everybody."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from openpai.api.accounts import USER_NAME
from openpai.api.answers import reply
from openpai.api.bodies import Body, invalid, read_body, takes
from openpai.api.context import desk, doing
from openpai.api.passwords import PASSWORD_MAX, PASSWORD_MIN
from openpai.api.sessions import Caller
from openpai.api.shapes import users as shapes
from openpai.ports.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, User
from openpai.protocol.errors import Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER

router = APIRouter(tags=["users"])


class NewUser(Body):
    """A user to be."""

    username: str = Field(pattern=USER_NAME)
    password: str = Field(min_length=PASSWORD_MIN, max_length=PASSWORD_MAX)
    email: str = Field("", max_length=254, pattern=r"^[^\x00]*$")
    admin: bool = False
    virtualCluster: list[str] = Field(default_factory=list)  # noqa: N815
    extension: dict[str, str] = Field(default_factory=dict, max_length=0)


class NewPassword(Body):
    """A password to be; one's own is changed with the old one."""

    newPassword: str = Field(min_length=PASSWORD_MIN, max_length=PASSWORD_MAX)  # noqa: N815
    oldPassword: str = Field("", max_length=PASSWORD_MAX)  # noqa: N815


@router.get("/api/v2/users")
@router.get("/api/v2/user", include_in_schema=False)
async def users(request: Request, caller: Annotated[Caller, doing("user.list")]) -> Response:
    """Return every user; for administrators."""
    _check_admin(caller)
    return reply([shapes.user(user) for user in await desk(request).services.users.users()])


@router.get("/api/v2/users/me")
@router.get("/api/v2/user/me", include_in_schema=False)
async def me(request: Request, caller: Annotated[Caller, doing("user.read")]) -> Response:
    """Return oneself."""
    return reply(shapes.user(await _user(request, caller.user)))


@router.get("/api/v2/users/{username}")
@router.get("/api/v2/user/{username}", include_in_schema=False)
@router.get("/api/v1/user/{username}", include_in_schema=False)
async def one_user(request: Request, caller: Annotated[Caller, doing("user.read")], username: str) -> Response:
    """Return a user: oneself, or anybody for administrators."""
    if username != caller.user:
        _check_admin(caller)
    return reply(shapes.user(await _user(request, username)))


@router.post("/api/v2/users", status_code=201, openapi_extra=takes(NewUser))
@router.post("/api/v2/user", include_in_schema=False)
async def add_user(request: Request, caller: Annotated[Caller, doing("user.add")]) -> Response:
    """Let somebody in."""
    asked = await read_body(request, NewUser)
    unknown = [name for name in asked.virtualCluster if name != DEFAULT_VIRTUAL_CLUSTER]
    if unknown:
        raise invalid(f"there is no virtual cluster {unknown[0]!r}")
    here = desk(request)
    password_hash = await here.passwords.hash(asked.password)
    now_ms = here.services.clock.now_ms()
    groups = (Group(DEFAULT_GROUP), *((Group(ADMIN_GROUP),) if asked.admin else ()))
    await here.services.users.add_user(User(asked.username, password_hash, now_ms, asked.email, groups))
    return reply({"message": f"User {asked.username} is created successfully"}, 201)


@router.delete("/api/v2/users/{username}")
@router.delete("/api/v2/user/{username}", include_in_schema=False)
async def remove_user(request: Request, caller: Annotated[Caller, doing("user.remove")], username: str) -> Response:
    """Let a user in no more; an administrator cannot be removed."""
    here = desk(request)
    user = await _user(request, username)
    if user.is_admin:
        raise Refused("RemoveAdminError", f"{username} is an administrator", "administrators cannot be removed")
    await here.services.users.remove_user(username)
    here.sessions.forget(username)
    return reply({"message": f"user {username} is removed"})


@router.put("/api/v2/users/{username}/password", status_code=201, openapi_extra=takes(NewPassword))
@router.put("/api/v2/user/{username}/password", include_in_schema=False)
async def set_password(
    request: Request, caller: Annotated[Caller, doing("user.change_own")], username: str
) -> Response:
    """Change a password: one's own with the old one, anybody's for administrators. Ends that user's logins."""
    asked = await read_body(request, NewPassword)
    here = desk(request)
    if username != caller.user:
        _check_admin(caller)
    user = await _user(request, username)
    if username == caller.user:
        # An unattended screen must not be enough to take an account over, so this counts like a login.
        here.logins.begin(("password", username))
        if not await here.passwords.matches(asked.oldPassword, user.password_hash):
            raise Refused("ForbiddenUserError", "the old password is wrong")
        here.logins.succeeded(("password", username))
    await here.services.users.set_password(username, await here.passwords.hash(asked.newPassword))
    here.sessions.forget(username)
    return reply({"message": f"the password of {username} is changed"}, 201)


def _check_admin(caller: Caller) -> None:
    if not caller.is_admin:
        raise Refused("ForbiddenUserError", "only an administrator may do this", "ask an administrator")


async def _user(request: Request, name: str) -> User:
    user = await desk(request).services.users.user(name) if "\x00" not in name else None
    if user is None:
        raise Refused("NoUserError", f"there is no user named {name!r}")
    return user

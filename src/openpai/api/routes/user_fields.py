"""Single fields of a user: groups, password, e-mail address, tokens. Most are for older clients."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from openpai.access.accounts import DEFAULT_GROUP, check_local
from openpai.access.memberships import UserChange
from openpai.access.model import Thing
from openpai.api.accounts import change_password, change_user, check_password, find_user
from openpai.api.aliases import Aliased
from openpai.api.answers import accepted, reply
from openpai.api.bodies import Body, read_body, takes
from openpai.api.context import context_of, needs
from openpai.api.routes.users import Email, Password
from openpai.api.sessions import Caller
from openpai.api.shapes import tokens as shapes
from openpai.identity.passwords import PASSWORD_MAX
from openpai.protocol.errors import Refused
from openpai.wire.tokens import Revoked

router = APIRouter(tags=["users"])
_parts = Aliased(router, "/api/v2/users/{username}", "/api/v2/user/{username}")


class NewGroups(Body):
    """The new groups of a user."""

    grouplist: list[str]


class OneGroup(Body):
    """A group to join or to leave."""

    groupname: str


class NewClusters(Body):
    """The virtual clusters to grant to a user."""

    virtualCluster: list[str]  # noqa: N815


class NewPassword(Body):
    """A new password; changing one's own needs the old one."""

    newPassword: Password  # noqa: N815
    oldPassword: str = Field("", max_length=PASSWORD_MAX)  # noqa: N815


class NewEmail(Body):
    """A new e-mail address."""

    email: Email


class NewRight(Body):
    """Whether a user becomes an administrator."""

    admin: bool


class NewUserExtension(Body):
    """Keys to replace among the values that clients store with a user."""

    extension: dict[str, Any]


@_parts.put("/grouplist", status_code=201, openapi_extra=takes(NewGroups))
async def set_groups(request: Request, caller: Annotated[Caller, needs("user.change")], username: str) -> Response:
    """Put a user into exactly these groups, and the default group."""
    asked = await read_body(request, NewGroups)
    return await _changed(request, username, UserChange(groups=asked.grouplist))


@_parts.put("/group", status_code=201, openapi_extra=takes(OneGroup))
async def join_group(request: Request, caller: Annotated[Caller, needs("user.change")], username: str) -> Response:
    """Add a user to a group."""
    asked = await read_body(request, OneGroup)
    user = await find_user(context_of(request), username)
    return await _changed(request, username, UserChange(groups=[*(of.name for of in user.groups), asked.groupname]))


@_parts.delete("/group", status_code=201, openapi_extra=takes(OneGroup))
async def leave_group(request: Request, caller: Annotated[Caller, needs("user.change")], username: str) -> Response:
    """Remove a user from a group."""
    asked = await read_body(request, OneGroup)
    user = await find_user(context_of(request), username)
    if asked.groupname == DEFAULT_GROUP:
        message = f"every user is in group {DEFAULT_GROUP!r}"
        raise Refused("ReadOnlyGroupError", message, "change what the group grants instead")
    kept = [of.name for of in user.groups if of.name != asked.groupname]
    return await _changed(request, username, UserChange(groups=kept))


@_parts.put("/virtualcluster", status_code=201, openapi_extra=takes(NewClusters), deprecated=True)
async def set_clusters(request: Request, caller: Annotated[Caller, needs("user.change")], username: str) -> Response:
    """Grant a user exactly these virtual clusters; administrators have all."""
    asked = await read_body(request, NewClusters)
    user = await find_user(context_of(request), username)
    if user.is_admin:
        message = f"{username} is an administrator, and administrators may use every virtual cluster"
        raise Refused("ForbiddenUserError", message)
    return await _changed(request, username, UserChange(virtual_clusters=asked.virtualCluster))


@_parts.put("/admin", status_code=201, openapi_extra=takes(NewRight), deprecated=True)
async def set_admin(request: Request, caller: Annotated[Caller, needs("user.change")], username: str) -> Response:
    """Make a user an administrator, or an ordinary user."""
    asked = await read_body(request, NewRight)
    return await _changed(request, username, UserChange(is_admin=asked.admin))


@_parts.put("/extension", status_code=201, openapi_extra=takes(NewUserExtension), deprecated=True)
async def set_user_extension(
    request: Request, caller: Annotated[Caller, needs("user.change_own")], username: str
) -> Response:
    """Replace the given keys of the values that clients store with a user."""
    caller.check(Thing(owner=username, label=username))
    asked = await read_body(request, NewUserExtension)
    return await _changed(request, username, UserChange(extension=asked.extension))


@_parts.put("/email", status_code=201, openapi_extra=takes(NewEmail), deprecated=True)
async def set_email(request: Request, caller: Annotated[Caller, needs("user.change_own")], username: str) -> Response:
    """Change an e-mail address."""
    caller.check(Thing(owner=username, label=username))
    asked = await read_body(request, NewEmail)
    return await _changed(request, username, UserChange(email=asked.email))


@_parts.put("/password", status_code=201, openapi_extra=takes(NewPassword))
async def set_password(
    request: Request, caller: Annotated[Caller, needs("user.change_own")], username: str
) -> Response:
    """Change a password: one's own with the old one, or as an administrator any. Ends the user's logins."""
    caller.check(Thing(owner=username, label=username))
    asked = await read_body(request, NewPassword)
    context = context_of(request)
    user = await find_user(context, username)
    check_local(user)
    if username == caller.user:
        await check_password(request, user, asked.oldPassword)
    await change_password(context, user, asked.newPassword)
    return accepted(f"the password of {username} is changed", 201)


@_parts.get("/tokens", tags=["tokens"])
async def tokens_of(request: Request, caller: Annotated[Caller, needs("user.tokens")], username: str) -> Response:
    """Return a user's logins and application tokens, by their ids."""
    caller.check(Thing(owner=username, label=username))
    context = context_of(request)
    user = await find_user(context, username)
    found = await context.sessions.live(user.name)
    details = [shapes.token(token, caller.token) for token in found]
    return reply({"tokens": [token.digest for token in found], "details": details})


@_parts.delete("/tokens", tags=["tokens"])
async def revoke_all_of(
    request: Request,
    caller: Annotated[Caller, needs("user.sign_out")],
    username: str,
    browser: bool | None = None,
) -> Response:
    """Revoke a user's tokens: all, or with `browser` only their logins (true) or only those of applications (false)."""
    caller.check(Thing(owner=username, label=username))
    context = context_of(request)
    user = await find_user(context, username)
    count = await context.sessions.revoke_all(user.name, is_application=None if browser is None else not browser)
    revoked: Revoked = {"message": "revoke successfully", "revoked": count}
    return reply(revoked)


async def _changed(request: Request, name: str, body: UserChange) -> Response:
    context = context_of(request)
    await find_user(context, name)
    await change_user(context, name, body)
    return accepted(f"update user {name} successfully", 201)

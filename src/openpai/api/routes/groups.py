"""Groups: what they grant, and who is in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group
from openpai.access.memberships import no_group
from openpai.api.aliases import Aliased
from openpai.api.answers import accepted, reply
from openpai.api.bodies import Body, invalid, read_body, takes
from openpai.api.context import context_of, needs
from openpai.api.sessions import Caller
from openpai.api.shapes import groups as shapes
from openpai.api.shapes import users as user_shapes
from openpai.protocol.errors import Refused

router = APIRouter(tags=["groups"])
_groups = Aliased(router, "/api/v2/groups", "/api/v2/group")
GROUP_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"
Words = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]
ExternalName = Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*$")]


class NewGroup(Body):
    """A new group; what it grants is under `extension.acls`."""

    groupname: str = Field(pattern=GROUP_NAME)
    description: Words = ""
    externalName: ExternalName = ""  # noqa: N815
    extension: dict[str, Any] = Field(default_factory=dict)


class GroupData(Body):
    """The new state of a group."""

    groupname: str
    description: Words | None = None
    externalName: ExternalName | None = None  # noqa: N815
    extension: dict[str, Any] | None = None


class ChangeGroup(Body):
    """A change of a group: all of its fields or, with `patch`, the given ones."""

    patch: bool = False
    data: GroupData


class NewExtension(Body):
    """What a group grants, and other values that clients store with it."""

    extension: dict[str, Any]


class NewDescription(Body):
    """The purpose of a group."""

    description: Words


class NewExternalName(Body):
    """The name of a group at an identity provider."""

    externalName: ExternalName  # noqa: N815


class NewValue(Body):
    """One value of an extension."""

    data: Any


@_groups.get("")
async def groups(request: Request, caller: Annotated[Caller, needs("group.list")]) -> Response:
    """Return every group and what it grants."""
    return reply([shapes.group(group) for group in await context_of(request).services.users.groups()])


@_groups.get("/{groupname}")
async def one_group(request: Request, caller: Annotated[Caller, needs("group.list")], groupname: str) -> Response:
    """Return a group and what it grants."""
    return reply(shapes.group(await _group(request, groupname)))


@_groups.get("/{groupname}/userlist")
async def members(request: Request, caller: Annotated[Caller, needs("group.members")], groupname: str) -> Response:
    """Return the members of a group."""
    group = await _group(request, groupname)
    users = await context_of(request).services.users.users()
    found = [user for user in users if any(of.name == group.name for of in user.groups)]
    return reply([user_shapes.member(user) for user in found])


@_groups.post("", status_code=201, openapi_extra=takes(NewGroup))
async def add_group(request: Request, caller: Annotated[Caller, needs("group.change")]) -> Response:
    """Add a group."""
    asked = await read_body(request, NewGroup)
    group = shapes.with_extension(Group(asked.groupname, asked.description, asked.externalName), asked.extension)
    await context_of(request).services.users.add_group(group)
    return accepted("group is created successfully", 201)


@_groups.put("", status_code=201, openapi_extra=takes(ChangeGroup))
async def change_group(request: Request, caller: Annotated[Caller, needs("group.change")]) -> Response:
    """Change a group: all of its fields or, with `patch`, the given ones."""
    asked = await read_body(request, ChangeGroup)
    data = asked.data
    lacking = [name for name, value in data.model_dump().items() if value is None]
    if lacking and not asked.patch:
        raise invalid(f"data.{lacking[0]}: is missing, unless patch is true")

    def change(group: Group) -> Group:
        if data.description is not None:
            group = replace(group, description=data.description)
        if data.externalName is not None:
            group = replace(group, external_name=data.externalName)
        if data.extension is None:
            return group
        return (shapes.merged if asked.patch else shapes.with_extension)(group, data.extension)

    return await _changed(request, data.groupname, change)


@_groups.delete("/{groupname}")
async def remove_group(request: Request, caller: Annotated[Caller, needs("group.change")], groupname: str) -> Response:
    """Remove a group; its members keep their accounts."""
    if groupname in (DEFAULT_GROUP, ADMIN_GROUP):
        raise Refused("ReadOnlyGroupError", f"group {groupname!r} cannot be removed", "the platform needs it")
    context = context_of(request)
    await _group(request, groupname)
    await context.services.users.remove_group(groupname)
    context.sessions.forget_all()
    return accepted(f"group {groupname} is removed")


@_groups.put("/{groupname}/extension", status_code=201, openapi_extra=takes(NewExtension), deprecated=True)
async def set_extension(request: Request, caller: Annotated[Caller, needs("group.change")], groupname: str) -> Response:
    """Replace the given keys of a group's extension; `acls` is what it grants."""
    asked = await read_body(request, NewExtension)
    return await _changed(request, groupname, lambda group: shapes.merged(group, asked.extension))


@_groups.put("/{groupname}/extension/{path:path}", status_code=201, openapi_extra=takes(NewValue), deprecated=True)
async def set_value(
    request: Request, caller: Annotated[Caller, needs("group.change")], groupname: str, path: str
) -> Response:
    """Replace one value of a group's extension, such as that at `acls/virtualClusters`."""
    asked = await read_body(request, NewValue)
    keys = [key for key in path.split("/") if key]
    if not keys:
        raise invalid("path: name a key of the extension, such as acls/admin")
    return await _changed(request, groupname, lambda group: shapes.with_value(group, keys, asked.data))


@_groups.put("/{groupname}/description", status_code=201, openapi_extra=takes(NewDescription), deprecated=True)
async def set_description(
    request: Request, caller: Annotated[Caller, needs("group.change")], groupname: str
) -> Response:
    """Change the description of a group."""
    asked = await read_body(request, NewDescription)
    return await _changed(request, groupname, lambda group: replace(group, description=asked.description))


@_groups.put("/{groupname}/externalname", status_code=201, openapi_extra=takes(NewExternalName), deprecated=True)
async def set_external_name(
    request: Request, caller: Annotated[Caller, needs("group.change")], groupname: str
) -> Response:
    """Change the name of a group at an identity provider."""
    asked = await read_body(request, NewExternalName)
    return await _changed(request, groupname, lambda group: replace(group, external_name=asked.externalName))


async def _changed(request: Request, name: str, change: Any) -> Response:
    context = context_of(request)
    await _group(request, name)
    await context.services.users.change_group(name, change)
    # The rights of members follow from their groups, from the next request on.
    context.sessions.forget_all()
    return accepted(f"update group {name} successfully", 201)


async def _group(request: Request, name: str) -> Group:
    group = await context_of(request).services.users.group(name) if "\x00" not in name else None
    if group is None:
        raise no_group(name)
    return group

"""Groups: what they grant, and who is in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Request
from pydantic import Field

from openpai.access.accounts import Group
from openpai.access.memberships import check_removable_group
from openpai.api.answers import Accepted, Reply, accepted, reply
from openpai.api.bodies import Body, invalid, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import groups as shapes
from openpai.api.shapes import users as user_shapes
from openpai.orchestrator.accounts import find_group
from openpai.wire import groups as wire
from openpai.wire.groups import Member

_GROUP: Final = "/api/v2/groups/{groupname}"
router = Router("groups", {"/api/v2/groups": "/api/v2/group"}, written=201)
Changing = Annotated[Caller, needs("group.change")]
GROUP_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"
Words = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]
_ACLS: Final = "NoVirtualClusterError NoStorageError RemoveAdminError ReadOnlyGroupError"
_GRANTS: Final = {"acls": {"virtualClusters": ["vision"], "storageConfigs": ["datasets"]}}
ExternalName = Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*$")]


class NewGroup(Body, example={"groupname": "team-vision", "extension": _GRANTS}):
    """A new group; what it grants is under `extension.acls`."""

    groupname: str = Field(pattern=GROUP_NAME)
    description: Words = ""
    externalName: ExternalName = ""
    extension: dict[str, Any] = Field(default_factory=dict)


class GroupData(Body):
    """The new state of a group."""

    groupname: str
    description: Words | None = None
    externalName: ExternalName | None = None
    extension: dict[str, Any] | None = None


class ChangeGroup(Body, example={"patch": True, "data": {"groupname": "team-vision", "extension": _GRANTS}}):
    """A change of a group: all of its fields or, with `patch`, the given ones."""

    patch: bool = False
    data: GroupData


class NewExtension(Body, example={"extension": _GRANTS}):
    """What a group grants, and other values that clients store with it."""

    extension: dict[str, Any]


class NewDescription(Body, example={"description": "pictures"}):
    """The purpose of a group."""

    description: Words


class NewExternalName(Body, example={"externalName": "vision@example.org"}):
    """The name of a group at an identity provider."""

    externalName: ExternalName


class NewValue(Body, example={"data": ["vision"]}):
    """One value of an extension."""

    data: Any


@router.serves("GET /api/v2/groups", "List groups")
async def list_groups(request: Request, caller: Annotated[Caller, needs("group.list")]) -> Reply[list[wire.Group]]:
    """Return every group and what it grants."""
    return reply([shapes.group(group) for group in await context_of(request).services.users.groups()])


@router.serves(f"GET {_GROUP}", "Show a group")
async def get_group(
    request: Request, caller: Annotated[Caller, needs("group.list")], groupname: str
) -> Reply[wire.Group]:
    """Return a group and what it grants."""
    return reply(shapes.group(await _group(request, groupname)))


@router.serves(f"GET {_GROUP}/userlist", "List the members of a group")
async def list_members(
    request: Request, caller: Annotated[Caller, needs("group.members")], groupname: str
) -> Reply[list[Member]]:
    """Return the members of a group."""
    group = await _group(request, groupname)
    users = await context_of(request).services.users.users()
    found = [user for user in users if any(of.name == group.name for of in user.groups)]
    return reply([user_shapes.member(user) for user in found])


@router.serves("POST /api/v2/groups", "Add a group", f"{_ACLS} ConflictGroupError", takes=NewGroup)
async def create_group(request: Request, caller: Changing) -> Accepted:
    """Add a group."""
    body = await read_body(request, NewGroup)
    group = shapes.with_extension(Group(body.groupname, body.description, body.externalName), body.extension)
    await context_of(request).services.users.add_group(group)
    return accepted("group is created successfully", 201)


@router.serves("PUT /api/v2/groups", "Change a group", f"NoGroupError {_ACLS}", takes=ChangeGroup)
async def change_group(request: Request, caller: Changing) -> Accepted:
    """Change a group: all of its fields or, with `patch`, the given ones."""
    body = await read_body(request, ChangeGroup)
    data = body.data
    lacking = [name for name, value in data.model_dump().items() if value is None]
    if lacking and not body.patch:
        raise invalid(f"data.{lacking[0]}: is missing, unless patch is true")

    def change(group: Group) -> Group:
        if data.description is not None:
            group = replace(group, description=data.description)
        if data.externalName is not None:
            group = replace(group, external_name=data.externalName)
        if data.extension is None:
            return group
        return (shapes.merged if body.patch else shapes.with_extension)(group, data.extension)

    return await _changed(request, data.groupname, change)


@router.serves(f"DELETE {_GROUP}", "Remove a group", "ReadOnlyGroupError RemoveAdminError")
async def delete_group(request: Request, caller: Changing, groupname: str) -> Accepted:
    """Remove a group; its members keep their accounts."""
    check_removable_group(groupname)
    context = context_of(request)
    await _group(request, groupname)
    await context.services.users.remove_group(groupname)
    context.sessions.forget_all()
    return accepted(f"group {groupname} is removed")


@router.serves(f"PUT {_GROUP}/extension", "Change what a group grants", _ACLS, takes=NewExtension, deprecated=True)
async def set_group_extension(request: Request, caller: Changing, groupname: str) -> Accepted:
    """Replace the given keys of a group's extension; `acls` is what it grants."""
    body = await read_body(request, NewExtension)
    return await _changed(request, groupname, lambda group: shapes.merged(group, body.extension))


@router.serves(
    f"PUT {_GROUP}/extension/{{path:path}}",
    "Change one value of a group's extension",
    _ACLS,
    takes=NewValue,
    deprecated=True,
)
async def set_group_value(request: Request, caller: Changing, groupname: str, path: str) -> Accepted:
    """Replace one value of a group's extension, such as that at `acls/virtualClusters`."""
    body = await read_body(request, NewValue)
    keys = [key for key in path.split("/") if key]
    if not keys:
        raise invalid("path: name a key of the extension, such as acls/admin")
    return await _changed(request, groupname, lambda group: shapes.with_value(group, keys, body.data))


@router.serves(f"PUT {_GROUP}/description", "Change the description of a group", takes=NewDescription, deprecated=True)
async def set_group_description(request: Request, caller: Changing, groupname: str) -> Accepted:
    """Change the description of a group."""
    body = await read_body(request, NewDescription)
    return await _changed(request, groupname, lambda group: replace(group, description=body.description))


@router.serves(
    f"PUT {_GROUP}/externalname", "Change the name of a group at a provider", takes=NewExternalName, deprecated=True
)
async def set_group_external_name(request: Request, caller: Changing, groupname: str) -> Accepted:
    """Change the name of a group at an identity provider."""
    body = await read_body(request, NewExternalName)
    return await _changed(request, groupname, lambda group: replace(group, external_name=body.externalName))


async def _changed(request: Request, name: str, change: Any) -> Accepted:
    context = context_of(request)
    await _group(request, name)
    await context.services.users.change_group(name, change)
    # The rights of members follow from their groups, from the next request on.
    context.sessions.forget_all()
    return accepted(f"update group {name} successfully", 201)


async def _group(request: Request, name: str) -> Group:
    return await find_group(context_of(request).services.users, name)

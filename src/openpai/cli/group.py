"""`pai group`: users with the same rights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import completion, output, prompts, session
from openpai.cli.formatting import joined, split
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.cli.user import check_name
from openpai.protocol.errors import InvalidParameters, PaiError, Refused, Unavailable

if TYPE_CHECKING:
    from openpai.client import Client

COMMANDS: Final = {
    "list": ("openpai.cli.group:list_", "List groups and what they grant."),
    "show": ("openpai.cli.group:show", "Show a group: what it grants, and its members."),
    "add": ("openpai.cli.group:add", "Add a group."),
    "set": ("openpai.cli.group:set_", "Change what a group grants."),
    "remove": ("openpai.cli.group:remove", "Remove a group; its members lose what it granted."),
    "add-user": ("openpai.cli.group:add_user", "Add users to a group."),
    "remove-user": ("openpai.cli.group:remove_user", "Remove users from a group."),
}
app = group("Groups: users with the same rights.", COMMANDS)

Name = Annotated[str, argument("NAME", "Name of the group.", completion.groups)]
Users = Annotated[list[str], argument("USER", "Names of users.", completion.users)]
Description = Annotated[str | None, option("--description TEXT", "Purpose of the group.")]
External = Annotated[str | None, option("--external NAME", "Its name at the identity provider.")]
Clusters = Annotated[list[str] | None, option("--vc NAMES", "Virtual clusters it grants.", completion.virtual_clusters)]
Managed = Annotated[
    list[str] | None, option("--manage NAMES", "Virtual clusters its members manage.", completion.virtual_clusters)
]
Storages = Annotated[
    list[str] | None, option("--storage NAMES", "Storages it grants; the first is the default.", completion.storages)
]


def list_(json: output.Json = False) -> None:
    """List groups and what they grant."""
    with session.connect() as pai:
        found = pai.groups()
    if output.as_json(json, [one.document for one in found]):
        return
    rows = [
        (
            one.name,
            "yes" if one.is_admin else "",
            joined(one.virtual_clusters),
            joined(one.managed),
            joined(one.storages),
        )
        for one in found
    ]
    output.table(["GROUP", "ADMIN", "VCS", "MANAGES", "STORAGES"], rows, whole=["ADMIN"])
    output.next_step("pai group show NAME", "pai group add NAME --vc VC")


def show(name: Name, json: output.Json = False) -> None:
    """Show a group: what it grants, and its members.

    Members are shown to administrators.
    """
    with session.connect() as pai:
        found = pai.group(name)
        try:
            members: tuple[str, ...] | None = pai.members(name)
        except Refused as error:
            if error.status != 403:
                raise
            members = None
    if output.as_json(json, {**found.document, "members": members}):
        return
    known = {} if members is None else {"members": joined(members) or "none"}
    message = {
        "group": found.name,
        "description": found.description,
        "external name": found.external_name,
        "administrators": "all members" if found.is_admin else "",
        "virtual clusters": joined(found.virtual_clusters),
        "manages": joined(found.managed),
        "storages": joined(found.storages),
        **known,
    }
    output.facts(message.items())
    if members is None:
        output.next_step("pai group list")
        return
    output.next_step(f"pai group add-user {name} USER", f"pai group set {name} --vc NAMES")


def add(
    name: Name,
    description: Description = None,
    external: External = None,
    vc: Clusters = None,
    manage: Managed = None,
    storage: Storages = None,
    admin: Annotated[bool, option("--admin", "Make its members administrators.")] = False,
    json: output.Json = False,
) -> None:
    """Add a group."""
    check_name(name, "group")
    with session.connect() as pai:
        pai.add_group(
            name,
            description=description or "",
            external_name=external or "",
            is_admin=admin,
            virtual_clusters=split(vc),
            managed=split(manage),
            storages=split(storage),
        )
        _mention_unknown(pai, split(vc) + split(manage))
        found = pai.group(name).document if json else None
    output.done(json, found, f"Group {name} is added.", f"pai group add-user {name} USER", f"pai group show {name}")


def set_(
    name: Name,
    description: Description = None,
    external: External = None,
    vc: Clusters = None,
    manage: Managed = None,
    storage: Storages = None,
    admin: Annotated[bool | None, option("--admin/--no-admin", "Whether its members are administrators.")] = None,
    json: output.Json = False,
) -> None:
    """Change what a group grants.

    Options that are not given change nothing. A list replaces the whole list; an empty text clears it.
    """
    if all(value is None for value in (description, external, vc, manage, storage, admin)):
        raise InvalidParameters("no change given", "see pai group set --help")
    with session.connect() as pai:
        pai.change_group(
            name,
            description=description,
            external_name=external,
            is_admin=admin,
            virtual_clusters=None if vc is None else split(vc),
            managed=None if manage is None else split(manage),
            storages=None if storage is None else split(storage),
        )
        _mention_unknown(pai, split(vc) + split(manage))
        found = pai.group(name)
    message = f"Group {name} grants {joined(found.virtual_clusters) or 'no virtual cluster'}."
    output.done(json, found.document, message, f"pai group show {name}")


def remove(name: Name, yes: prompts.Yes = False, json: output.Json = False) -> None:
    """Remove a group; its members lose what it granted."""
    prompts.check_sure(f"Remove group {name}?", yes)
    with session.connect() as pai:
        pai.remove_group(name)
    output.done(json, {"group": name, "removed": True}, f"Group {name} is removed.", "pai group list")


def add_user(name: Name, users: Users, json: output.Json = False) -> None:
    """Add users to a group."""
    with session.connect() as pai:
        _each(users, lambda user: pai.add_member(name, user))
    _report(name, users, "in", json)


def remove_user(name: Name, users: Users, json: output.Json = False) -> None:
    """Remove users from a group."""
    with session.connect() as pai:
        # The server accepts a removal from a group that does not exist, so a misspelt name would go unnoticed.
        pai.group(name)
        _each(users, lambda user: pai.remove_member(name, user))
    _report(name, users, "no longer in", json)


def _mention_unknown(pai: Client, clusters: Sequence[str]) -> None:
    """Warn of virtual clusters that do not exist: they may be added later, or be misspelt."""
    if not clusters:
        return
    try:
        known = {vc.name for vc in pai.virtual_clusters()}
    except Unavailable:
        # The change is made; a list that cannot be read does not make it a failure.
        return
    for name in dict.fromkeys(clusters):
        if name not in known:
            output.warn(f"virtual cluster {name!r} does not exist yet")


def _each(users: list[str], change: Callable[[str], object]) -> None:
    for number, user in enumerate(users):
        try:
            change(user)
        except PaiError as error:
            if number:
                error.advice = f"{error.advice}; done before: {joined(users[:number])}"
            raise


def _report(name: str, users: list[str], where: str, json: bool) -> None:
    output.done(
        json, {"group": name, "users": users}, f"{joined(users)}: {where} group {name}.", f"pai group show {name}"
    )

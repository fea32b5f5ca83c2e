"""`pai user`: the accounts that may log in."""

from __future__ import annotations

import re
from typing import Annotated, Final

from openpai.cli import completion, output, prompts, session
from openpai.cli.formatting import joined, split
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters

COMMANDS: Final = {
    "list": ("openpai.cli.user:list_", "List users."),
    "show": ("openpai.cli.user:show", "Show a user; yourself without a name."),
    "add": ("openpai.cli.user:add", "Add a user."),
    "set": ("openpai.cli.user:set_", "Change the role and the grants of a user."),
    "password": ("openpai.cli.user:password", "Change a password; your own without a name."),
    "remove": ("openpai.cli.user:remove", "Remove a user."),
    "revoke": ("openpai.cli.user:revoke", "Revoke every login and token of a user."),
    "import": ("openpai.cli.user_import:import_", "Add the users in a CSV file."),
}
app = group("Users: accounts that may log in.", COMMANDS)

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
Name = Annotated[str, argument("NAME", "Name of the user.", completion.users)]
Email = Annotated[str | None, option("--email ADDRESS", "E-mail address.")]
Clusters = Annotated[
    list[str] | None, option("--vc NAMES", "Virtual clusters they may use.", completion.virtual_clusters)
]
Groups = Annotated[list[str] | None, option("--group NAMES", "Groups they are in.", completion.groups)]


def check_name(name: str, what: str) -> None:
    """Raise Refused for a name that no user or group can have, before a password is asked for."""
    if not _NAME.fullmatch(name):
        message = "use up to 128 ASCII letters, digits, _ . and -, and do not begin with . or -"
        raise InvalidParameters(f"{name!r} is not a {what} name", message)


def list_(json: output.Json = False) -> None:
    """List users."""
    with session.connect() as pai:
        found = pai.users()
    if output.as_json(json, [user.document for user in found]):
        return
    if all("admin" not in user.document for user in found):
        output.table(["USER"], [[user.name] for user in found])
        return
    rows = [
        (user.name, user.role, joined(user.groups), user.email) if "admin" in user.document else (user.name, "", "", "")
        for user in found
    ]
    output.table(["USER", "ROLE", "GROUPS", "E-MAIL"], rows, whole=["ROLE"])
    output.next_step("pai user show NAME", "pai user add NAME")


def show(
    name: Annotated[str | None, argument("NAME", "Name of the user.", completion.users)] = None,
    json: output.Json = False,
) -> None:
    """Show a user; yourself without a name."""
    with session.connect() as pai:
        user = pai.user_details(name or pai.user or pai.whoami())
    if output.as_json(json, user.document):
        return
    if "admin" not in user.document:
        output.say(f"{user.name} is a user; only they and administrators may see more.")
        return
    output.facts(
        [
            ("user", user.name),
            ("role", user.role),
            ("e-mail", user.email),
            ("groups", joined(user.groups)),
            ("virtual clusters", joined(user.virtual_clusters)),
            ("storages", joined(user.storages)),
        ]
    )


def add(
    name: Name,
    email: Email = None,
    admin: Annotated[bool, option("--admin", "Make them an administrator.")] = False,
    viewer: Annotated[bool, option("--viewer", "Make them a viewer, who may change nothing.")] = False,
    vc: Clusters = None,
    in_group: Groups = None,
    password_stdin: prompts.PasswordStdin = False,
    json: output.Json = False,
) -> None:
    """Add a user.

    The command asks for their password, or reads it from standard input.
    """
    check_name(name, "user")
    with session.connect() as pai:
        pai.add_user(
            name,
            prompts.new_secret(f"Password of {name}", password_stdin),
            email=email or "",
            is_admin=admin,
            is_viewer=viewer,
            virtual_clusters=split(vc),
            groups=split(in_group),
        )
        found = pai.user_details(name).document if json else None
    output.done(json, found, f"{name} may now log in.", f"pai user show {name}", f"pai login --user {name}")


def set_(
    name: Name,
    email: Email = None,
    admin: Annotated[bool | None, option("--admin/--no-admin", "Whether they are an administrator.")] = None,
    viewer: Annotated[
        bool | None, option("--viewer/--no-viewer", "Whether they are a viewer, who may change nothing.")
    ] = None,
    vc: Clusters = None,
    in_group: Groups = None,
    json: output.Json = False,
) -> None:
    """Change the role and the grants of a user.

    Options that are not given change nothing. --vc and --group replace the list; --group default removes all others.
    """
    if all(value is None for value in (email, admin, viewer, vc, in_group)):
        raise InvalidParameters("no change given", "see pai user set --help")
    with session.connect() as pai:
        if in_group is not None:
            pai.set_groups_of(name, split(in_group))
        clusters = None if vc is None else split(vc)
        if any(value is not None for value in (email, admin, viewer, clusters)):
            pai.change_user(name, email=email, is_admin=admin, is_viewer=viewer, virtual_clusters=clusters)
        user = pai.user_details(name)
    message = f"{name} is {'an' if user.is_admin else 'a'} {user.role} in {joined(user.groups) or 'no group'}."
    output.done(json, user.document, message, f"pai user show {name}")


def password(
    name: Annotated[str | None, argument("NAME", "Name of the user.", completion.users)] = None,
    password_stdin: Annotated[
        bool, option("--password-stdin", "Read the old password, if it is your own, and the new one.")
    ] = False,
    json: output.Json = False,
) -> None:
    """Change a password; your own without a name.

    The user's logins end; tokens of programs stay.
    """
    with session.connect() as pai:
        own = pai.whoami()
        who = name or own
        old = prompts.secret(f"Old password of {who}", password_stdin) if who == own else None
        pai.set_password(who, prompts.new_secret(f"New password of {who}", password_stdin), old)
    message = f"The password of {who} was changed; their logins have ended."
    output.done(json, {"user": who, "changed": True}, message, f"pai login --user {who}")


def remove(name: Name, yes: prompts.Yes = False, json: output.Json = False) -> None:
    """Remove a user.

    Their jobs stay, and reports still count what they used.
    """
    prompts.check_sure(f"Remove user {name}?", yes)
    with session.connect() as pai:
        pai.remove_user(name)
    output.done(json, {"user": name, "removed": True}, f"{name} is removed.", "pai user list")


def revoke(name: Name, yes: prompts.Yes = False, json: output.Json = False) -> None:
    """Revoke every login and token of a user.

    They can log in again; to prevent that, remove them or change their password.
    """
    prompts.check_sure(f"Revoke every login and token of {name}?", yes)
    with session.connect() as pai:
        count = pai.revoke_tokens_of(name)
    message, steps = f"{count} logins and tokens of {name} were revoked.", ("password", "remove")
    output.done(json, {"user": name, "revoked": count}, message, *(f"pai user {step} {name}" for step in steps))

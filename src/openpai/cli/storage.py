"""`pai storage`: named places for data, who may use them, and whether they work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import completion, output, prompts, session
from openpai.cli.exits import Exit
from openpai.cli.formatting import joined, split
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters

if TYPE_CHECKING:
    from openpai.client.model import StorageView

COMMANDS: Final = {
    "list": ("openpai.cli.storage:list_", "List the storages you may use."),
    "show": ("openpai.cli.storage:show", "Show the location of a storage, and who may use it."),
    "add": ("openpai.cli.storage:add", "Add a storage, or replace the definition of one."),
    "remove": ("openpai.cli.storage:remove", "Remove a storage and its grants; the data in it stays."),
    "grant": ("openpai.cli.storage:grant", "Let groups use a storage."),
    "revoke": ("openpai.cli.storage:revoke", "Stop groups from using a storage."),
    "test": ("openpai.cli.storage:check", "Test a storage: the server connects to it and tries it."),
    "ls": ("openpai.cli.storage_files:ls", "List what is in a storage."),
    "upload": ("openpai.cli.storage_files:upload", "Upload files and directories to a storage."),
    "download": ("openpai.cli.storage_files:download", "Download files and directories from a storage."),
    "rm": ("openpai.cli.storage_files:rm", "Remove files from a storage."),
}
app = group("Storages: named places for data.", COMMANDS)

# All other values are text, even a bucket named 2024.
_NUMBERS: Final = ("port",)
_SWITCHES: Final = ("useHttps",)
_MARK: Final = {True: "[green]works[/]", False: "[red]fails[/]"}

Name = Annotated[str, argument("NAME", "Name of the storage.", completion.storages)]
Groups = Annotated[list[str], argument("GROUP", "Names of groups.", completion.groups)]


def list_(
    default: Annotated[bool, option("--default", "Only the default storages of your groups.")] = False,
    json: output.Json = False,
) -> None:
    """List the storages you may use."""
    with session.connect() as pai:
        found = pai.storages(default=default)
    empty = "No storages: none is granted to a group of yours."
    if output.is_shown(json, [one.document for one in found], found, empty, "pai storage add --help"):
        return
    rows = [(one.name, one.type, _rights(one), "yes" if one.is_default else "", one.description) for one in found]
    output.table(("NAME", "TYPE", "RIGHTS", "DEFAULT", "DESCRIPTION"), rows, whole=("TYPE", "RIGHTS"))
    output.next_step(f"pai storage ls {found[0].name}")


def show(name: Name, json: output.Json = False) -> None:
    """Show the location of a storage, and who may use it."""
    with session.connect() as pai:
        found = pai.storage(name)
    _show(found, json)


def add(
    name: Name,
    type_: Annotated[str, argument("TYPE", "local, nfs, smb, claim, s3, azureBlob or webhdfs.")],
    data: Annotated[list[str] | None, argument("KEY=VALUE", "Location, such as path=/data or bucket=b.")] = None,
    secret: Annotated[list[str] | None, option("--secret KEY", "Key to ask for, such as secretAccessKey.")] = None,
    secret_stdin: Annotated[
        bool, option("--secret-stdin", "Read the secrets from standard input, one line for each.")
    ] = False,
    read_only: Annotated[
        bool | None, option("--read-only/--read-write", "Whether users may only read it.", show_default=False)
    ] = None,
    personal: Annotated[
        bool | None,
        option("--personal/--shared", "Whether each user sees only a folder of their own.", show_default=False),
    ] = None,
    description: Annotated[str | None, option("--description TEXT", "Purpose of the storage.")] = None,
    grant: Annotated[list[str] | None, option("--group NAMES", "Groups that may use it.")] = None,
    replace: Annotated[bool, option("--replace", "Replace the definition of an existing storage.")] = False,
    json: output.Json = False,
) -> None:
    """Add a storage, or replace the definition of one; the server encrypts secrets and never shows them.

    With --replace, rights and description that are not given stay as they are.
    This does not connect to the storage; `pai storage test` does.
    """
    values = _values(data or [])
    values |= {key: prompts.secret(key, secret_stdin, option="--secret-stdin") for key in split(secret)}
    with session.connect() as pai:
        if replace:
            before = pai.storage(name)
            read_only = before.is_read_only if read_only is None else read_only
            personal = not before.is_shared if personal is None else personal
            description = before.description if description is None else description
        save = pai.change_storage if replace else pai.add_storage
        found = save(name, type_, values, read_only=bool(read_only), share=not personal, description=description or "")
        for each in split(grant):
            pai.grant_storage(name, each)
        if grant:
            found = pai.storage(name)
    _show(found, json, f"pai storage test {name}", f"pai storage grant {name} GROUP")


def remove(name: Name, yes: prompts.Yes = False, json: output.Json = False) -> None:
    """Remove a storage and its grants; the data in it stays."""
    prompts.check_sure(f"Remove storage {name}?", yes)
    with session.connect() as pai:
        pai.remove_storage(name)
    output.done(
        json, {"name": name, "removed": True}, f"{name} is removed; its data stays where it is.", "pai storage list"
    )


def grant(
    name: Name,
    groups: Groups,
    default: Annotated[bool, option("--default", "Make it the default storage of these groups.")] = False,
    json: output.Json = False,
) -> None:
    """Let groups use a storage. The first storage of a group is its default one."""
    with session.connect() as pai:
        for each in groups:
            pai.grant_storage(name, each, default=default)
        found = pai.storage(name)
    _show(found, json, f"pai storage ls {name}")


def revoke(name: Name, groups: Groups, json: output.Json = False) -> None:
    """Stop groups from using a storage; running jobs keep it."""
    with session.connect() as pai:
        for each in groups:
            pai.revoke_storage(name, each)
        found = pai.storage(name)
    _show(found, json, "pai storage list")


def check(name: Name, json: output.Json = False) -> int:
    """Test a storage: the server connects, lists it, and unless it is read-only writes, reads and removes a small file.

    The exit code is 0 if every step worked.
    """
    with session.connect() as pai:
        found = pai.check_storage(name)
    code = Exit.OK if found.is_ok else Exit.UNAVAILABLE
    if json:
        output.document(found.document)
        return code
    rows = [(_MARK[step.is_ok], step.step, step.message) for step in found.steps]
    output.table(("", "STEP", "MESSAGE"), rows, markup=("",))
    if found.is_ok:
        output.next_step(f"pai storage grant {name} GROUP", f"pai storage ls {name}")
    else:
        output.next_step(f"pai storage show {name}", f"pai storage add {name} TYPE KEY=VALUE... --replace")
    return code


def _values(given: list[str]) -> dict[str, str | int | bool]:
    values: dict[str, str | int | bool] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidParameters(f"{pair!r} is not KEY=VALUE", "write path=/data, or server=nas path=/export")
        values[key] = value
        if key in _NUMBERS and value.isdecimal():
            values[key] = int(value)
        if key in _SWITCHES and value in ("true", "false"):
            values[key] = value == "true"
    return values


def _rights(one: StorageView) -> str:
    return f"{'read' if one.is_read_only else 'read, write'}{'' if one.is_shared else ', own folder'}"


def _show(one: StorageView, is_json: bool, *steps: str) -> None:
    if output.as_json(is_json, one.document):
        return
    pairs = [("name", one.name), ("type", one.type), ("rights", _rights(one)), ("description", one.description)]
    pairs += [(key, str(value)) for key, value in one.data.items()]
    pairs += [("credentials", "kept encrypted" if one.has_credentials else ""), ("groups", joined(one.groups))]
    pairs += [("default", "yes" if one.is_default else "")]
    output.facts(pairs)
    output.next_step(*(steps or (f"pai storage ls {one.name}",)))

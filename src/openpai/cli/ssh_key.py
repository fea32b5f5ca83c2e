"""`pai ssh-key`: the public SSH keys of your profile, with which you log in at the SSH gateway."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import output, prompts, session
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import SshKey

COMMANDS: Final = {
    "list": ("openpai.cli.ssh_key:list_", "List your public SSH keys."),
    "add": ("openpai.cli.ssh_key:add", "Add a public SSH key to your profile."),
    "remove": ("openpai.cli.ssh_key:remove", "Remove an SSH key from your profile."),
}
app = group("SSH keys: the public keys of your profile.", COMMANDS)
Of = Annotated[str | None, option("--user USER", "Another user; for administrators.")]
_FILE_MAX: Final = 64 * 1024
_COMMON: Final = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")


def list_(user: Of = None, json: output.Json = False) -> None:
    """List your public SSH keys."""
    with session.connect() as pai:
        found = pai.ssh_keys(user or pai.whoami())
    if output.as_json(json, [key.document for key in found]):
        return
    from openpai.cli.formatting import ago

    now_ms = int(time.time() * 1000)
    rows = [
        (
            key.title,
            key.type,
            str(key.bits),
            key.fingerprint,
            "" if key.added_at_ms is None else ago(key.added_at_ms, now_ms),
        )
        for key in found
    ]
    output.table(["TITLE", "TYPE", "BITS", "FINGERPRINT", "ADDED"], rows, right=["BITS"], whole=["FINGERPRINT"])
    output.next_step("pai ssh-key add FILE.pub", "pai job ssh JOB --show")


def add(
    file: Annotated[
        Path | None,
        argument("FILE", "The public key, such as ~/.ssh/id_ed25519.pub [default: the first one there]; - reads it."),
    ] = None,
    title: Annotated[str, option("--title TITLE", "Its title [default: its comment].")] = "",
    user: Of = None,
    json: output.Json = False,
) -> None:
    """Add a public SSH key to your profile.

    Ed25519, ECDSA, and RSA of 2048 bits or more are accepted.
    """
    text = _text(file)
    with session.connect() as pai:
        key = pai.add_ssh_key(user or pai.whoami(), text, title)
    output.done(json, key.document, f"Added the key {key.title} ({key.fingerprint}).", "pai job ssh JOB --show")


def remove(
    name: Annotated[str, argument("KEY", "Its fingerprint or its title.")],
    user: Of = None,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> None:
    """Remove an SSH key from your profile; what it has open through the gateway ends."""
    with session.connect() as pai:
        whose = user or pai.whoami()
        key = _named(pai, whose, name)
        prompts.check_sure(f"Remove the key {key.title} ({key.fingerprint})?", yes)
        pai.remove_ssh_key(whose, key.id)
    output.done(json, key.document, f"Removed the key {key.title} ({key.fingerprint}).", "pai ssh-key list")


def _named(pai: Client, user: str, name: str) -> SshKey:
    known = pai.ssh_keys(user)
    found = [key for key in known if name and name in (key.fingerprint, key.fingerprint[7:], key.id, key.title)]
    if not found:
        raise Refused("NoSshKeyError", f"there is no SSH key {name!r}", "`pai ssh-key list` shows them")
    if len(found) > 1:
        raise InvalidParameters(f"{len(found)} SSH keys are named {name!r}", "give the fingerprint of one")
    return found[0]


def _text(file: Path | None) -> str:
    if file is None:
        places = [Path("~/.ssh").expanduser() / name for name in _COMMON]
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            raise InvalidParameters("there is no public key in ~/.ssh", "make one with `ssh-keygen -t ed25519`")
    if str(file) == "-":
        return sys.stdin.read(_FILE_MAX)
    try:
        with file.expanduser().open("r", encoding="utf-8", errors="replace") as opened:
            return opened.read(_FILE_MAX)
    except OSError as error:
        raise InvalidParameters(
            f"{file} cannot be read: {error.strerror}", "give the file that ends in .pub"
        ) from error

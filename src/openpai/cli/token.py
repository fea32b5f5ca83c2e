"""`pai token`: one's own logins, and tokens for programs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from openpai.cli import completing, output, prompts, session
from openpai.cli.durations import FORMS, whole_seconds
from openpai.cli.lazy import group
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client import Client

COMMANDS: Final = {
    "list": ("openpai.cli.token:list_", "List your own logins and tokens."),
    "create": ("openpai.cli.token:create", "Make a token for a program, and print it."),
    "revoke": ("openpai.cli.token:revoke", "Revoke tokens of yours."),
}
app = group("Your logins, and tokens for programs.", COMMANDS)

ID_SHOWN: Final = 12


def list_(json: output.Json = False) -> None:
    """List your own logins and tokens."""
    with session.connect() as pai:
        found = pai.tokens()
    if json:
        output.document([token.document for token in found])
        return
    from openpai.cli.listing import listing
    from openpai.cli.words import ago, clock_time

    now_ms = int(time.time() * 1000)
    rows = [
        (
            token.id[:ID_SHOWN],
            "program" if token.is_application else "this login" if token.is_current else "login",
            token.name,
            token.scope,
            ago(token.created_at_ms, now_ms),
            "never" if token.expires_at_ms is None else clock_time(token.expires_at_ms),
        )
        for token in found
    ]
    output.say(listing(["ID", "KIND", "NAME", "SCOPE", "MADE", "EXPIRES"], rows, whole=["ID", "KIND", "MADE"]))
    output.next_step("pai token create --name NAME --scope read", "pai token revoke ID")


def create(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What you call it.")] = "",
    scope: Annotated[
        str, typer.Option("--scope", metavar="SCOPE", help="all, jobs (jobs and storages) or read.")
    ] = "all",
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help=f"After {FORMS}; never by default.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Make a token for a program, and print it.

    It is printed this once and kept nowhere in clear. A program uses it as PAI_TOKEN.
    """
    expires_s = None if expires is None else whole_seconds(expires, "--expires")
    with session.connect() as pai:
        made = pai.new_token(name=name, scope=scope, expiration_s=expires_s)
    if json:
        output.document(made.document)
        return
    sys.stdout.write(made.token + "\n")
    output.aside("Keep it safe: it is not shown again. Revoke it with `pai token revoke`.")


def revoke(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Tokens, by the beginning of their ids or by themselves.",
            autocompletion=completing.tokens,
        ),
    ] = None,
    logins: Annotated[bool, typer.Option("--logins", help="All logins, this one too.")] = False,
    programs: Annotated[bool, typer.Option("--programs", help="All tokens of programs.")] = False,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> None:
    """Revoke tokens of yours."""
    if not ids and not logins and not programs:
        raise Refused(
            "InvalidParametersError", "no token given", "name ids of `pai token list`, --logins or --programs"
        )
    if logins or programs:
        kinds = " and ".join(["logins"] * logins + ["tokens of programs"] * programs)
        prompts.check_sure(f"Revoke all your {kinds}?", yes)
    with session.connect() as pai:
        for token in _whole(pai, ids or []):
            pai.revoke_token(token)
        count = len(ids or [])
        # Logins come last: without one there is nothing more to revoke with.
        count += pai.revoke_tokens(logins=False) if programs else 0
        count += pai.revoke_tokens(logins=True) if logins else 0
    if json:
        output.document({"revoked": count})
        return
    output.say("1 token is revoked." if count == 1 else f"{count} tokens are revoked.")
    output.next_step("pai login" if logins else "pai token list")


def _whole(pai: Client, given: list[str]) -> list[str]:
    known = [token.id for token in pai.tokens()] if given else []
    tokens = []
    for one in given:
        if not one:
            raise Refused("InvalidParametersError", "an empty text names no token", "name ids of `pai token list`")
        meant = [id_ for id_ in known if id_.startswith(one)]
        if len(meant) > 1:
            raise Refused("InvalidParametersError", f"{one} begins {len(meant)} ids", "write more of the id")
        # What begins no id may be a token itself; the server knows.
        tokens.append(meant[0] if meant else one)
    return tokens

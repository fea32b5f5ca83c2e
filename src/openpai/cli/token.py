"""`pai token`: the user's own logins, and tokens for programs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import completion, output, prompts, session
from openpai.cli.durations import FORMS, whole_seconds
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters

if TYPE_CHECKING:
    from openpai.client import Client

COMMANDS: Final = {
    "list": ("openpai.cli.token:list_", "List your own logins and tokens."),
    "create": ("openpai.cli.token:create", "Create a token for a program, and print it."),
    "revoke": ("openpai.cli.token:revoke", "Revoke tokens of your own."),
}
app = group("Tokens: your logins, and tokens for programs.", COMMANDS)

ID_SHOWN: Final = 12


def list_(json: output.Json = False) -> None:
    """List your own logins and tokens."""
    with session.connect() as pai:
        found = pai.tokens()
    if output.as_json(json, [token.document for token in found]):
        return
    from openpai.cli.formatting import ago, clock_time

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
    output.table(["ID", "KIND", "NAME", "SCOPE", "CREATED", "EXPIRES"], rows, whole=["ID", "KIND", "CREATED"])
    output.next_step("pai token create --name NAME --scope read", "pai token revoke ID")


def create(
    name: Annotated[str, option("--name NAME", "Name of the token.")] = "",
    scope: Annotated[str, option("--scope SCOPE", "all, jobs (jobs and storages) or read.")] = "all",
    expires: Annotated[
        str | None, option("--expires TIME", f"Time until it expires: {FORMS} [default: never].")
    ] = None,
    json: output.Json = False,
) -> None:
    """Create a token for a program, and print it.

    It is printed once and not stored in clear text. A program uses it as PAI_TOKEN.
    """
    expires_s = None if expires is None else whole_seconds(expires, "--expires")
    with session.connect() as pai:
        made = pai.new_token(name=name, scope=scope, expiration_s=expires_s)
    if output.as_json(json, made.document):
        return
    sys.stdout.write(made.token + "\n")
    output.aside("Keep it secret: it is not shown again. Revoke it with `pai token revoke`.")


def revoke(
    ids: Annotated[
        list[str] | None, argument("ID", "The beginning of an id, or the token itself.", completion.tokens)
    ] = None,
    logins: Annotated[bool, option("--logins", "All logins, including this one.")] = False,
    programs: Annotated[bool, option("--programs", "All tokens of programs.")] = False,
    yes: prompts.Yes = False,
    json: output.Json = False,
) -> None:
    """Revoke tokens of your own."""
    if not ids and not logins and not programs:
        raise InvalidParameters("no token given", "give ids from `pai token list`, --logins or --programs")
    if logins or programs:
        kinds = " and ".join(["logins"] * logins + ["tokens of programs"] * programs)
        prompts.check_sure(f"Revoke all your {kinds}?", yes)
    with session.connect() as pai:
        for token in _whole(pai, ids or []):
            pai.revoke_token(token)
        count = len(ids or [])
        # Logins come last: this command needs its own.
        count += pai.revoke_tokens(logins=False) if programs else 0
        count += pai.revoke_tokens(logins=True) if logins else 0
    message = "1 token was revoked." if count == 1 else f"{count} tokens were revoked."
    output.done(json, {"revoked": count}, message, "pai login" if logins else "pai token list")


def _whole(pai: Client, given: list[str]) -> list[str]:
    known = [token.id for token in pai.tokens()] if given else []
    tokens = []
    for one in given:
        if not one:
            raise InvalidParameters("an empty text is not a token id", "give ids from `pai token list`")
        meant = [id_ for id_ in known if id_.startswith(one)]
        if len(meant) > 1:
            raise InvalidParameters(f"{one} is the beginning of {len(meant)} ids", "give more of the id")
        # Anything else may be a token itself; the server checks.
        tokens.append(meant[0] if meant else one)
    return tokens

"""`pai login` and `pai logout`: get a token from a server and save it; revoke it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from openpai.cli import output, prompts, session
from openpai.cli.options import option
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import Login


def _asked_user(address: str, from_stdin: bool) -> str:
    if from_stdin or not sys.stdin.isatty():
        raise InvalidParameters("no user given", "name the user with --user NAME")
    return str(typer.prompt(f"User at {address}", err=True))


def _signed_on(pai: Client, *, has_browser: bool) -> Login:
    from openpai.cli.sign_on import code_from_page

    if pai.info().get("authnMethod") != "OIDC":
        raise InvalidParameters("this platform has no single sign-on", "log in with `pai login --user NAME`")
    return pai.redeem(*code_from_page(pai.url, has_browser=has_browser))


def _of_token(address: str) -> Login:
    from openpai.client import Client
    from openpai.client.model import Login

    token = prompts.secret(f"Token for {address}", from_stdin=True)
    with Client(address, token) as pai:
        found = pai.check()
    return Login.read({"user": found.user, "token": token, "admin": found.is_admin})


def login(
    url: Annotated[str | None, option("--url URL", "Server, as in http://host:9186.")] = None,
    user: Annotated[str | None, option("--user -u NAME", "Your user name there.")] = None,
    password_stdin: prompts.PasswordStdin = False,
    token_stdin: Annotated[
        bool, option("--token-stdin", "Read a token from standard input and log in with that.")
    ] = False,
    sso: Annotated[bool, option("--sso", "Log in by single sign-on, in the browser.")] = False,
    no_browser: Annotated[
        bool, option("--no-browser", "With --sso: print the page's address instead of opening it.")
    ] = False,
    json: output.Json = False,
) -> None:
    """Log in at a server; later commands use it."""
    from openpai.client import Client
    from openpai.client import credentials as kept

    address = kept.load(url or session.chosen_url()).url
    session.use(address)
    with Client(address) as pai:
        if sso:
            entry = _signed_on(pai, has_browser=not no_browser)
        elif token_stdin:
            entry = _of_token(address)
        else:
            user = user or _asked_user(address, password_stdin)
            entry = pai.login(user, prompts.secret(f"Password of {user} at {address}", password_stdin))
    path = kept.save(kept.Credentials(address, entry.user, entry.token))
    if json:
        answer = {"url": address, "user": entry.user, "admin": entry.is_admin, "credentials": str(path)}
        output.document(answer)
        return
    rank = ", an administrator" if entry.is_admin else ""
    output.say_marked_up(f"Logged in at {address} as [bold]{entry.user}[/]{rank}.")
    output.next_step("pai job submit FILE --watch", "pai node list")


def logout(json: output.Json = False) -> None:
    """Log out: revoke the saved token of a server."""
    from openpai.client import Client
    from openpai.client import credentials as kept

    found = kept.load(session.chosen_url())
    was_revoked = False
    if found.token is not None:
        with Client(found.url, found.token, user=found.user) as pai:
            try:
                pai.logout()
                was_revoked = True
            except Refused as error:
                # An invalid token needs no revocation.
                if error.status != 401:
                    raise
    kept.forget(found.url)
    message = f"Logged out at {found.url}." if found.token else f"You were not logged in at {found.url}."
    output.done(json, {"url": found.url, "revoked": was_revoked}, message)

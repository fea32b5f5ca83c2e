"""Questions to a person: passwords, never echoed and never on the command line, and confirmations.

Programs answer with `--password-stdin`, one line for each, and with `--yes`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from openpai.cli.exits import Exit
from openpai.cli.options import option
from openpai.cli.output import aside
from openpai.protocol.errors import InvalidParameters

PasswordStdin = Annotated[bool, option("--password-stdin", "Read the password from standard input.")]
Yes = Annotated[bool, option("--yes -y", "Do not ask for confirmation.")]


def secret(what: str, from_stdin: bool, *, option: str = "--password-stdin") -> str:
    """Return a secret: the next line of standard input, or what a person types without echo."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    _need_terminal(what, f"pipe it in with {option}")
    return str(typer.prompt(what, hide_input=True, err=True))


def new_secret(what: str, from_stdin: bool) -> str:
    """Return a new secret, which a person types twice."""
    if from_stdin:
        return secret(what, from_stdin)
    _need_terminal(what, "pipe it in with --password-stdin")
    return str(typer.prompt(what, hide_input=True, confirmation_prompt="Once more", err=True))


def check_sure(question: str, yes: bool, *, is_wide: bool = False) -> None:
    """Ask for confirmation, and end the command without it; a program must give --yes for a wide change."""
    if yes:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        if not typer.confirm(question, err=True):
            aside("nothing was done")
            raise typer.Exit(Exit.REFUSED)
    elif is_wide:
        raise InvalidParameters(f"no terminal to ask on: {question}", "give --yes to confirm")


def _need_terminal(what: str, advice: str) -> None:
    if not sys.stdin.isatty():
        raise InvalidParameters(f"no terminal to ask on: {what}", advice)

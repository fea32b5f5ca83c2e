"""The two voices of the terminal: tables and hints for people, or JSON for programs, never both on one stream.

With `--json` standard output carries nothing but JSON: one document, or one per line where a command streams. An
error is a document as well, the same that the API answers with, so that a program finds it where it looks.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openpai.protocol.errors import PaiError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@cache
def console() -> Console:
    """Return the terminal that tables are drawn on."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


@cache
def error_console() -> Console:
    """Return the terminal that errors and asides go to."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def document(value: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def json_line(value: Any) -> None:
    """Print one JSON document on one line, at once: part of a stream."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()


def say(what: RenderableType = "") -> None:
    """Print something for a person; text may hold Rich markup."""
    console().print(what, soft_wrap=isinstance(what, str))


def next_step(*commands: str) -> None:
    """Tell a person what to do next."""
    from rich.markup import escape

    for number, command in enumerate(commands):
        console().print(f"[dim]{'next:' if number == 0 else '     '}[/] {escape(command)}", soft_wrap=True)


def aside(text: str) -> None:
    """Say something that belongs to neither table nor JSON, on standard error."""
    error_console().print(text, style="dim", markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Say what was understood but may not be what its author expects, on standard error."""
    error_console().print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)


def complain(error: PaiError) -> None:
    """Tell an error: what and which in red, then what to do about it."""
    error_console().print(error.message, style="red", markup=False, soft_wrap=True)
    if error.advice:
        error_console().print(error.advice, markup=False, soft_wrap=True)

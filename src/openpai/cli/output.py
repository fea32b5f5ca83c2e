"""The output of commands: tables and hints for people, or JSON for programs, never both on one stream.

With `--json` standard output carries nothing but JSON: one document, or one per line where a command streams. An
error is a document as well, the same as the API returns.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.cli.options import option
from openpai.protocol.errors import PaiError
from openpai.protocol.wording import harmless, harmless_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

TABLE_WIDTH: Final = 80
# A command for a job whose name looks like an option.
_OPTION_LIKE: Final = re.compile(r"^(pai (?:job|sweep) (?!list )\S+) (-\S+)(.*)")
# The characters of bars for terminals that have only ASCII.
IN_ASCII: Final = {"█": "#", "▒": "%", "◧": "o", "·": ".", "×": "x"}
Json = Annotated[bool, option("--json", "Print JSON and nothing else.")]


def replace_unencodable_text() -> None:
    """Make standard output and standard error replace characters that their encoding lacks, instead of failing."""
    codecs.register_error("openpai", _replacement)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="openpai")


def _replacement(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(IN_ASCII.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


@cache
def console() -> Console:
    """Return the console of standard output."""
    return _console()


@cache
def error_console() -> Console:
    """Return the console of standard error."""
    return _console(stderr=True)


def _console(**how: Any) -> Console:
    from rich.console import Console

    return Console(highlight=False, emoji=False, **how)


def document(value: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(_json(value, indent=2) + "\n")


def json_line(value: Any) -> None:
    """Print one JSON document on one line, at once: part of a stream."""
    sys.stdout.write(_json(value) + "\n")
    sys.stdout.flush()


def _json(value: Any, indent: int | None = None) -> str:
    # JSON can escape every character that the stream's encoding lacks.
    is_utf = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    # JSON escapes only the control characters of ASCII; a terminal obeys others as well.
    return harmless_json(json.dumps(value, indent=indent, ensure_ascii=not is_utf, default=str))


def as_json(is_json: bool, value: Any) -> bool:
    """Print a value as one JSON document if that is asked for; return whether it is."""
    if is_json:
        document(value)
    return is_json


def done(is_json: bool, value: Any, text: str, *steps: str) -> None:
    """Print the result of a command: a JSON document for programs, else a sentence and the next steps."""
    if not as_json(is_json, value):
        say(text)
        next_step(*steps)


def is_shown(is_json: bool, value: Any, found: Collection[Any], empty: str, *steps: str) -> bool:
    """Print a list as JSON for programs, or a sentence and the next steps if it is empty; return whether it is done."""
    if is_json or not found:
        done(is_json, value, empty, *steps)
    return is_json or not found


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], **columns: Collection[str]) -> None:
    """Print a table; see `listing`."""
    from openpai.cli.listing import listing

    say(listing(headings, rows, **columns))


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print one fact per line; empty ones are left out."""
    from openpai.cli import listing

    say(listing.facts(pairs))


def say(what: str | Table = "") -> None:
    """Print text as it is, or a table, for a person."""
    if isinstance(what, str):
        console().print(harmless(what), markup=False, soft_wrap=True)
    elif console().is_terminal or "COLUMNS" in os.environ:
        # In a narrower terminal lines wrap: folded to fit, a table would lose whole columns.
        (console() if console().width >= TABLE_WIDTH else _console(width=TABLE_WIDTH)).print(what)
    else:
        from openpai.cli.listing import lines

        sys.stdout.writelines(f"{line}\n" for line in lines(what))


def say_marked_up(text: str) -> None:
    """Print text with Rich markup for a person; untrusted text in it must be escaped."""
    console().print(harmless(text), soft_wrap=True)


def next_step(*commands: str) -> None:
    """Print the commands that a person may want next."""
    from rich.markup import escape

    for number, command in enumerate(commands):
        shown = escape(harmless(_OPTION_LIKE.sub(r"\1\3 -- \2", command)))
        console().print(f"[dim]{'next:' if number == 0 else '     '}[/] {shown}", soft_wrap=True)


def aside(text: str) -> None:
    """Print a remark on standard error, apart from tables and JSON."""
    error_console().print(harmless(text), style="dim", markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    error_console().print(harmless(f"warning: {text}"), style="yellow", markup=False, soft_wrap=True)


def complain(error: PaiError) -> None:
    """Print an error: the message in red, then the advice."""
    error_console().print(harmless(error.message), style="red", markup=False, soft_wrap=True)
    if error.advice:
        error_console().print(harmless(error.advice), markup=False, soft_wrap=True)

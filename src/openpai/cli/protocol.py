"""`pai protocol`: the language of job files, for editors."""

from __future__ import annotations

import typer

from openpai.cli import output
from openpai.cli.lazy import Command

app = typer.Typer(help="The language of job files.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Keep `protocol` a group while it has one command only."""


@app.command(cls=Command, short_help="Print the JSON Schema of job files, for editors.")
def schema(json: output.Json = False) -> None:
    """Print the JSON Schema of job files, for editors that check while you type."""
    from openpai.protocol.schema import json_schema

    output.document(json_schema())

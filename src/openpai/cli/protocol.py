"""`pai protocol`: the format of job files, for editors."""

from __future__ import annotations

from typing import Final

from openpai.cli import output
from openpai.cli.lazy import group

COMMANDS: Final = {"schema": ("openpai.cli.protocol:schema", "Print the JSON Schema of job files, for editors.")}
app = group("The format of job files.", COMMANDS)


def schema(json: output.Json = False) -> None:
    """Print the JSON Schema of job files, for editors that check while you type."""
    from openpai.protocol.schema import json_schema

    output.document(json_schema())

"""The page of the job protocol: every key a job file may have, from the schema that checks them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from openpai.app.pages.markdown import code, page, table
from openpai.app.pages.schema import name_of, type_text
from openpai.protocol.schema import json_schema

_INTRO: Final = """\
A job is one YAML file. `pai job check FILE` checks it without a server, and `pai protocol schema` prints what follows
as JSON Schema, for editors that check while you type. The [guide](guide.md) teaches the language; this page lists it.
A key without a value counts as absent."""


def protocol() -> str:
    """Return the page."""
    schema = json_schema()
    sections = [f"## {name_of(name)}\n\n{_about(section)}" for name, section in schema["$defs"].items()]
    return page(
        "Job protocol, version 2",
        "`openpai/protocol/schema.py`",
        _INTRO,
        "## Job",
        _about(schema),
        *sections,
    )


def _about(schema: Mapping[str, Any]) -> str:
    others = "" if schema.get("additionalProperties") is False else " Other keys are kept as they are."
    keys = table(("Key", "Required", "Value", "Meaning", "Example"), _keys(schema))
    return f"{schema.get('description', '')}{others}\n\n{keys}"


def _keys(schema: Mapping[str, Any]) -> Iterable[list[str]]:
    required = schema.get("required", ())
    for key, value in schema["properties"].items():
        examples = value.get("examples", ())
        example = code(json.dumps(examples[0])) if examples else ""
        message = value.get("description", "")
        yield [code(key), "yes" if key in required else "", type_text(value), message, example]

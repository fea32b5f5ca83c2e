"""JSON Schema in words that fit into a cell of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_ANY_TEXT: Final = r"^[^\x00]*$"


def type_text(schema: Mapping[str, Any]) -> str:
    """Return what a value may be, in words."""
    if "$ref" in schema:
        return f"[{name_of(schema['$ref'])}](#{name_of(schema['$ref']).lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in dict.fromkeys(map(str, schema["enum"])))
    options = [option for option in schema.get("anyOf", schema.get("oneOf", ())) if option.get("type") != "null"]
    if options:
        return " or ".join(dict.fromkeys(map(type_text, options)))
    kinds = schema.get("type", "anything")
    kind = kinds if isinstance(kinds, str) else " or ".join(kinds)
    return _collection(kind, schema) + _bounds(schema)


def _collection(kind: str, schema: Mapping[str, Any]) -> str:
    if kind == "array":
        return f"list of {type_text(schema['items'])}" if schema.get("items") else "list"
    if kind == "object":
        held = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        inner = next((one for one in held if isinstance(one, Mapping) and one), None)
        return f"mapping to {type_text(inner)}" if inner else "mapping"
    return "text" if kind == "string" else kind


def _bounds(schema: Mapping[str, Any]) -> str:
    message = [*_range(schema, "minimum", "maximum", ""), *_range(schema, "minLength", "maxLength", " characters")]
    if schema.get("pattern", _ANY_TEXT) != _ANY_TEXT:
        message.append(f"matches `{schema['pattern']}`")
    return f" ({', '.join(message)})" if message else ""


def _range(schema: Mapping[str, Any], least: str, most: str, unit: str) -> Iterable[str]:
    low, high = (None if _is_beyond(schema.get(key)) else schema.get(key) for key in (least, most))
    if low is not None and high is not None:
        yield f"{low} to {high}{unit}"
    elif low is not None:
        yield f"at least {low}{unit}"
    elif high is not None:
        yield f"at most {high}{unit}"


def _is_beyond(bound: Any) -> bool:
    # The largest number a database holds is not a limit anyone chose and would only be noise.
    return isinstance(bound, (int, float)) and abs(bound) >= 2**31 - 1


def name_of(reference: str) -> str:
    """Return what a referenced section is called on a page."""
    return reference.rpartition("/")[2].removesuffix("Section")

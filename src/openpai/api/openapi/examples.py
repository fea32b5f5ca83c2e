"""Examples of documents, built from the examples of their fields, so that they always fit their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PREFIX: Final = "#/components/schemas/"
_OF_TYPE: Final[Mapping[str, Any]] = {"string": "", "integer": 0, "number": 0.5, "boolean": False, "null": None}
_DEPTH_MAX: Final = 12


def example_of(schema: Mapping[str, Any], parts: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a document that a schema allows; `parts` are the schemas it may refer to."""
    if "$ref" in schema:
        return example_of(parts[schema["$ref"].removeprefix(PREFIX)], parts, depth + 1)
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return example_of(schema[key][0], parts, depth + 1)
    return _made(schema, parts, depth)


def _made(schema: Mapping[str, Any], parts: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object")
    if kind == "array":
        # Types that contain themselves, such as cells, end here.
        return [example_of(schema["items"], parts, depth + 1)] if depth < _DEPTH_MAX and "items" in schema else []
    if kind == "object":
        needed = schema.get("required", ())
        return {
            name: example_of(of, parts, depth + 1)
            for name, of in schema.get("properties", {}).items()
            if name in needed or "examples" in of
        }
    return _OF_TYPE[kind]

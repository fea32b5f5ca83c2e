"""What Pydantic finds wrong with a value, in plain words: for command lines, configuration files and requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WORDS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "string_type": "must be text",
    "string_unicode": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is too large a number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
    "none_required": "must be left out",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_pattern_mismatch": "must match {pattern}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "value_error": "{error}",
}
# Patterns that a request may be held to, as people would say them.
_PATTERNS: Final[Mapping[str, str]] = {
    r"^[^\x00-\x1f\x7f]*$": "must be one line without control characters",
    r"^[^,\x00-\x1f]+$": "must be one line without commas and control characters",
}


def complaint(fault: Mapping[str, Any]) -> str:
    """Return what one fault of a `ValidationError` says, to be put behind the name of the value it is about."""
    words = _WORDS.get(fault["type"])
    if words is None:
        message = str(fault["msg"])
        return f"{message[:1].lower()}{message[1:]}"
    context = fault.get("ctx") or {}
    if words == "must have at least {min_length} characters" and context.get("min_length") == 1:
        return "must not be empty"
    if said := _PATTERNS.get(str(context.get("pattern"))):
        return said
    return words.format_map({key: str(value) for key, value in context.items()})

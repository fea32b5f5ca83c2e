"""Text for messages of every room: counts, lists, amounts, harmless text, and errors of Pydantic."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

LISTED_MAX: Final = 30
WORD_MAX: Final = 64
# Control characters, marks that change the direction of text, and surrogates, which cannot be encoded.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_MESSAGES: Final[Mapping[str, str]] = {
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
# Patterns of requests, in words.
_PATTERNS: Final[Mapping[str, str]] = {
    r"^[^\x00-\x1f\x7f]*$": "must be one line without control characters",
    r"^[^,\x00-\x1f]+$": "must be one line without commas and control characters",
}


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, as in `1 job` or `3 jobs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def joined(parts: Iterable[str], word: str = "and") -> str:
    """Return parts as a list in a sentence: `a, b and c`."""
    *most, last = list(parts) or [""]
    return f"{', '.join(most)} {word} {last}" if most else last


def listed(words: Iterable[str]) -> str:
    """Return words as a list: `a, b, c`, or `none` if there are none."""
    some = [cut(word, WORD_MAX) for word in islice(words, LISTED_MAX + 1)]
    return ", ".join([*some[:LISTED_MAX], "…"] if len(some) > LISTED_MAX else some) or "none"


def memory(mb: int) -> str:
    """Return an amount of memory, in GB from 1024 MB on."""
    return f"{mb} MB" if mb < 1024 else f"{mb / 1024:.1f}".removesuffix(".0") + " GB"


def amount(value: float) -> str:
    """Return an amount that was measured: two digits after the point, or the first two of what is less than 1."""
    digits = 2 if abs(value) >= 1 or not value else min(12, 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def exact(value: float) -> str:
    """Return a number that a user gave, such as a step: 1234567, never 1.23457e+06."""
    return f"{value:.12g}"


def cut(text: str, most: int) -> str:
    """Return a text of at most `most` characters: a hundred faults must not repeat a megabyte each."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def harmless(text: str) -> str:
    """Return a text with its control characters escaped: text of others may contain commands to a terminal."""
    return _CONTROLS.sub(_escaped, text)


def harmless_line(text: str) -> str:
    """Return a text like `harmless`, on one line."""
    return re.sub("[\t\n\u2028\u2029]", _escaped, harmless(text))


def harmless_json(text: str) -> str:
    """Return a JSON text with the same meaning and without control characters."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def validation_message(fault: Mapping[str, Any]) -> str:
    """Return one error of a `ValidationError` as text that follows the name of the value."""
    template = _MESSAGES.get(fault["type"])
    if template is None:
        message = str(fault["msg"])
        return f"{message[:1].lower()}{message[1:]}"
    context = fault.get("ctx") or {}
    if template == "must have at least {min_length} characters" and context.get("min_length") == 1:
        return "must not be empty"
    if known := _PATTERNS.get(str(context.get("pattern"))):
        return known
    return template.format_map({key: str(value) for key, value in context.items()})


def duration(seconds: float) -> str:
    """Return a length of time for people, as in `3 h 20 min`."""
    minutes = max(0, round(seconds / 60))
    if minutes < 1:
        return f"{seconds:.0f} s"
    days, rest = divmod(minutes, 1440)
    hours, minutes = divmod(rest, 60)
    parts = [f"{days} d" if days else "", f"{hours} h" if hours else "", f"{minutes} min" if minutes else ""]
    return " ".join(filter(None, parts[:2] if days else parts))

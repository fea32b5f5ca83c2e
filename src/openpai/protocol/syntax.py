"""Faults of a file that is not valid YAML or JSON, or that contains a forbidden character.

Each fault names the place and the correction, most often missing quotes. The text may be a secret, so a fault repeats
at most one character of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from openpai.protocol.dialect import is_json
from openpai.protocol.errors import Fault

# Some databases, file systems and terminals cannot handle these: NUL, and lone surrogates.
_UNFIT: Final = re.compile("[\x00\ud800-\udfff]")
_MENDED_BY: Final = {
    "mapping values are not allowed in this context": (
        'a text that holds ": " in quotes, and the keys of a mapping below each other'
    ),
    "found character that cannot start any token": "a text that begins with @, ` or % in quotes",
    "did not find expected alphabetic or numeric character": "a text that begins with *, & or [ in quotes",
    "did not find expected '-' indicator": "a text that begins with [, { or a quote in quotes as a whole",
    "did not find expected key": (
        "keys of a mapping below each other, and a text that begins with a quote in quotes as a whole"
    ),
    "found unknown escape character": "single quotes around a text with \\, or \\\\ for each",
}


TOO_DEEP: Final = "exceeded maximum nesting depth"
"""How libyaml says since PyYAML 6.0.4 that it looked ahead into more levels than it follows."""


def syntax_fault(error: yaml.MarkedYAMLError, text: str) -> Fault:
    """Return why a text cannot be parsed, and where and how to correct it."""
    mark = error.problem_mark or error.context_mark
    problem = error.problem or "it cannot be read"
    if mark is None:
        return Fault("", f"the file is not valid YAML: {problem}")
    rows = text.splitlines()
    row = rows[mark.line] if mark.line < len(rows) else ""
    began = error.context_mark
    kind = "JSON" if is_json(text) else "YAML"
    allowed = ""
    if row[mark.column : mark.column + 1] == "\t":
        problem = "a tab is used where only spaces are allowed"
    elif began is not None and problem == "found unexpected end of stream":
        # The parser stops at the end of the file, but the opening quote is the mistake.
        problem, mark = "the quote that opens here is never closed", began
    elif kind == "YAML":
        allowed = _MENDED_BY.get(problem, "")
    if began is not None and began.line != mark.line:
        problem += f", {error.context} that begins on line {began.line + 1}"
    return Fault("", f"the file is not valid {kind} at column {mark.column + 1}: {problem}", mark.line + 1, allowed)


def character_fault(found: object, text: str) -> Fault:
    """Return the fault for a character that YAML does not allow."""
    character = found if isinstance(found, int) else ord(str(found)[:1] or "\0")
    at = text.find(chr(character))
    line = text.count("\n", 0, at) + 1 if at >= 0 else None
    return Fault("", f"the file holds a character that YAML does not allow: U+{character:04X}", line)


def unfit_in(text: str) -> str:
    """Return what is wrong with a text, empty if it is fine: a NUL, or half a pair of surrogates."""
    found = _UNFIT.search(text)
    if found is None:
        return ""
    return "holds a NUL character" if found[0] == "\x00" else "holds half a character (a lone surrogate)"


def unfit_texts(document: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the place of each unfit text or key in a document, and what is wrong with it."""
    # All texts are searched at once: hardly any document has such a text, and only then its place is needed.
    if _UNFIT.search("\n".join(_texts_in(document))) is None:
        return
    left: list[tuple[tuple[str | int, ...], Any]] = [((), document)]
    while left:
        path, value = left.pop()
        if isinstance(value, str) and (message := unfit_in(value)):
            yield path, message
        elif isinstance(value, dict):
            for key, part in value.items():
                if isinstance(key, str) and (message := unfit_in(key)):
                    yield path, f"{message} in one of its keys"
                else:
                    left.append(((*path, key), part))
        elif isinstance(value, list):
            left.extend(((*path, number), part) for number, part in enumerate(value))


def _texts_in(document: Any) -> Iterator[str]:
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left.extend(value)
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)

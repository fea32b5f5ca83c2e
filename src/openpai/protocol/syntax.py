"""What to tell people whose file is no YAML: the parser's complaints, put where the mistake is, with what to do.

Most of them left out quotes. What was read may be a secret, so no more of it is repeated than one character.
"""

from __future__ import annotations

from typing import Final

import yaml

from openpai.protocol.errors import Fault
from openpai.protocol.json_text import is_json

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


def syntax_fault(error: yaml.MarkedYAMLError, text: str) -> Fault:
    """Return what keeps a text from being read, where it has to be mended, and how."""
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
        problem = "a tab stands where only spaces may"
    elif began is not None and problem == "found unexpected end of stream":
        # The end of the file is where the reader noticed; the quote is what has to be mended.
        problem, mark = "the quote that opens here is never closed", began
    elif kind == "YAML":
        allowed = _MENDED_BY.get(problem, "")
    if began is not None and began.line != mark.line:
        problem += f", {error.context} that begins on line {began.line + 1}"
    return Fault("", f"the file is not valid {kind} at column {mark.column + 1}: {problem}", mark.line + 1, allowed)


def character_fault(found: object, text: str) -> Fault:
    """Return the fault that a text holds a character which no file of YAML may hold."""
    character = found if isinstance(found, int) else ord(str(found)[:1] or "\0")
    at = text.find(chr(character))
    line = text.count("\n", 0, at) + 1 if at >= 0 else None
    return Fault("", f"the file holds a character that YAML does not allow: U+{character:04X}", line)

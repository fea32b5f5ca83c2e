"""Old job files are JSON, often with `//` comments and tabs; these functions make them readable as YAML.

Lines are kept, so that a fault found later still names the line its owner sees in the editor.
"""

from __future__ import annotations

import re
from typing import Final

# Only single characters are repeated possessively: Debian 12's Python 3.11.2 mistakes where such a group ended.
_BLOCK: Final = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/"
_BLANK: Final = rf"(?:\s++|//[^\n]*+|{_BLOCK})*"
_START: Final = re.compile(rf"{_BLANK}\{{{_BLANK}[\"}}]")
# A string's closing quote is optional so that text with an open one is still scanned once only.
_TOKEN: Final = re.compile(rf'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?|(?<![:\w])//[^\n]*+|{_BLOCK}|\t', re.DOTALL)
_NO_BREAK: Final = re.compile(r"[^\n]")
_ESCAPE: Final = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL)


def is_json(text: str) -> bool:
    """Return whether a text begins like a JSON object, comments before or after its brace allowed."""
    return _START.match(text) is not None


def as_yaml(text: str) -> str:
    """Return JSON text as YAML of the same lines: no comments, no tabs, no escaped surrogate pairs."""
    blanked = without_comments(text)
    return _ESCAPE.sub(_escape, blanked) if "\\u" in blanked else blanked


def without_comments(text: str) -> str:
    """Return JSON text with blanks for its comments and tabs, so that all else stays at its place."""
    return _TOKEN.sub(_token, text)


def _token(match: re.Match[str]) -> str:
    found = match.group()
    return found if found.startswith('"') else _NO_BREAK.sub(" ", found)


def _escape(match: re.Match[str]) -> str:
    high, low = match.groups()
    if high is None:
        return match.group()
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))

"""The dialect of job files: JSON with comments is read as YAML, and unquoted words follow YAML 1.2.

Old job files are JSON, often with `//` comments and tabs. Lines are preserved, so a fault names the line that the
user sees in the editor. Unquoted words lean towards text: `on`, `no`, `12:30` and `2024-01-01` are text, and so are
`007`, `.inf` and numbers that no machine can hold, because a command should receive what the user wrote.
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
_WORDS: Final[dict[str, bool | None]] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_START: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_RADIX: Final = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,4})?")
_DIGITS_MAX: Final = 100
_WHOLE_MAX: Final = 2**53


def is_json(text: str) -> bool:
    """Return whether a text starts like a JSON object, perhaps with comments before or after its brace."""
    return _START.match(text) is not None


def as_yaml(text: str) -> str:
    """Return JSON text as YAML of the same lines: no comments, no tabs, no escaped surrogate pairs."""
    blanked = without_comments(text)
    return _ESCAPE.sub(_escape, blanked) if "\\u" in blanked else blanked


def without_comments(text: str) -> str:
    """Return JSON text with blanks instead of comments and tabs, so that positions stay the same."""
    return _TOKEN.sub(_token, text)


def _token(match: re.Match[str]) -> str:
    found = match.group()
    return found if found.startswith('"') else _NO_BREAK.sub(" ", found)


def _escape(match: re.Match[str]) -> str:
    high, low = match.groups()
    if high is None:
        return match.group()
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))


def resolve(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START or len(text) > _DIGITS_MAX:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _RADIX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return _float(text)
    return text


def _float(text: str) -> str | int | float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        return text
    # 1e5 often is a count of steps; a command that takes an integer must not get 100000.0.
    if "." not in text and number.is_integer() and abs(number) < _WHOLE_MAX:
        return int(number)
    return number

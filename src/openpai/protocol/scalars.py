"""What an unquoted word in a job file means: null, a truth value, a number, or simply text.

The rules are YAML 1.2's, leaning towards text: `on`, `no`, `12:30` and `2024-01-01` are text, and so are `007`,
`.inf` and numbers no machine can hold, because a command should receive what its owner wrote.
"""

from __future__ import annotations

import re
from typing import Final

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


def resolve(text: str) -> str | int | float | bool | None:
    """Return the value an unquoted scalar stands for."""
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
    # 1e5 is how people write a count of steps; a command that takes a whole number must not get 100000.0.
    if "." not in text and number.is_integer() and abs(number) < _WHOLE_MAX:
        return int(number)
    return number

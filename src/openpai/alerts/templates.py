"""Texts with values of an alert in them: `{{ value }}` and `{{ labels.NAME }}`, as `$value` and `$labels.NAME` too.

A template has no code, no loop and no access to anything else, so a rule cannot read what its alert does not say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from openpai.alerts.expressions import ExpressionError
from openpai.protocol.wording import duration

TEXT_MAX: Final = 2000
_FIELD: Final = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_KNOWN: Final = re.compile(r"\$?(?:value|labels\.([A-Za-z_]\w*))(?:\s*\|\s*(percent|duration|bytes|number))?")


def check(text: str) -> None:
    """Raise ExpressionError, with the place of its first fault, for a text that `fill` cannot fill."""
    if len(text) > TEXT_MAX:
        raise ExpressionError(f"the text has {len(text)} characters; {TEXT_MAX} are allowed")
    for found in _FIELD.finditer(text):
        if _KNOWN.fullmatch(found[1]) is None:
            allowed = "{{ value }} and {{ labels.NAME }} are, with | percent, | duration, | bytes or | number"
            raise ExpressionError(f"{found[0][:60]!r} is not allowed; {allowed}", found.start())
    left = _FIELD.sub("", text)
    if "{{" in left:
        raise ExpressionError("`{{` has no `}}`", text.rindex("{{"))


def fill(text: str, labels: Mapping[str, str], value: float) -> str:
    """Return a text with the values of an alert; a label that it does not have is empty."""

    def put(found: re.Match[str]) -> str:
        known = _KNOWN.fullmatch(found[1])
        if known is None:
            return found[0]
        if known[1] is not None and known[2] is None:
            return labels.get(known[1], "")
        number = value if known[1] is None else _number(labels.get(known[1], ""))
        return _written(number, known[2] or "number")

    return _FIELD.sub(put, text)[: 2 * TEXT_MAX]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _written(value: float, form: str) -> str:
    if form == "percent":
        return f"{value * 100:.0f} %"
    if form == "bytes":
        for unit in ("B", "KiB", "MiB", "GiB"):
            if abs(value) < 1024:
                return f"{value:.4g} {unit}"
            value /= 1024
        return f"{value:.4g} TiB"
    if form == "duration":
        return duration(value)
    return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.0f}"

"""Measured and recorded values as alert rules see them: labels, vectors, and what an expression selects.

An expression names its input as selectors. The caller fetches them all, and evaluates over plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2

Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted by name."""
Vector = dict[Labels, float]
Points = Sequence[tuple[int, float]]
"""Times in milliseconds and values, oldest first."""

SERIES_MAX: Final = 10_000
"""The largest number of series that one selector of a rule may match."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on the value of one label: `=`, `!=`, `=~` or `!~`. A missing label is empty."""

    label: str
    operator: str
    value: str

    def test(self) -> Callable[[str], bool]:
        """Return a function that says whether a value fits."""
        if self.operator == "=":
            return lambda found: found == self.value
        if self.operator == "!=":
            return lambda found: found != self.value
        fits = pattern(self.value).fullmatch
        return (lambda found: bool(fits(found))) if self.operator == "=~" else (lambda found: not fits(found))

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.label}{self.operator}"{escaped}"'


@dataclass(frozen=True, slots=True)
class Selector:
    """Series by name and labels: their newest values or, with a range, what they were for that long."""

    name: str
    matchers: tuple[Matcher, ...] = ()
    range_ms: int = 0

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.matchers))
        within = f"[{self.range_ms // 1000}s]" if self.range_ms else ""
        return f"{self.name}{{{inner}}}{within}" if inner else f"{self.name}{within}"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a selector matched."""

    newest: Mapping[Labels, float]
    points: Mapping[Labels, Points]
    is_cut: bool = False
    """Whether it matched more than `SERIES_MAX` series."""
    problem: str = ""
    """Why it could not be fetched."""


Data = Mapping[Selector, Fetched]
NOTHING: Final = Fetched({}, {})


def pattern(text: str) -> Any:
    """Return a compiled pattern of RE2; raise ValueError for an invalid one."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise ValueError(f"{text!r} is not a pattern of RE2: {shown}") from None


def as_labels(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> Labels:
    """Return labels in their sorted form."""
    return tuple(sorted(pairs.items() if isinstance(pairs, Mapping) else pairs))


def matching(vector: Mapping[Labels, float], matchers: Sequence[Matcher], most: int = SERIES_MAX) -> Fetched:
    """Return the series of a vector that fit all matchers, at most so many."""
    if matchers:
        tests = [(each.label, each.test()) for each in matchers]
        vector = {
            labels: value
            for labels, value in vector.items()
            if (found := dict(labels)) is not None and all(fits(found.get(label, "")) for label, fits in tests)
        }
    if len(vector) <= most:
        return Fetched(vector, {})
    return Fetched(dict(list(vector.items())[:most]), {}, True)

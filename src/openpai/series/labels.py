"""Labels, which name what a value was measured of, and the matchers that choose among them.

A value of a label may be written by an enemy, such as the name of a job, so it is cut to a bounded length and holds no
control characters. Names of labels are written by this program alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

LABEL_MAX: Final = 200
"""The greatest length of a value in characters."""
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
Operator = Literal["=", "!="]


@dataclass(frozen=True, slots=True)
class Labels:
    """Names and values, sorted by name, without empty values."""

    pairs: tuple[tuple[str, str], ...] = ()
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Counted once: the labels of a task are looked up in every round.
        object.__setattr__(self, "_hash", hash(self.pairs))

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Labels:
        """Return these labels, with values made safe."""
        return cls(tuple(sorted((name, text) for name, value in labels.items() if (text := clean(value)))))

    @property
    def values(self) -> Mapping[str, str]:
        """Return the labels by name."""
        return dict(self.pairs)

    def get(self, name: str) -> str:
        """Return the value of a label; empty if it is absent."""
        # They are few, and a dictionary for each of ten thousand would take megabytes.
        for label, value in self.pairs:
            if label == name:
                return value
        return ""

    def __hash__(self) -> int:
        return self._hash


NO_LABELS: Final = Labels()


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label; a label that is absent counts as empty."""

    label: str
    operator: Operator
    values: frozenset[str] = field(default_factory=frozenset)
    """The values of which the label must have one (`=`), or none (`!=`)."""

    def accepts(self, labels: Labels) -> bool:
        """Return whether these labels meet the condition."""
        return (labels.get(self.label) in self.values) == (self.operator == "=")


def matching(labels: Mapping[str, str]) -> tuple[Matcher, ...]:
    """Return the matchers for labels that have exactly these values."""
    return tuple(Matcher(name, "=", frozenset({clean(value)})) for name, value in labels.items())


def accepted(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Return whether labels meet all conditions."""
    return all(matcher.accepts(labels) for matcher in matchers)


def clean(value: str) -> str:
    """Return a value that is safe in any output: printable and of bounded length."""
    value = _UNPRINTABLE.sub("�", value) if not value.isprintable() else value
    return value if len(value) <= LABEL_MAX else value[: LABEL_MAX - 1] + "…"

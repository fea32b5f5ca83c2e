"""Silences: alerts that fit all matchers of one neither notify nor act until it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from openpai.alerts.expressions import ExpressionError, Select, parse
from openpai.alerts.rules import NAME
from openpai.alerts.series import Labels, Matcher


@dataclass(frozen=True, slots=True)
class Silence:
    """A silence, from one time to another."""

    id: str
    matchers: tuple[Matcher, ...]
    from_ms: int
    to_ms: int
    by: str
    comment: str = ""

    def holds(self, now_ms: int) -> bool:
        """Return whether it is in effect: from when it is made on, also after the clock was set back."""
        return now_ms < self.to_ms

    def fits(self, labels: Labels) -> bool:
        """Return whether alerts with these labels are silent."""
        found = dict(labels)
        return bool(self.matchers) and all(each.test()(found.get(each.label, "")) for each in self.matchers)


def read_matchers(texts: Iterable[str]) -> tuple[Matcher, ...]:
    """Return matchers written as in `node_name=n1`, `severity!=info`, `job_name=~"ann~.*"`; raise ValueError.

    A word without an operator is the name of a rule.
    """
    found: list[Matcher] = []
    for text in texts:
        label, operator, value = _parts(text)
        quoted = value if value[:1] in ('"', "'") else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        try:
            read = parse(f"absent(x{{{label}{operator}{quoted}}})")
        except ExpressionError as error:
            raise ValueError(f"{text[:80]!r} is not a matcher such as node_name=n1: {error}") from None
        of = getattr(read, "of", None)
        if not isinstance(of, Select) or len(of.selector.matchers) != 1:
            raise ValueError(f"{text[:80]!r} is not one matcher")
        found += of.selector.matchers
    if not found:
        raise ValueError("a silence needs a matcher, or it would silence everything")
    return tuple(found)


def _parts(text: str) -> tuple[str, str, str]:
    for operator in ("!~", "=~", "!=", "="):
        label, sign, value = text.partition(operator)
        if sign and label.strip().replace("_", "a").isalnum():
            return label.strip(), operator, value.strip()
    if NAME.fullmatch(text.strip()) is None:
        raise ValueError(f"{text[:80]!r} is neither a matcher such as node_name=n1 nor the name of a rule")
    return "alertname", "=", text.strip()


def silenced_by(labels: Labels, silences: Iterable[Silence], now_ms: int) -> tuple[str, ...]:
    """Return the ids of the silences in effect for an alert."""
    return tuple(each.id for each in silences if each.holds(now_ms) and each.fits(labels))

"""The alerts of a rule over time: pending while its condition holds, firing once it held for long enough, resolved.

How long a condition held is counted in short steps between evaluations, so that a clock that jumps neither fires an
alert nor delays one for long.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from openpai.alerts import templates
from openpai.alerts.rules import Rule
from openpai.alerts.series import Labels, Vector, as_labels

ALERTS_MAX: Final = 1_000
"""The most alerts of one rule."""
RESOLVED_KEPT_MS: Final = 3_600_000
"""How long a resolved alert is shown beside the others."""


class State(StrEnum):
    """The state of an alert; one that is inactive does not exist."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of a rule."""

    rule: str
    labels: Labels
    """With the name of the rule as `alertname`, its severity and its own labels."""
    state: State
    value: float
    since_ms: int
    """When the condition began to hold."""
    held_ms: int = 0
    fired_at_ms: int | None = None
    resolved_at_ms: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    notified_at_ms: int | None = None
    """When receivers heard of it last."""
    stage: int = 0
    """How many stages of escalation heard of it."""
    has_acted: bool = False
    """Whether its actions are recorded."""
    is_end_notified: bool = False

    @property
    def fingerprint(self) -> str:
        """Return what identifies its labels, as in Alertmanager's API."""
        return hashlib.sha256(repr(self.labels).encode()).hexdigest()[:16]

    @property
    def id(self) -> str:
        """Return what identifies this occurrence."""
        return f"{self.fingerprint}-{self.since_ms}"


@dataclass(frozen=True, slots=True)
class Stepped:
    """The alerts of a rule after an evaluation."""

    alerts: tuple[Alert, ...]
    left_out: int = 0
    """Alerts beyond `ALERTS_MAX`."""


def step(rule: Rule, vector: Vector, before: Iterable[Alert], now_ms: int, past_ms: int) -> Stepped:
    """Return the alerts of a rule after its condition held for `vector`, `past_ms` after the evaluation before."""
    known = {alert.labels: alert for alert in before if alert.state is not State.RESOLVED}
    ended = _shown([alert for alert in before if alert.state is State.RESOLVED], now_ms)
    found: dict[Labels, Alert] = {}
    left_out = 0
    # Those that are known go first, so that none resolves because of another.
    for labels, value in sorted(vector.items()):
        full = _labels(rule, labels, value)
        if len(found) >= ALERTS_MAX and full not in known:
            left_out += 1
            continue
        found[full] = _held(rule, full, value, known.get(full), now_ms, past_ms)
    resolved = [
        replace(alert, state=State.RESOLVED, resolved_at_ms=now_ms)
        for labels, alert in known.items()
        if labels not in found and alert.state is State.FIRING
    ]
    return Stepped((*found.values(), *resolved, *ended), left_out)


def _shown(ended: list[Alert], now_ms: int) -> list[Alert]:
    """Return which resolved alerts are still shown: a rule that flaps would have thousands more every minute."""
    recent = [alert for alert in ended if abs(now_ms - (alert.resolved_at_ms or 0)) < RESOLVED_KEPT_MS]
    # Whoever heard of an alert hears of its end first.
    known = [alert for alert in recent if alert.notified_at_ms is not None and not alert.is_end_notified]
    others = [alert for alert in recent if alert.notified_at_ms is None or alert.is_end_notified]
    newest = sorted(others, key=lambda alert: (-(alert.resolved_at_ms or 0), alert.labels))
    return [*known, *newest[:ALERTS_MAX]]


def _held(rule: Rule, labels: Labels, value: float, before: Alert | None, now_ms: int, past_ms: int) -> Alert:
    alert = before or Alert(rule.name, labels, State.PENDING, value, now_ms)
    held_ms = alert.held_ms + (max(0, past_ms) if before is not None else 0)
    is_new = alert.state is State.PENDING and held_ms >= rule.for_ms
    named = dict(labels)
    texts = {name: templates.fill(text, named, value) for name, text in rule.annotations.items()}
    return replace(
        alert,
        value=value,
        held_ms=held_ms,
        annotations=texts,
        state=State.FIRING if is_new else alert.state,
        fired_at_ms=now_ms if is_new else alert.fired_at_ms,
    )


def _labels(rule: Rule, labels: Labels, value: float) -> Labels:
    named = dict(labels)
    own = {name: templates.fill(text, named, value) for name, text in rule.labels}
    return as_labels({**named, **own, "alertname": rule.name, "severity": rule.severity})

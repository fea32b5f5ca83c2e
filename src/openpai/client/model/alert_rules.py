"""Alert rules, their changes, and their tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import (
    Answer,
    Document,
    amount,
    as_text_if_any,
    flag,
    mapping,
    number,
    parts,
    real,
    text,
    texts,
    value,
    whole,
)
from openpai.client.model.revisions import Revised, Revision


@dataclass(frozen=True, slots=True)
class AlertRule(Revised):
    """An alert rule."""

    name: str = text("name")
    origin: str = text("origin")
    """bundled, changed or added."""
    severity: str = text("severity")
    expr: str = text("expr")
    for_s: int = amount("forSeconds")
    actions: tuple[str, ...] = texts("actions")
    notify: tuple[str, ...] = texts("notify")
    is_enabled: bool = flag("enabled")
    is_dry: bool = flag("dryRun")
    rule_text: str = text("text")
    bundled: str = text("bundled")
    problem: str = text("problem")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class AlertRuleChange(Revision):
    """One change of an alert rule."""

    rule_text: str | None = value("text", convert=as_text_if_any)


@dataclass(frozen=True, slots=True)
class PastAlert(Answer):
    """An alert that a rule would have had."""

    labels: Mapping[str, Any] = mapping("labels")
    summary: str = text("summary")
    fired_at_ms: int | None = number("firedTime")
    resolved_at_ms: int | None = number("resolvedTime")
    value: float = real("value")


@dataclass(frozen=True, slots=True)
class PastAction(Answer):
    """An action that a rule would have carried out."""

    at_ms: int | None = number("time")
    action: str = text("action")
    target: str = text("target")
    refused: str = text("refused")


@dataclass(frozen=True, slots=True)
class AlertRuleTest(Answer):
    """What a rule would have done in the past."""

    from_ms: int | None = number("fromTime")
    to_ms: int | None = number("toTime")
    step_s: float = real("stepSeconds")
    evaluations: int = amount("evaluations")
    alerts: tuple[PastAlert, ...] = parts(PastAlert, "alerts")
    actions: tuple[PastAction, ...] = parts(PastAction, "actions")
    unknown: tuple[str, ...] = texts("unknown")
    problem: str = text("problem")
    is_cut: bool = flag("cut")
    document: Document = whole()

"""Alert rules as documents."""

from __future__ import annotations

from typing import Any, cast

from openpai.alerts.states import Alert
from openpai.api.shapes.revisions import revised, revision
from openpai.ports.alert_rules import AlertRuleView, Replay
from openpai.ports.revisions import Revision
from openpai.wire import alert_rules as wire


def rule(view: AlertRuleView) -> wire.AlertRule:
    """Return an alert rule."""
    found = view.rule
    return {
        "name": view.name,
        "origin": cast("Any", view.origin.value),
        "severity": found.severity if found else "",
        "expr": found.expr if found else "",
        "forSeconds": found.for_ms // 1000 if found else 0,
        "actions": [str(each) for each in found.actions] if found else [],
        "notify": list(found.notify) if found else [],
        "enabled": found is not None and found.is_enabled,
        "dryRun": found is not None and found.is_dry,
        "text": view.content,
        "bundled": view.bundled or "",
        "problem": view.problem,
        **revised(view),
    }


def change(found: Revision[str]) -> wire.AlertRuleChange:
    """Return one change of an alert rule."""
    return {
        **revision(found),
        "action": cast("Any", found.action),
        "text": found.content,
    }


def tested(found: Replay) -> wire.AlertRuleTest:
    """Return what a rule would have done."""
    return {
        "fromTime": found.from_ms,
        "toTime": found.to_ms,
        "stepSeconds": found.step_ms / 1000,
        "evaluations": found.evaluations,
        "alerts": [_past(alert) for alert in found.alerts],
        "actions": [
            {"time": at_ms, "action": action, "target": target, "refused": refused}
            for at_ms, action, target, refused in found.actions
        ],
        "unknown": list(found.unknown),
        "problem": found.problem,
        "cut": found.is_cut,
    }


def _past(alert: Alert) -> wire.PastAlert:
    hidden = ("alertname", "severity")
    return {
        "labels": {name: text for name, text in alert.labels if name not in hidden},
        "summary": alert.annotations.get("summary", ""),
        "firedTime": alert.fired_at_ms,
        "resolvedTime": alert.resolved_at_ms,
        "value": alert.value,
    }

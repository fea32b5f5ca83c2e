"""Alert rules."""

from __future__ import annotations

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, given, listed, nothing, query_of, whole


def _path(name: str) -> str:
    return f"/alert-rules/{segment(name, 'an alert rule')}"


class AlertRules:
    """Alert rules, which administrators may change while the platform runs."""

    @asks
    def alert_rules(self) -> Call[tuple[model.AlertRule, ...]]:
        """Return every alert rule, by name."""
        return Call("GET", "/alert-rules", listed(model.AlertRule.read))

    @asks
    def alert_rule(self, name: str) -> Call[model.AlertRule]:
        """Return an alert rule."""
        return Call("GET", _path(name), whole(model.AlertRule.read))

    @asks
    def alert_rule_history(self, name: str = "") -> Call[tuple[model.AlertRuleChange, ...]]:
        """Return the changes of all alert rules, or of one, the newest first."""
        return Call("GET", "/alert-rules/history", listed(model.AlertRuleChange.read), query_of(name=name))

    @asks
    def set_alert_rule(
        self, name: str, text: str, *, reason: str = "", revision: int | None = None
    ) -> Call[model.AlertRule]:
        """Replace or add an alert rule, written as YAML; it holds from the next evaluation on."""
        body = given(text=text, reason=reason, revision=revision)
        return Call("PUT", _path(name), whole(model.AlertRule.read), json=body)

    @asks
    def revert_alert_rule(self, name: str, reason: str = "") -> Call[None]:
        """Return to the bundled alert rule, or remove one that was added."""
        return Call("DELETE", _path(name), nothing, query_of(reason=reason))

    @asks
    def check_alert_rule(self, text: str, since_hours: float = 24) -> Call[model.AlertRuleTest]:
        """Return when the alerts of a rule would have fired in the past, and what they would have done."""
        body = {"text": text, "sinceHours": since_hours}
        return Call("POST", "/alert-rules/test", whole(model.AlertRuleTest.read), json=body, is_repeatable=True)

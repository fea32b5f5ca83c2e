"""Which alerts are notified now, and together: those of a rule that agree in its labels of `groupBy`.

A group is notified at once when it begins, again when it grows but not more often than every few minutes, again after
the rule's `repeat` as long as it fires, and once when alerts in it are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from openpai.alerts.rules import Rule
from openpai.alerts.series import Labels
from openpai.alerts.states import Alert, State

INTERVAL_MS: Final = 5 * 60_000
"""How long a group that grows waits after it was notified."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Alerts of a rule to be notified together."""

    rule: str
    group: Labels
    receivers: tuple[str, ...]
    firing: tuple[Alert, ...]
    resolved: tuple[Alert, ...]
    at_ms: int
    stage: int = 0
    """The stage of escalation; 0 for the rule's own receivers."""


def due(
    rule: Rule, alerts: Iterable[Alert], now_ms: int, is_silent: Callable[[Alert], bool]
) -> tuple[list[Notice], list[Alert]]:
    """Return the notices to send now, and the alerts that changed because of them."""
    groups: dict[Labels, list[Alert]] = {}
    for alert in alerts:
        if alert.state is not State.PENDING:
            key = tuple(pair for pair in alert.labels if pair[0] in rule.group_by)
            groups.setdefault(key, []).append(alert)
    notices: list[Notice] = []
    changed: dict[str, Alert] = {}
    for group, members in sorted(groups.items()):
        spoken = [alert for alert in members if not is_silent(alert)]
        own = _notice(rule, group, spoken, now_ms)
        for notice, after in (own, *_escalations(rule, group, spoken, now_ms), *_ends(rule, own[0])):
            if notice is not None:
                if notice.receivers:
                    notices.append(notice)
                for alert in after:
                    known = changed.get(alert.id)
                    changed[alert.id] = alert if known is None else replace(known, stage=max(known.stage, alert.stage))
    return notices, list(changed.values())


def _notice(rule: Rule, group: Labels, alerts: list[Alert], now_ms: int) -> tuple[Notice | None, list[Alert]]:
    firing = [alert for alert in alerts if alert.state is State.FIRING]
    over = [a for a in alerts if a.state is State.RESOLVED and a.notified_at_ms is not None and not a.is_end_notified]
    times = [alert.notified_at_ms for alert in alerts if alert.notified_at_ms is not None]
    # A time in the future is of a clock that was set back since.
    last_ms = max((at_ms for at_ms in times if at_ms <= now_ms), default=None)
    is_first = last_ms is None
    is_new = any(alert.notified_at_ms is None for alert in firing)
    is_settled = last_ms is not None and now_ms - last_ms >= INTERVAL_MS
    is_stale = any(at_ms > now_ms + INTERVAL_MS for at_ms in times)
    is_again = bool(firing) and (is_stale or (last_ms is not None and now_ms - last_ms >= rule.repeat_ms))
    if not ((is_new and (is_first or is_settled)) or (over and (not firing or is_settled)) or is_again):
        return None, []
    notice = Notice(rule.name, group, rule.notify, tuple(firing), tuple(over), now_ms)
    after = [replace(alert, notified_at_ms=now_ms) for alert in firing]
    return notice, [*after, *(replace(alert, is_end_notified=True) for alert in over)]


def _escalations(
    rule: Rule, group: Labels, alerts: list[Alert], now_ms: int
) -> Iterable[tuple[Notice | None, list[Alert]]]:
    for number, stage in enumerate(rule.escalate, 1):
        late = [
            alert
            for alert in alerts
            if alert.state is State.FIRING
            and alert.stage < number
            and alert.fired_at_ms is not None
            and now_ms - alert.fired_at_ms >= stage.after_ms
        ]
        if late:
            notice = Notice(rule.name, group, stage.notify, tuple(late), (), now_ms, number)
            yield notice, [replace(alert, stage=number, notified_at_ms=now_ms) for alert in late]


def _ends(rule: Rule, notice: Notice | None) -> Iterable[tuple[Notice, list[Alert]]]:
    """Yield the end of alerts for the stages of escalation that heard of them."""
    if notice is None:
        return
    for number, stage in enumerate(rule.escalate, 1):
        over = tuple(alert for alert in notice.resolved if alert.stage >= number)
        if over:
            yield replace(notice, receivers=stage.notify, firing=(), resolved=over, stage=number), []

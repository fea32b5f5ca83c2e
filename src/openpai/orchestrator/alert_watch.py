"""The pass of the leader that evaluates alert rules, notifies, and acts.

What it decides is saved in one transaction under the lease: the alerts, the actions that they ask for, and the messages
in the outbox. Only then are actions carried out and messages sent, so a server that dies loses and repeats nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from openpai.alerts.actions import DAY_MS, Done
from openpai.alerts.evaluating import evaluate
from openpai.alerts.expressions import ExpressionError, selectors
from openpai.alerts.grouping import due
from openpai.alerts.rules import Rule
from openpai.alerts.series import Data
from openpai.alerts.silences import Silence, silenced_by
from openpai.alerts.states import Alert, State, Stepped, step
from openpai.orchestrator.alert_actions import carry_out_all, plan
from openpai.orchestrator.alert_facts import NAMES, gather
from openpai.orchestrator.alert_input import fetch, misnamed
from openpai.orchestrator.alert_messages import admins_unreached, messages, unreached
from openpai.orchestrator.alert_rules import last_rule, learn_alert_rules
from openpai.orchestrator.alert_state import AlertParts, AlertWatch
from openpai.orchestrator.leader import Leader
from openpai.ports.alerts import ActionRow, Changes, Message, ReportedAlert
from openpai.ports.cluster_settings import ALERT_RULES

EVERY_S: Final = 15.0
PAST_MAX_MS: Final = int(2 * EVERY_S * 1000)
"""At most so much time counts as passed between two evaluations, whatever the clock says."""
REFUSED_MS: Final = 3_600_000
"""How long a rule shows that it was kept from an action."""
_SAVED_AT_ONCE: Final = 100
_HELD_SAVED_MS: Final = 30_000
log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Evaluated:
    rule: Rule
    stepped: Stepped | None
    problem: str = ""


async def watch_alerts(leader: Leader) -> None:
    """Evaluate all rules once, save what follows, and carry it out."""
    parts, watch = leader.alert_parts, leader.alerts
    if parts is None:
        return
    await _learn(leader, parts, watch)
    now_ms = leader.clock.now_ms()
    past_ms = 0 if watch.last_ms is None else min(max(0, now_ms - watch.last_ms), PAST_MAX_MS)
    rules = [rule for rule in watch.rules.values() if rule.is_enabled]
    wanted = list(dict.fromkeys(one for rule in rules for one in selectors(rule.condition)))
    facts = await gather(leader, parts, {one.name for one in wanted} & NAMES.keys())
    data = await fetch(wanted, facts, parts.metrics, now_ms)
    before = watch.alerts or {}
    evaluated = await asyncio.to_thread(_evaluate_all, rules, data, before, now_ms, past_ms)
    evaluated += await _ended(leader, before, {rule.name for rule in rules}, now_ms)
    await _apply(leader, parts, evaluated, now_ms)
    watch.last_ms = now_ms
    if watch.may_have_planned:
        watch.may_have_planned = await carry_out_all(leader, parts)


async def _learn(leader: Leader, parts: AlertParts, watch: AlertWatch) -> None:
    await learn_alert_rules(leader)
    if watch.alerts is not None:
        return
    known: dict[str, list[Alert]] = {}
    for alert in await parts.store.alerts():
        known.setdefault(alert.rule, []).append(alert)
        watch.saved[alert.id] = _kept(alert)
    since_ms = leader.clock.now_ms() - DAY_MS
    rows = await parts.store.actions(since_ms=since_ms, states=("planned", "started", "done", "failed"))
    watch.done = [
        Done(row.rule, row.action, row.target, row.at_ms) for row in rows if row.target or row.state != "failed"
    ]
    watch.alerts = {rule: tuple(alerts) for rule, alerts in known.items()}


async def _ended(
    leader: Leader, before: Mapping[str, tuple[Alert, ...]], enabled: Collection[str], now_ms: int
) -> list[_Evaluated]:
    """Return the rules that were removed or switched off while they fired: whoever heard of it hears of the end."""
    firing = {name for name, alerts in before.items() if any(alert.state is State.FIRING for alert in alerts)}
    found = []
    for name in sorted(firing.difference(enabled)):
        rule = leader.alerts.rules.get(name) or last_rule(await leader.settings.setting(ALERT_RULES), name)
        if rule is not None:
            found.append(_Evaluated(rule, step(rule, {}, before[name], now_ms, 0)))
    return found


def _evaluate_all(
    rules: Sequence[Rule], data: Data, before: Mapping[str, tuple[Alert, ...]], now_ms: int, past_ms: int
) -> list[_Evaluated]:
    return [_evaluated(rule, data, before.get(rule.name, ()), now_ms, past_ms) for rule in rules]


def _evaluated(rule: Rule, data: Data, before: Sequence[Alert], now_ms: int, past_ms: int) -> _Evaluated:
    try:
        result = evaluate(rule.condition, data)
    except ExpressionError as error:
        # Its alerts stay as they are: what cannot be evaluated is neither bad nor good.
        return _Evaluated(rule, None, str(error))
    stepped = step(rule, result.vector, before, now_ms, past_ms)
    problem = ""
    if stepped.left_out:
        problem = f"it has {stepped.left_out} alerts more than the {len(stepped.alerts)} that are kept: narrow it"
    elif result.undefined:
        problem = f"{result.undefined} of its series have no value: it divides by zero, or the result is too large"
    else:
        problem = misnamed(selectors(rule.condition), data)
    return _Evaluated(rule, stepped, problem)


async def _apply(leader: Leader, parts: AlertParts, evaluated: Sequence[_Evaluated], now_ms: int) -> None:
    """Save what follows from an evaluation, then remember it."""
    watch = leader.alerts
    channels = await parts.store.channels()
    users = None
    problems: dict[str, str] = {}
    alerts: dict[str, tuple[Alert, ...]] = {}
    actions: list[ActionRow] = []
    outgoing: list[tuple[str, Message]] = []
    done = [each for each in watch.done if abs(now_ms - each.at_ms) < DAY_MS]
    for each in evaluated:
        rule, name = each.rule, each.rule.name
        if missing := unreached(rule, channels, parts.commands):
            problems[name] = missing
        if each.problem:
            problems[name] = each.problem
        if each.stepped is None:
            alerts[name] = (watch.alerts or {}).get(name, ())
            continue
        found = {alert.id: alert for alert in each.stepped.alerts}
        for alert in tuple(found.values()):
            if _may_act(rule, alert, watch.silences, now_ms):
                rows = plan(leader, rule, alert, done, now_ms)
                actions += rows
                found[alert.id] = replace(alert, has_acted=True)
                if refused := next((row.detail for row in rows if row.state in ("limited", "failed")), ""):
                    watch.refused[name] = now_ms, refused
        notices, changed = due(
            rule, found.values(), now_ms, lambda alert: bool(silenced_by(alert.labels, watch.silences, now_ms))
        )
        found |= {alert.id: alert for alert in changed}
        for notice in notices:
            users = users if users is not None else {user.name: user for user in await parts.users.users()}
            outgoing += messages(notice, rule, channels, users)
            if why := admins_unreached(notice, channels, users):
                watch.refused.setdefault(name, (now_ms, why))
        alerts[name] = tuple(found.values())
    outgoing += [(row.action.argument, _robot_message(row)) for row in actions if _is_webhook(row)]
    actions = [replace(row, state="done") if _is_webhook(row) else row for row in actions]
    await _save(leader, parts, alerts, actions, outgoing)
    # Shown for a while: a loop of an action that causes its own alert is refused only now and then, and who was not
    # notified is noticed only when an alert begins to fire.
    watch.refused = {
        name: found for name, found in watch.refused.items() if name in alerts and abs(now_ms - found[0]) < REFUSED_MS
    }
    watch.done, watch.problems = done, {name: why for name, (_, why) in watch.refused.items()} | problems


def _may_act(rule: Rule, alert: Alert, silences: Sequence[Silence], now_ms: int) -> bool:
    is_due = alert.state is State.FIRING and not alert.has_acted and bool(rule.actions)
    return is_due and not silenced_by(alert.labels, silences, now_ms)


def _is_webhook(row: ActionRow) -> bool:
    return row.state == "planned" and row.action.kind == "webhook"


def _robot_message(row: ActionRow) -> Message:
    text = row.cause.summary or row.rule
    alert = ReportedAlert(row.cause.labels, {"summary": text}, row.at_ms)
    return Message(f"action/{row.key}", f"{row.rule}: {text}", text, "firing", (alert,))


async def _save(
    leader: Leader,
    parts: AlertParts,
    alerts: Mapping[str, tuple[Alert, ...]],
    actions: Sequence[ActionRow],
    outgoing: Sequence[tuple[str, Message]],
) -> None:
    watch = leader.alerts
    present = {alert.id: alert for found in alerts.values() for alert in found}
    changed = [alert for alert in present.values() if watch.saved.get(alert.id) != _kept(alert)]
    # Alerts that were pending, and those of rules that are gone or switched off.
    over = {each.id: each for found in (watch.alerts or {}).values() for each in found if each.id not in present}
    gone = [id_ for id_, alert in over.items() if alert.state is not State.RESOLVED and id_ in watch.saved]
    # No message is sent for a pending alert yet. There may be thousands, and a decision's commit must not wait for all.
    pending = [alert for alert in changed if alert.state is State.PENDING]
    for start in range(0, len(pending), _SAVED_AT_ONCE):
        part = Changes(pending[start : start + _SAVED_AT_ONCE])
        await parts.store.save(part, leader.clock.now_ms(), leader.epoch)
    changed = [alert for alert in changed if alert.state is not State.PENDING]
    if changed or gone or actions or outgoing:
        changes = Changes(changed, gone, actions, outgoing)
        left_out = await parts.store.save(changes, leader.clock.now_ms(), leader.epoch)
        if left_out:
            log.warning("messages are left out because too many wait", left_out=left_out)
    watch.saved = {id_: _kept(alert) for id_, alert in present.items()}
    watch.alerts = dict(alerts)
    watch.may_have_planned |= any(row.state == "planned" for row in actions)


def _kept(alert: Alert) -> object:
    """Return what must be stored of an alert when it changes: not each new value."""
    held = alert.held_ms // _HELD_SAVED_MS if alert.state is State.PENDING else 0
    return (
        alert.state, alert.fired_at_ms, alert.resolved_at_ms, alert.notified_at_ms, alert.stage, alert.has_acted,
        alert.is_end_notified, held,
    )  # fmt: skip

"""Replays a rule on the past: when its alerts would have fired, and what they would have done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from openpai.alerts.actions import Done, limit, target_of
from openpai.alerts.evaluating import evaluate
from openpai.alerts.expressions import ExpressionError, selectors
from openpai.alerts.rules import Rule
from openpai.alerts.series import Fetched, Selector
from openpai.alerts.states import Alert, State, step
from openpai.orchestrator.alert_facts import NAMES, past_job_facts
from openpai.orchestrator.alert_input import at, fetch_past, misnamed
from openpai.orchestrator.alert_messages import unreached
from openpai.orchestrator.alert_state import AlertParts, Facts
from openpai.ports.alert_rules import Replay
from openpai.ports.queries import JobFilter, JobRow
from openpai.series.catalogue import METRICS

STEPS_MAX: Final = 2_016
STEP_MIN_MS: Final = 15_000
JOBS_MAX: Final = 5_000
ALERTS_MAX: Final = 500
KEPT: Final = ("pai_job_waiting_seconds", "pai_job_running_seconds", "pai_job_failed")
"""The recorded values whose past follows from the jobs."""


async def replay(rule: Rule, parts: AlertParts | None, from_ms: int, to_ms: int) -> Replay:
    """Return what a rule would have done between two times."""
    step_ms = max(STEP_MIN_MS, -(-(to_ms - from_ms) // STEPS_MAX))
    wanted = tuple(dict.fromkeys(selectors(rule.condition)))
    measured = [one for one in wanted if one.name not in NAMES]
    metrics = parts.metrics if parts is not None else None
    past = await fetch_past(measured, metrics, from_ms, to_ms, step_ms)
    rows: Sequence[JobRow] = ()
    if parts is not None and any(one.name in KEPT for one in wanted):
        rows = (await parts.jobs.jobs(JobFilter(limit=JOBS_MAX), count=False)).jobs
    found = Replay(from_ms, to_ms, step_ms, is_cut=len(rows) == JOBS_MAX)
    lacking = [one.name for one in measured if one.name in METRICS and (one not in past or not past[one].points)]
    lacking += [one.name for one in wanted if one.name in NAMES and (one.name not in KEPT or one.range_ms)]
    found.unknown, found.problem = tuple(dict.fromkeys(lacking)), misnamed(measured, past)
    await asyncio.to_thread(_run, rule, wanted, past, rows, found)
    if parts is not None and not found.problem:
        found.problem = unreached(rule, await parts.store.channels(), parts.commands)
    return found


def _run(
    rule: Rule, wanted: Sequence[Selector], past: Mapping[Selector, Fetched], rows: Sequence[JobRow], found: Replay
) -> None:
    alerts: tuple[Alert, ...] = ()
    seen: dict[str, Alert] = {}
    done: list[Done] = []
    for at_ms in range(found.from_ms, found.to_ms + 1, found.step_ms):
        facts: Facts = {name: {} for name in NAMES} | (past_job_facts(rows, at_ms) if rows else {})
        try:
            result = evaluate(rule.condition, at(past, facts, wanted, at_ms, found.step_ms))
        except ExpressionError as error:
            found.problem = str(error)
            break
        found.evaluations += 1
        if result.undefined and not found.problem:
            found.problem = f"{result.undefined} series had no value at a time: it divides by zero"
        alerts = step(rule, result.vector, alerts, at_ms, found.step_ms if found.evaluations > 1 else 0).alerts
        for alert in alerts:
            if alert.state is State.PENDING or (alert.id not in seen and len(seen) >= ALERTS_MAX):
                found.is_cut |= alert.state is not State.PENDING
                continue
            if alert.id not in seen:
                _act(rule, alert, done, at_ms, found)
            seen[alert.id] = alert
    found.alerts = sorted(seen.values(), key=lambda alert: alert.fired_at_ms or 0)


def _act(rule: Rule, alert: Alert, done: list[Done], at_ms: int, found: Replay) -> None:
    for spec in rule.actions:
        try:
            target = target_of(spec, dict(alert.labels))
        except ValueError as error:
            found.actions.append((at_ms, str(spec), "", str(error)))
            continue
        why = limit(rule.name, spec, target, rule.actions_per_hour, done, at_ms)
        found.actions.append((at_ms, str(spec), target, why))
        if not why:
            done.append(Done(rule.name, spec, target, at_ms))

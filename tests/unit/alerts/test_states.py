"""Alerts over time: pending, firing and resolved, silences, groups, escalation, and limits of actions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openpai.alerts.actions import ALL_PER_HOUR, ActionSpec, Done, limit, target_of
from openpai.alerts.expressions import parse
from openpai.alerts.grouping import INTERVAL_MS, due
from openpai.alerts.rules import Rule, Stage
from openpai.alerts.series import Vector, as_labels
from openpai.alerts.silences import Silence, read_matchers, silenced_by
from openpai.alerts.states import ALERTS_MAX, Alert, State, step

MINUTE = 60_000
BASE = 1_700_000_000_000
RULE = Rule("Low", "x < 1", parse("x < 1"), for_ms=10 * MINUTE, labels=(("team", "of {{ labels.job }}"),),
            annotations={"summary": "job {{ labels.job }} has {{ value }}"})  # fmt: skip
A: Vector = {as_labels({"job": "a"}): 0.5}
B: Vector = {as_labels({"job": "b"}): 0.7}


class Run:
    """A rule over time."""

    def __init__(self, rule: Rule = RULE) -> None:
        self.rule, self.now_ms, self.alerts = rule, BASE, ()  # type: tuple[Alert, ...]

    def after(self, minutes: float, vector: Vector, clock_minutes: float | None = None) -> list[State]:
        self.now_ms += int((minutes if clock_minutes is None else clock_minutes) * MINUTE)
        self.alerts = step(self.rule, vector, self.alerts, self.now_ms, int(minutes * MINUTE)).alerts
        return [alert.state for alert in self.alerts]


def test_an_alert_is_pending_then_fires_then_is_over() -> None:
    run = Run()
    assert run.after(0, A) == [State.PENDING]
    assert run.after(9, A) == [State.PENDING]
    assert run.after(1, A) == [State.FIRING]
    [alert] = run.alerts
    assert dict(alert.labels) == {"job": "a", "team": "of a", "alertname": "Low", "severity": "warn"}
    assert alert.annotations == {"summary": "job a has 0.5"}
    assert (alert.since_ms, alert.fired_at_ms) == (BASE, BASE + 10 * MINUTE)
    assert run.after(1, {}) == [State.RESOLVED]
    assert run.after(30, A) == [State.PENDING, State.RESOLVED]
    assert run.after(40, {}) == []


def test_a_condition_that_holds_with_gaps_does_not_fire() -> None:
    run = Run()
    for _ in range(5):
        assert run.after(6, A) == [State.PENDING]
        assert run.after(1, {}) == []


def test_without_a_time_it_fires_at_once() -> None:
    assert Run(replace(RULE, for_ms=0)).after(0, A) == [State.FIRING]


def test_a_clock_that_jumps_neither_fires_nor_holds_up() -> None:
    run = Run()
    run.after(0, A)
    # It jumps two days ahead, then back by a year; ten minutes really pass.
    assert run.after(0.5, A, clock_minutes=2 * 1440) == [State.PENDING]
    assert run.after(0.5, A, clock_minutes=-365 * 1440) == [State.PENDING]
    assert run.after(8.9, A) == [State.PENDING]
    assert run.after(0.1, A) == [State.FIRING]
    assert run.after(1, {}) == [State.RESOLVED]


def test_a_rule_keeps_a_bounded_number_of_alerts_and_the_known_ones_first() -> None:
    rule = replace(RULE, for_ms=0)
    first = {as_labels({"job": f"z{number:05}"}): 0.0 for number in range(ALERTS_MAX)}
    run = Run(rule)
    run.after(0, first)
    more = first | {as_labels({"job": f"a{number}"}): 0.0 for number in range(7)}
    stepped = step(rule, more, run.alerts, run.now_ms, MINUTE)
    assert stepped.left_out == 0 or len([a for a in stepped.alerts if a.state is State.FIRING]) <= ALERTS_MAX + 7
    assert not [a for a in stepped.alerts if a.state is State.RESOLVED]


def test_a_rule_that_flaps_shows_a_bounded_number_of_ends_and_forgets_none_that_is_to_be_sent() -> None:
    run = Run(replace(RULE, for_ms=0))
    many = {as_labels({"job": str(number)}): 0.5 for number in range(ALERTS_MAX // 4)}
    run.after(0, many)
    # Receivers heard of the first one.
    run.alerts = (replace(run.alerts[0], notified_at_ms=BASE), *run.alerts[1:])
    first = run.alerts[0].id
    for _ in range(6):
        run.after(0.25, {})
        run.after(0.25, many)
    ended = [alert for alert in run.alerts if alert.state is State.RESOLVED]
    assert len(ended) == ALERTS_MAX + 1
    assert first in {alert.id for alert in ended}
    assert max(alert.resolved_at_ms or 0 for alert in ended) == run.now_ms - MINUTE // 4


def fired(vector: Vector, rule: Rule = RULE, **more: object) -> Alert:
    [alert] = step(replace(rule, for_ms=0), vector, (), BASE, 0).alerts
    return replace(alert, **more)  # type: ignore[arg-type]


def never(alert: Alert) -> bool:
    return False


def test_a_group_is_notified_at_its_begin_when_it_grows_again_later_and_at_its_end() -> None:
    a, b = fired(A), fired(B)
    [first], [a] = due(RULE, [a], BASE, never)
    assert (first.firing[0].labels, first.receivers) == (a.labels, ("admins",))
    assert due(RULE, [a], BASE + MINUTE, never) == ([], [])
    assert due(RULE, [a, b], BASE + MINUTE, never) == ([], [])
    [grown], changed = due(RULE, [a, b], BASE + INTERVAL_MS, never)
    assert len(grown.firing) == 2
    a, b = sorted(changed, key=lambda each: each.labels)
    assert due(RULE, [a, b], BASE + RULE.repeat_ms, never) == ([], [])
    [again], _ = due(RULE, [a, b], BASE + INTERVAL_MS + RULE.repeat_ms, never)
    assert len(again.firing) == 2
    ended = [replace(each, state=State.RESOLVED, resolved_at_ms=BASE + 7 * MINUTE) for each in (a, b)]
    [over], changed = due(RULE, ended, BASE + 11 * MINUTE, never)
    assert (len(over.firing), len(over.resolved)) == (0, 2)
    assert due(RULE, changed, BASE + 12 * MINUTE, never) == ([], [])


def test_an_alert_without_a_notice_ends_silently() -> None:
    ended = fired(A, state=State.RESOLVED, resolved_at_ms=BASE)
    assert due(RULE, [ended], BASE, never) == ([], [])


def test_a_time_of_notice_in_the_future_does_not_silence_an_alert_for_years() -> None:
    alert = fired(A, notified_at_ms=BASE + 400 * 86_400_000)
    [notice], [after] = due(RULE, [alert], BASE, never)
    assert after.notified_at_ms == notice.at_ms == BASE


def test_groups_are_by_the_labels_that_the_rule_names() -> None:
    rule = replace(RULE, group_by=("job",))
    notices, _ = due(rule, [fired(A, rule), fired(B, rule)], BASE, never)
    assert [notice.group for notice in notices] == [(("job", "a"),), (("job", "b"),)]


def test_escalation_hears_of_what_fires_for_long_once_for_each_stage() -> None:
    rule = replace(RULE, escalate=(Stage(10 * MINUTE, ("chat",)), Stage(30 * MINUTE, ("pager",))))
    [alert] = due(rule, [fired(A, rule)], BASE, never)[1]
    assert due(rule, [alert], BASE + 9 * MINUTE, never) == ([], [])
    [notice], [alert] = due(rule, [alert], BASE + 10 * MINUTE, never)
    assert (notice.receivers, alert.stage) == (("chat",), 1)
    assert due(rule, [alert], BASE + 20 * MINUTE, never) == ([], [])
    [notice], [alert] = due(rule, [alert], BASE + 30 * MINUTE, never)
    assert (notice.receivers, alert.stage) == (("pager",), 2)
    assert due(rule, [alert], BASE + 60 * MINUTE, never) == ([], [])


def test_every_stage_that_heard_of_an_alert_hears_of_its_end_once() -> None:
    rule = replace(RULE, notify=(), escalate=(Stage(10 * MINUTE, ("chat",)), Stage(30 * MINUTE, ("pager",))))
    notices, [alert] = due(rule, [fired(A, rule)], BASE, never)
    assert notices == []
    _, [alert] = due(rule, [alert], BASE + 10 * MINUTE, never)
    over = replace(alert, state=State.RESOLVED, resolved_at_ms=BASE + 20 * MINUTE)
    [notice], [ended] = due(rule, [over], BASE + 20 * MINUTE, never)
    assert (notice.receivers, notice.firing, [each.id for each in notice.resolved]) == (("chat",), (), [alert.id])
    assert due(rule, [ended], BASE + 40 * MINUTE, never) == ([], [])


def test_silences() -> None:
    alert = fired(A)
    matchers = read_matchers(["Low", "job=~a|c", "severity!=fatal"])
    silence = Silence("s1", matchers, BASE, BASE + MINUTE, "root")
    assert silenced_by(alert.labels, [silence], BASE) == ("s1",)
    assert silenced_by(fired(B).labels, [silence], BASE) == ()
    assert silenced_by(alert.labels, [silence], BASE + MINUTE) == ()
    # Where the clock is set back after a silence was made, it holds all the same.
    assert silenced_by(alert.labels, [silence], BASE - 60 * MINUTE) == ("s1",)
    assert due(RULE, [alert], BASE, lambda each: True) == ([], [])
    for wrong in ([], ["job=~("], ["a b=c"]):
        with pytest.raises(ValueError, match="matcher"):
            read_matchers(wrong)


def test_an_action_needs_its_labels() -> None:
    assert target_of(ActionSpec("mark-bad"), {"node_name": "n1", "minor_number": "3"}) == "n1/3"
    assert target_of(ActionSpec("command", "page"), {}) == ""
    with pytest.raises(ValueError, match="no label 'job_name', which stop needs"):
        target_of(ActionSpec("stop"), {"node_name": "n1"})


def test_limits_of_actions_break_a_loop_and_say_so() -> None:
    stop = ActionSpec("stop")

    def why(done: list[Done], per_hour: int = 10) -> str:
        return limit("Low", stop, "ann~a", per_hour, done, BASE)

    same = [Done("Low", ActionSpec("stop"), "ann~a", BASE - each * 3 * 3_600_000) for each in range(3)]
    assert why(same[:2]) == ""
    assert "3 times within a day: it seems to be a loop" in why(same)
    others = [Done("Low", ActionSpec("stop"), f"ann~{number}", BASE - MINUTE) for number in range(10)]
    assert "acted 10 times within an hour, and actionsPerHour is 10" in why(others)
    assert why(others, 11) == ""
    all_rules = [
        Done(f"R{number}", ActionSpec("stop"), f"ann~{number}", BASE - MINUTE) for number in range(ALL_PER_HOUR)
    ]
    assert "all rules together acted 100 times" in why(all_rules)
    # Times that a clock of the future left count no more.
    assert why([replace(each, at_ms=BASE + 9 * 86_400_000) for each in same]) == ""

"""Rules: read from YAML with the place of a fault, and those that come with the platform."""

from __future__ import annotations

import pytest

from openpai.alerts.actions import ActionSpec
from openpai.alerts.evaluating import evaluate
from openpai.alerts.expressions import selectors
from openpai.alerts.rules import InvalidRule, Stage, built_in, milliseconds, read_rule
from openpai.alerts.series import matching
from openpai.alerts.templates import fill

WHOLE = """\
alert: LowUse
expr: avg_over_time(task_gpu_percent{vc_name="default"}[1h]) < 30
for: 1h30m
severity: error
labels: {team: infra}
annotations:
  summary: "job {{ labels.job_name }} uses {{ value }} %"
notify: [admins, owner, chat]
repeat: 12h
groupBy: [vc_name]
escalate:
- {after: 2h, notify: [pager]}
- {after: 1h, notify: [chat]}
actions: [stop, {tag: low-use}, cordon]
actionsPerHour: 3
dryRun: true
enabled: false
"""


def test_every_key_of_a_rule() -> None:
    rule = read_rule(WHOLE)
    assert (rule.name, rule.for_ms, rule.severity, rule.labels) == ("LowUse", 5_400_000, "error", (("team", "infra"),))
    assert (rule.notify, rule.repeat_ms, rule.group_by) == (("admins", "owner", "chat"), 43_200_000, ("vc_name",))
    assert rule.escalate == (Stage(3_600_000, ("chat",)), Stage(7_200_000, ("pager",)))
    assert rule.actions == (ActionSpec("stop"), ActionSpec("tag", "low-use"), ActionSpec("cordon"))
    assert (rule.actions_per_hour, rule.is_dry, rule.is_enabled) == (3, True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alert: A\nexpr: x >", "line 2, column 10: expected a number"),
        ('alert: A\nexpr: "x > > 1"', "line 2, column 12: expected a number"),
        ("alert: A\nexpr: |\n  x > > 1\n", "line 2, column 7: character 5 of the text that begins here"),
        ("alert: A", "line 1, column 1: `expr`, the condition, is missing"),
        ("expr: x > 1", "line 1, column 1: `alert`, the name"),
        ("alert: A\nexpr: x > 1\ncolour: red", "line 3, column 1: there is no key 'colour'"),
        ("alert: A\nalert: B\nexpr: x > 1", "line 2, column 1: 'alert' is there twice"),
        ("alert: A-B\nexpr: x > 1", "line 1, column 8: 'A-B' is not a name"),
        ("alert: A\nexpr: x > 1\nfor: soon", "line 3, column 6: 'soon' is not a length of time"),
        ("alert: A\nexpr: x > 1\nfor: 9999w", "longer than a year"),
        ("alert: A\nexpr: x > 1\nseverity: bad", "line 3, column 11: 'bad' is not a severity"),
        ("alert: A\nexpr: x > 1\nactions: [explode]", "line 3, column 11: there is no action 'explode'"),
        ("alert: A\nexpr: x > 1\nactions: [tag]", "tag needs a tag, as in `tag: low-use`"),
        ("alert: A\nexpr: x > 1\nactions: ['tag: idle']", "write tag: idle without quotes around both"),
        ("alert: A\nexpr: x > 1\nactions: [{stop: now}]", "'now' is not an argument that stop takes"),
        ("alert: A\nexpr: x > 1\nactions: [{command: 'rm -rf /'}]", "is not the name of a command"),
        ("alert: A\nexpr: x > 1\nannotations: {summary: '{{ open(1) }}'}", "line 3, column 25: "),
        ("alert: A\nexpr: x > 1\nannotations: {summary: 'a {{ b'}", "`{{` has no `}}`"),
        ("alert: A\nexpr: x > 1\nlabels: {severity: x}", "not a name that labels may have"),
        ("alert: A\nexpr: x > 1\nnotify: ['a b']", "not the name of a channel"),
        ("alert: A\nexpr: x > 1\nactionsPerHour: 0", "a whole number from 1 to 1000"),
        ("[]", "line 1, column 1: a rule is a mapping"),
        ("a: [", "line 2, column 1"),
        ("alert: A\nexpr: x > 1\nlabels: " + "[" * 3000, r"line [34], column \d"),
        ("x" * 17000, "larger than 16 KiB"),
    ],
)  # fmt: skip
def test_a_fault_names_its_line_and_column(text: str, message: str) -> None:
    with pytest.raises(InvalidRule, match=message):
        read_rule(text)


def test_every_fault_is_named_in_the_order_of_the_text() -> None:
    with pytest.raises(InvalidRule) as found:
        read_rule("alert: A-B\ncolour: red\nexpr: x > >\nfor: soon\nactions: [explode]\nfor: 1m")
    first, *faults = str(found.value).splitlines()
    assert first == "the rule has 6 faults:"
    assert [fault.split(",")[0].strip() for fault in faults] == [f"line {number}" for number in range(1, 7)]
    with pytest.raises(InvalidRule) as found:
        read_rule("alert: A\nexpr: x > 1\n" + "".join(f"k{number}: 1\n" for number in range(100)))
    assert len(str(found.value).splitlines()) == 22
    assert str(found.value).endswith("  and 80 more")


def test_a_rule_has_the_name_under_which_it_is_stored() -> None:
    with pytest.raises(InvalidRule, match="named 'LowUse', not 'Other'"):
        read_rule(WHOLE, "Other")


def test_lengths_of_time() -> None:
    assert [milliseconds(each) for each in ("90s", "30m", "1h30m", "7d", "1w", "0s")] == [
        90_000, 1_800_000, 5_400_000, 604_800_000, 604_800_000, 0,
    ]  # fmt: skip


def test_templates_show_values_and_nothing_else() -> None:
    text = (
        "{{ labels.job_name }} {{$value}} {{ value | percent }} {{ value|duration }} {{labels.no}}{{ labels.b|bytes }}"
    )
    assert fill(text, {"job_name": "{{ value }}", "b": "2048"}, 0.5) == "{{ value }} 0.5 50 % 0 s 2 KiB"


@pytest.mark.parametrize("name", sorted(built_in()))
def test_each_built_in_rule_fires_for_what_it_is_about(name: str) -> None:
    rule = read_rule(built_in()[name], name)
    assert rule.annotations.get("summary")
    low = [(("job_name", "ann~train"), ("vc_name", "default"))]
    for value in (0.0, 0.05, 1.0, 9.0, 100.0, 9e6):
        data = {}
        for one in selectors(rule.condition):
            size = one.name.endswith("total_bytes")
            vector = dict.fromkeys(low, 1.0 if size else value)
            if one.name == "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS":
                vector = dict.fromkeys(low, 0.0)
            if one.name == "pai_job_running_seconds":
                vector = dict.fromkeys(low, 9e6)
            if one.name == "pai_gpu_held":
                vector = {}
            data[one] = matching(vector, one.matchers)
            if one.range_ms:
                points = {labels: [(0, found), (1, found)] for labels, found in vector.items()}
                data[one] = type(data[one])({}, points)
        if evaluate(rule.condition, data).vector:
            return
    pytest.fail(f"{name} never fires")

"""Expressions: what they read, where a fault is, and what they are worth."""

from __future__ import annotations

import re

import pytest

from openpai.alerts.evaluating import Result, evaluate
from openpai.alerts.expressions import DEPTH_MAX, Expression, ExpressionError, parse, selectors
from openpai.alerts.series import SERIES_MAX, Data, Fetched, Labels, Vector, as_labels, matching
from tests.costs import lines_run


def labels(**pairs: str) -> Labels:
    return as_labels(pairs)


def worth(text: str, **metrics: Vector | dict[Labels, list[tuple[int, float]]]) -> Result:
    """Return the result of an expression over metrics: vectors, or points where it asks for a range."""
    expression = parse(text)
    return evaluate(expression, data_for(expression, metrics))


def data_for(expression: Expression, metrics: dict[str, object]) -> Data:
    data = {}
    for one in selectors(expression):
        found = matching(metrics.get(one.name, {}), one.matchers)  # type: ignore[arg-type]
        data[one] = Fetched({}, found.newest, found.is_cut) if one.range_ms else found  # type: ignore[arg-type]
    return data


N1, N2 = labels(node="n1"), labels(node="n2")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("used > 0.5", {N1: 0.9}),
        ("0.5 < used", {N1: 0.9}),
        ('used{node="n2"} < 1', {N2: 0.2}),
        ('used{node!="n2"} < 1', {N1: 0.9}),
        ('used{node=~"n[23]"} < 1', {N2: 0.2}),
        ('used{node!~"n[23]"} < 1', {N1: 0.9}),
        ("used / size * 100 > 40", {N1: 45}),
        ("used / size * 100 > 40 or used < 0.5", {N1: 45, N2: 0.2}),
        ("used > 0 unless size > 3", {N1: 0.9}),
        ("used > 0 and size > 3", {N2: 0.2}),
        ("sum(used) > 1", {(): 1.1}),
        ("sum by (node) (used) > 0.5", {N1: 0.9}),
        ("count(used) by (zone) == 2", {(): 2}),
        ("max(size) > 3", {(): 4}),
        ("-used < -0.5", {N1: -0.9}),
        ("2 + 3 * 4 - used > 13.5", {N2: 13.8}),
        ("(2 + 3) * used > 4", {N1: 4.5}),
        ("abs(used - 1) > 0.5", {N2: 0.8}),
        ("absent(none)", {(): 1}),
        ('absent(used{node="n9"})', {labels(node="n9"): 1}),
        ("absent(used)", {}),
        ("none > 1", {}),
    ],
)
def test_what_an_expression_is_worth(text: str, found: Vector) -> None:
    result = worth(text, used={N1: 0.9, N2: 0.2}, size={N1: 2, N2: 4})
    assert result.vector == {each: pytest.approx(value) for each, value in found.items()}


def test_labels_that_must_agree_may_be_named() -> None:
    gpu = {labels(job="a", gpu="0"): 3.0, labels(job="b", gpu="0"): 3.0}
    age = {labels(job="a", user="ann"): 9000.0, labels(job="b", user="bob"): 10.0}
    result = worth("gpu < 5 and on (job) age > 7200", gpu=gpu, age=age)
    assert result.vector == {labels(job="a", gpu="0"): 3.0}


def test_thousands_of_series_are_not_compared_with_none() -> None:
    expression = parse("used > 1024 unless on (task) held")
    held = {labels(task=str(number), node="n1"): 1.0 for number in range(5_000)}
    data = data_for(expression, {"held": held})
    assert lines_run(lambda: evaluate(expression, data)) < 1_000
    assert evaluate(expression, data).vector == {}


def test_functions_of_ranges() -> None:
    points = {N1: [(0, 10.0), (60_000, 20.0), (120_000, 5.0), (180_000, 6.0)]}
    for text, value in [
        ("avg_over_time(x[5m]) > 0", 10.25), ("min_over_time(x[5m]) > 0", 5), ("max_over_time(x[5m]) > 0", 20),
        ("sum_over_time(x[5m]) > 0", 41), ("count_over_time(x[5m]) > 0", 4), ("last_over_time(x[5m]) > 0", 6),
        ("delta(x[5m]) < 0", -4), ("changes(x[5m]) > 0", 3),
        # A counter that falls began again from zero.
        ("increase(x[5m]) > 0", 16), ("rate(x[5m]) > 0", 16 / 180),
    ]:  # fmt: skip
        assert worth(text, x=points).vector == {N1: pytest.approx(value)}, text
    assert worth("rate(x[5m]) >= 0", x={N1: [(0, 1.0)]}).vector == {}


def test_a_division_by_zero_has_no_value_and_is_counted() -> None:
    result = worth("used / size > 0.5", used={N1: 1.0, N2: 1.0}, size={N1: 0.0, N2: 1.0})
    assert (result.vector, result.undefined) == ({N2: 1.0}, 1)
    assert worth("used * 1e308 * 10 > 1", used={N1: 1e10}).undefined == 1
    with pytest.raises(ExpressionError, match="divides by zero"):
        parse("used / 0 > 1")


def test_too_many_series_are_refused_and_not_read() -> None:
    many = {labels(task=str(number)): 1.0 for number in range(SERIES_MAX + 1)}
    with pytest.raises(ExpressionError, match="more than 10,000 series; narrow it"):
        worth("x > 0", x=many)
    assert len(worth("x > 0", x=dict(list(many.items())[:-1])).vector) == SERIES_MAX


def test_several_partners_are_refused_with_their_labels() -> None:
    with pytest.raises(ExpressionError, match="several series on the right of '/' have job='a'"):
        worth("x / on (job) y > 1", x={labels(job="a"): 1}, y={labels(job="a", n="1"): 1, labels(job="a", n="2"): 1})


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("", "expected a number, a metric", 0),
        ("used", "would always fire", 0),
        ("used and size", "would always fire", 0),
        ("used >", "but the expression ends", 6),
        ("used > 1 2", "expected an operator, or the end", 9),
        ("used > 1 and 2", "joins conditions", 9),
        ("1 > 2", "never changes", 2),
        ("nosuch(used) > 1", "there is no function 'nosuch'", 0),
        ("rate(used) > 1", "needs a range", 0),
        ("used[5m] > 1", "a range needs a function", 9),
        ("abs(used[5m]) > 1", "needs series", 0),
        ("rate(used[99w]) > 1", "1s to 32d", 9),
        ('used{node="n1} > 1', "cannot stand here", 10),
        ('used{node=~"("} > 1', "'(' is not a pattern of RE2: missing ): (", 11),
        ("used{node} > 1", "expected =, !=, =~ or !~", 9),
        ("used $ 1", "'$ 1' cannot stand here", 5),
        ("(" * (DEPTH_MAX + 2) + "used", "nested more than", DEPTH_MAX + 1),
        ("used > 1" + " or used > 1" * 40, "operands in a row", 381),
        ("x" * 5000 + " > 1", "5004 characters", 0),
    ],
)
def test_a_fault_has_its_place(text: str, message: str, offset: int) -> None:
    with pytest.raises(ExpressionError, match=re.escape(message)) as caught:
        parse(text)
    assert caught.value.offset == offset

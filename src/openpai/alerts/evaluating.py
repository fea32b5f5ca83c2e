"""Evaluates expressions over fetched data. A value that does not exist, as after a division by zero, has no series."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from openpai.alerts.expressions import (
    COMPARISONS,
    Aggregate,
    Binary,
    Call,
    Expression,
    ExpressionError,
    Number,
    Select,
)
from openpai.alerts.series import NOTHING, SERIES_MAX, Data, Fetched, Labels, Points, Selector, Vector, as_labels

_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": math.fmod,
}  # fmt: skip
_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_MIRROR: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(slots=True)
class Result:
    """The series for which a condition holds, with their values, and how many have no value."""

    vector: Vector
    undefined: int = 0
    """Series that were left out because their value does not exist: divided by zero, or too large a number."""


@dataclass(slots=True)
class _Run:
    data: Data
    undefined: int = 0
    seen: dict[int, Vector] = field(default_factory=dict)


def evaluate(expression: Expression, data: Data) -> Result:
    """Return where a condition holds; raise ExpressionError when it matches too many series, or cannot be joined."""
    run = _Run(data)
    found = _vector(run, expression)
    return Result(found, run.undefined)


def _vector(run: _Run, expression: Expression) -> Vector:
    match expression:
        case Select(selector):
            return dict(_fetched(run, selector).newest)
        case Call(function, of):
            return _called(run, function, of)
        case Aggregate(function, by, of):
            return _aggregated(run, function, by, _vector(run, of))
        case Binary("and" | "or" | "unless", left, right):
            return _set(run, expression)
        case Binary(operator_, left, Number(value)):
            return _with_number(run, operator_, _vector(run, left), value, is_left=False)
        case Binary(operator_, Number(value), right):
            return _with_number(run, operator_, _vector(run, right), value, is_left=True)
        case Binary(operator_, left, right, on):
            return _joined(run, operator_, _vector(run, left), _vector(run, right), on)
    raise ExpressionError("a number is no series")


def _fetched(run: _Run, selector: Selector) -> Fetched:
    fetched = run.data.get(selector, NOTHING)
    if fetched.is_cut:
        raise ExpressionError(f"{selector} matches more than {SERIES_MAX:,} series; narrow it by labels")
    if fetched.problem:
        raise ExpressionError(fetched.problem)
    return fetched


def _with_number(run: _Run, sign: str, vector: Vector, number: float, *, is_left: bool) -> Vector:
    if sign in COMPARISONS:
        holds = _COMPARE[_MIRROR[sign] if is_left else sign]
        return {labels: value for labels, value in vector.items() if holds(value, number)}
    found: Vector = {}
    for labels, value in vector.items():
        _put(run, found, labels, sign, *((number, value) if is_left else (value, number)))
    return found


def _joined(run: _Run, sign: str, left: Vector, right: Vector, on: tuple[str, ...] | None) -> Vector:
    """Join each series of the left with the one of the right whose labels agree."""
    others: dict[Labels, float] = {}
    for labels, value in right.items():
        key = _key(labels, on)
        if key in others:
            shown = ", ".join(f"{name}={text!r}" for name, text in key) or "no labels"
            raise ExpressionError(f"several series on the right of {sign!r} have {shown}; aggregate them, as by sum by")
        others[key] = value
    found: Vector = {}
    for labels, value in left.items():
        other = others.get(_key(labels, on))
        if other is None:
            continue
        if sign not in COMPARISONS:
            _put(run, found, labels, sign, value, other)
        elif _COMPARE[sign](value, other):
            found[labels] = value
    return found


def _put(run: _Run, found: Vector, labels: Labels, sign: str, left: float, right: float) -> None:
    try:
        value = _ARITHMETIC[sign](left, right)
    except (ZeroDivisionError, ValueError, OverflowError):
        value = math.nan
    if math.isfinite(value):
        found[labels] = value
    else:
        run.undefined += 1


def _set(run: _Run, expression: Binary) -> Vector:
    left, right = _vector(run, expression.left), _vector(run, expression.right)
    on = expression.on
    if expression.operator == "or":
        known = {_key(labels, on) for labels in left}
        return left | {labels: value for labels, value in right.items() if _key(labels, on) not in known}
    # Of thousands of GPUs that are held none is compared where nothing is measured.
    others = {_key(labels, on) for labels in right} if left else set()
    is_and = expression.operator == "and"
    return {labels: value for labels, value in left.items() if (_key(labels, on) in others) is is_and}


def _key(labels: Labels, on: tuple[str, ...] | None) -> Labels:
    return labels if on is None else tuple(pair for pair in labels if pair[0] in on)


def _aggregated(run: _Run, function: str, by: tuple[str, ...], vector: Vector) -> Vector:
    groups: dict[Labels, list[float]] = {}
    for labels, value in vector.items():
        groups.setdefault(_key(labels, by), []).append(value)
    fold = _FOLDS[function]
    return {labels: fold(values) for labels, values in groups.items()}


def _called(run: _Run, function: str, of: Expression) -> Vector:
    if function == "absent":
        if _vector(run, of):
            return {}
        equal = of.selector.matchers if isinstance(of, Select) else ()
        return {as_labels((each.label, each.value) for each in equal if each.operator == "="): 1.0}
    if function == "abs":
        return {labels: abs(value) for labels, value in _vector(run, of).items()}
    if not isinstance(of, Select):
        raise ExpressionError(f"{function} needs a range of a metric")
    fetched = _fetched(run, of.selector)
    fold = _OVER[function]
    found: Vector = {}
    for labels, points in fetched.points.items():
        value = fold(points, of.selector.range_ms)
        if value is not None and math.isfinite(value):
            found[labels] = value
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


_FOLDS: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "sum": sum, "avg": _mean, "min": min, "max": max, "count": lambda values: float(len(values)),
}  # fmt: skip


def _over(fold: Callable[[list[float]], float]) -> Callable[[Points, int], float | None]:
    return lambda points, range_ms: fold([value for _, value in points]) if points else None


def _increase(points: Points, range_ms: int) -> float | None:
    """Return by how much a counter grew; it starts again from zero when its program does."""
    if len(points) < 2:
        return None
    grown = 0.0
    for (_, before), (_, after) in pairwise(points):
        grown += after - before if after >= before else after
    return grown


def _rate(points: Points, range_ms: int) -> float | None:
    grown = _increase(points, range_ms)
    past_ms = points[-1][0] - points[0][0] if points else 0
    return None if grown is None or past_ms <= 0 else grown / (past_ms / 1000)


def _delta(points: Points, range_ms: int) -> float | None:
    return points[-1][1] - points[0][1] if len(points) > 1 else None


def _changes(points: Points, range_ms: int) -> float | None:
    if not points:
        return None
    return float(sum(before != after for (_, before), (_, after) in pairwise(points)))


_OVER: Final[Mapping[str, Callable[[Points, int], float | None]]] = {
    "avg_over_time": _over(_mean),
    "min_over_time": _over(min),
    "max_over_time": _over(max),
    "sum_over_time": _over(sum),
    "count_over_time": _over(lambda values: float(len(values))),
    "last_over_time": _over(lambda values: values[-1]),
    "rate": _rate,
    "increase": _increase,
    "delta": _delta,
    "changes": _changes,
}

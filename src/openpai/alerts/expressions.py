"""The expressions of alert rules, in the part of PromQL that a rule needs: read, checked and bounded.

    node_disk_used_bytes / node_disk_size_bytes > 0.9
    avg_over_time(task_gpu_percent{virtual_cluster="default"}[1h]) < 3 and on (job_name) pai_job_running_seconds > 7200
    sum by (job_name) (rate(task_net_in_byte[5m])) == 0
    absent(up{job="node"})

A reader by precedence (Pratt's), because a rule needs the place of its fault and a limit on its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from openpai.alerts.series import Matcher, Selector, pattern

TEXT_MAX: Final = 4000
DEPTH_MAX: Final = 32
SELECTORS_MAX: Final = 16
RANGE_MAX_MS: Final = 32 * 86_400_000

OVER_RANGES: Final = frozenset(
    f"{what}_over_time" for what in ("avg", "min", "max", "sum", "count", "last")
) | {"rate", "increase", "delta", "changes"}  # fmt: skip
OVER_VECTORS: Final = frozenset({"absent", "abs"})
AGGREGATIONS: Final = frozenset({"sum", "avg", "min", "max", "count"})
COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
_POWER: Final = {
    "or": 1, "and": 2, "unless": 2, **dict.fromkeys(COMPARISONS, 3), "+": 4, "-": 4, "*": 5, "/": 5, "%": 5,
}  # fmt: skip
_UNARY: Final = 6
_TOKENS: Final = re.compile(
    r"""\s*(?:
      (?P<range>\[\s*(?P<amount>\d{1,9})(?P<unit>[smhdw])\s*\])
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)
    | (?P<word>[A-Za-z_:][\w:]*)
    | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<sign>==|!=|<=|>=|=~|!~|[-+*/%<>(){}=,])
    | (?P<end>$)
    )""",
    re.VERBOSE,
)
UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_ESCAPED: Final = re.compile(r"\\(.)")


class ExpressionError(ValueError):
    """An expression that cannot be read, or has no result; `offset` is the place of its fault."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True, slots=True)
class Select:
    """The values of a selector."""

    selector: Selector


@dataclass(frozen=True, slots=True)
class Call:
    """A function of series."""

    function: str
    of: Expression


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Several series made one for each value of some labels."""

    function: str
    by: tuple[str, ...]
    of: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """Two sides joined by an operator; `on` are the labels that must agree, None for all."""

    operator: str
    left: Expression
    right: Expression
    on: tuple[str, ...] | None = None


Expression = Number | Select | Call | Aggregate | Binary


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    range_ms: int = 0


def parse(text: str) -> Expression:
    """Return the condition that a text says; raise ExpressionError with the place of its first fault."""
    if len(text) > TEXT_MAX:
        raise ExpressionError(f"the expression has {len(text)} characters; {TEXT_MAX} are allowed")
    reader = _Reader(list(_tokens(text)))
    found = reader.expression(0, 0)
    reader.expect("end", "an operator, or the end of the expression")
    if not _is_condition(found):
        raise ExpressionError("it has no condition and would always fire: compare it with a value, as in `> 0.9`")
    if len(reader.selectors) > SELECTORS_MAX:
        raise ExpressionError(f"it selects {len(reader.selectors)} sets of series; {SELECTORS_MAX} are allowed")
    return found


def selectors(expression: Expression) -> Iterator[Selector]:
    """Yield what an expression selects."""
    match expression:
        case Select(selector):
            yield selector
        case Call(_, of) | Aggregate(_, _, of):
            yield from selectors(of)
        case Binary(_, left, right):
            yield from selectors(left)
            yield from selectors(right)


def _is_condition(expression: Expression) -> bool:
    match expression:
        case Call("absent", _):
            return True
        case Binary("or", left, right):
            return _is_condition(left) and _is_condition(right)
        case Binary("and" | "unless", left, right):
            return _is_condition(left) or _is_condition(right)
        case Binary(operator, left, right):
            return operator in COMPARISONS and not (isinstance(left, Number) and isinstance(right, Number))
    return False


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while True:
        found = _TOKENS.match(text, at)
        if found is None or found.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise ExpressionError(f"{text[start : start + 12]!r} cannot stand here", start)
        kind = next(name for name in ("range", "number", "word", "text", "sign", "end") if found[name] is not None)
        range_ms = int(found["amount"]) * UNITS_MS[found["unit"]] if kind == "range" else 0
        yield _Token(kind, found[kind], found.start(kind), range_ms)
        if kind == "end":
            return
        at = found.end()


class _Reader:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self.selectors: list[Selector] = []

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        taken = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return taken

    def _is(self, *texts: str) -> bool:
        return self._next.kind in ("sign", "word") and self._next.text in texts

    def expect(self, text: str, what: str) -> _Token:
        if self._next.kind == text or (self._next.kind != "text" and self._next.text == text):
            return self._take()
        raise self._fault(f"expected {what}")

    def _fail(self, message: str, at: int) -> NoReturn:
        raise ExpressionError(message, at)

    def _fault(self, message: str) -> ExpressionError:
        found = f", not {self._next.text!r}" if self._next.kind != "end" else ", but the expression ends"
        return ExpressionError(message + found, self._next.at)

    def expression(self, least: int, depth: int) -> Expression:
        if depth > DEPTH_MAX:
            self._fail(f"it is nested more than {DEPTH_MAX} levels deep", self._next.at)
        left = self._operand(depth)
        operands = 0
        while self._next.kind in ("sign", "word") and (power := _POWER.get(self._next.text, 0)) > least:
            operands += 1
            if operands > DEPTH_MAX:
                self._fail(f"more than {DEPTH_MAX} operands in a row", self._next.at)
            token = self._take()
            on = self._labels() if self._is("on") and self._take() else None
            right = self.expression(power, depth + 1)
            left = self._joined(token, left, right, on)
        return left

    def _joined(self, token: _Token, left: Expression, right: Expression, on: tuple[str, ...] | None) -> Expression:
        for side in (left, right):
            if isinstance(side, Select) and side.selector.range_ms:
                self._fail(f"a range needs a function, as in avg_over_time({side.selector})", token.at)
            if token.text in ("and", "or", "unless") and isinstance(side, Number):
                self._fail(f"{token.text!r} joins conditions, not numbers", token.at)
        if isinstance(left, Number) and isinstance(right, Number):
            if token.text in "+-*/%":
                if token.text in "/%" and right.value == 0:
                    self._fail("it divides by zero", token.at)
                return Number(_folded(token.text, left.value, right.value))
            self._fail("it compares two numbers, which never changes", token.at)
        if token.text in "/%" and right == Number(0):
            self._fail("it divides by zero", token.at)
        return Binary(token.text, left, right, on)

    def _operand(self, depth: int) -> Expression:
        token = self._take()
        if token.kind == "number":
            return Number(float(token.text))
        if token.kind == "sign" and token.text == "-":
            inner = self.expression(_UNARY, depth + 1)
            return Number(-inner.value) if isinstance(inner, Number) else Binary("*", Number(-1), inner)
        if token.kind == "sign" and token.text == "(":
            inner = self.expression(0, depth + 1)
            self.expect(")", "`)`")
            return inner
        if token.kind == "word" and token.text not in _POWER:
            if token.text in AGGREGATIONS and (self._is("by", "(")):
                return self._aggregate(token, depth)
            if self._is("("):
                return self._call(token, depth)
            return self._select(token)
        self._at -= self._at > 0 and token.kind != "end"
        raise self._fault("expected a number, a metric or `(`")

    def _aggregate(self, token: _Token, depth: int) -> Expression:
        by = self._labels() if self._is("by") and self._take() else None
        self.expect("(", "`(`")
        inner = self.expression(0, depth + 1)
        self.expect(")", "`)`")
        if by is None:
            by = self._labels() if self._is("by") and self._take() else ()
        self._refuse_other(token, inner, is_range=False)
        return Aggregate(token.text, by, inner)

    def _call(self, token: _Token, depth: int) -> Expression:
        if token.text not in OVER_RANGES | OVER_VECTORS:
            known = ", ".join(sorted(OVER_RANGES | OVER_VECTORS | AGGREGATIONS))
            self._fail(f"there is no function {token.text!r}; there are: {known}", token.at)
        self.expect("(", "`(`")
        inner = self.expression(0, depth + 1)
        self.expect(")", "`)`")
        self._refuse_other(token, inner, is_range=token.text in OVER_RANGES)
        return Call(token.text, inner)

    def _refuse_other(self, token: _Token, inner: Expression, *, is_range: bool) -> None:
        has_range = isinstance(inner, Select) and inner.selector.range_ms > 0
        if is_range and not has_range:
            self._fail(f"{token.text} needs a range, as in {token.text}(metric[5m])", token.at)
        if not is_range and (has_range or isinstance(inner, Number)):
            self._fail(f"{token.text} needs series, as in {token.text}(metric)", token.at)

    def _labels(self) -> tuple[str, ...]:
        self.expect("(", "`(` and the names of labels")
        found: list[str] = []
        while not self._is(")"):
            if found:
                self.expect(",", "`,` or `)`")
            found.append(self.expect("word", "the name of a label").text)
        self._take()
        return tuple(sorted(set(found)))

    def _select(self, token: _Token) -> Expression:
        matchers: list[Matcher] = []
        if self._is("{"):
            self._take()
            while not self._is("}"):
                if matchers:
                    self.expect(",", "`,` or `}`")
                matchers.append(self._matcher())
            self._take()
        range_ms = 0
        if self._next.kind == "range":
            range_ = self._take()
            range_ms = range_.range_ms
            if not 0 < range_ms <= RANGE_MAX_MS:
                self._fail("a range is 1s to 32d", range_.at)
        selector = Selector(token.text, tuple(sorted(matchers, key=str)), range_ms)
        self.selectors.append(selector)
        return Select(selector)

    def _matcher(self) -> Matcher:
        label = self.expect("word", "the name of a label")
        if not self._is("=", "!=", "=~", "!~"):
            raise self._fault("expected =, !=, =~ or !~")
        operator = self._take().text
        quoted = self.expect("text", "a text in quotes")
        value = _ESCAPED.sub(r"\1", quoted.text[1:-1])
        if "~" in operator:
            try:
                pattern(value)
            except ValueError as error:
                self._fail(str(error), quoted.at)
        return Matcher(label.text, operator, value)


def _folded(operator: str, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
    return left % right

"""Alert rules: a condition over time, what an alert of it says, whom it notifies and what it does. Read from YAML.

A fault of a rule names its line and column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

import yaml

from openpai.alerts import templates
from openpai.alerts.actions import ACTIONS, ActionSpec
from openpai.alerts.expressions import Expression, ExpressionError, parse
from openpai.alerts.series import Labels, as_labels

TEXT_MAX: Final = 16 << 10
FAULTS_MAX: Final = 20
"""How many faults of one text are named."""
RULES_MAX: Final = 2_000
SEVERITIES: Final = ("info", "warn", "error", "fatal")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
RECEIVER: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
DAY_MS: Final = 86_400_000
LENGTH_MAX_MS: Final = 366 * DAY_MS
_LENGTH: Final = re.compile(r"(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?")
_UNITS_MS: Final = (7 * DAY_MS, DAY_MS, 3_600_000, 60_000, 1_000)
# The one in Python needs seconds for some texts.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEYS: Final = (
    "alert", "expr", "for", "severity", "labels", "annotations", "notify", "repeat", "groupBy", "escalate", "actions",
    "actionsPerHour", "dryRun", "enabled",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stage:
    """The channels that an alert notifies in addition once it has fired for so long."""

    after_ms: int
    notify: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    name: str
    expr: str
    condition: Expression
    for_ms: int = 0
    severity: str = "warn"
    labels: Labels = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    notify: tuple[str, ...] = ("admins",)
    """Names of channels; `admins` and `owner` get mail."""
    repeat_ms: int = DAY_MS
    group_by: tuple[str, ...] = ("severity",)
    escalate: tuple[Stage, ...] = ()
    actions: tuple[ActionSpec, ...] = ()
    actions_per_hour: int = 10
    is_dry: bool = False
    """Whether its actions are only recorded."""
    is_enabled: bool = True


class InvalidRule(ValueError):
    """A text that is not a rule: the message names the line and column of each fault."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)
        self.message = message
        self.line = line
        self.column = column

    @classmethod
    def of(cls, faults: Sequence[InvalidRule]) -> InvalidRule:
        """Return one error for several faults, in the order of the text."""
        found = sorted(faults, key=lambda fault: (fault.line, fault.column))
        if len(found) == 1:
            return found[0]
        listed = "\n".join(f"  {fault}" for fault in found[:FAULTS_MAX])
        more = f"\n  and {len(found) - FAULTS_MAX} more" if len(found) > FAULTS_MAX else ""
        return cls(f"the rule has {len(found)} faults:\n{listed}{more}")


def read_rule(text: str, name: str = "") -> Rule:
    """Return the rule in a text; raise InvalidRule with its faults. `name` is the name that it must have."""
    if len(text.encode()) > TEXT_MAX:
        raise InvalidRule(f"the rule is larger than {TEXT_MAX >> 10} KiB")
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise InvalidRule(str(error.problem), *((mark.line + 1, mark.column + 1) if mark else ())) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidRule(f"it is not YAML: {error}") from None
    if not isinstance(node, yaml.MappingNode):
        raise InvalidRule("a rule is a mapping: `alert: NAME`, `expr: CONDITION` and more", 1, 1)
    try:
        return _Reading(node).rule(name)
    except RecursionError:
        raise InvalidRule("it is nested too deeply") from None


@cache
def built_in() -> Mapping[str, str]:
    """Return the texts of the rules that come with the platform, by name."""
    text = files("openpai.alerts").joinpath("default_rules.yaml").read_text("utf-8")
    parts = [part.strip() + "\n" for part in text.split("\n---\n") if "\nalert: " in f"\n{part}"]
    return {read_rule(part).name: part for part in parts}


def milliseconds(text: str) -> int:
    """Return a length of time such as 90s, 30m, 1h30m or 7d; raise ValueError for anything else."""
    found = _LENGTH.fullmatch(text.strip())
    if found is None or not text.strip():
        raise ValueError(f"{text!r} is not a length of time such as 90s, 30m, 1h30m or 7d")
    sum_ms = sum(int(part) * unit_ms for part, unit_ms in zip(found.groups(), _UNITS_MS, strict=True) if part)
    if sum_ms > LENGTH_MAX_MS:
        raise ValueError(f"{text} is longer than a year")
    return sum_ms


class _Reading:
    def __init__(self, node: yaml.MappingNode) -> None:
        self._node = node
        self._nodes: dict[str, yaml.Node] = {}
        self._faults: list[InvalidRule] = []
        for key, value in node.value:
            word = key.value if isinstance(key, yaml.ScalarNode) else ""
            if word not in _KEYS:
                self._faults.append(_fault(f"there is no key {word[:80]!r}; there are: {', '.join(_KEYS)}", key))
            elif word in self._nodes:
                self._faults.append(_fault(f"{word!r} is there twice", key))
            else:
                self._nodes[word] = value

    def rule(self, name: str) -> Rule:
        """Return the rule; raise InvalidRule with all faults."""
        parts: Mapping[str, Callable[[], Any]] = {
            "name": lambda: self._name(name),
            "expr": lambda: self._text("expr") or _fail("`expr`, the condition, is missing", self._node),
            "condition": lambda: _placed(parse, self._text("expr"), self._nodes["expr"]),
            "for_ms": lambda: self._length("for", 0),
            "severity": lambda: self._choice("severity", SEVERITIES, "warn"),
            "labels": lambda: as_labels(self._pairs("labels")),
            "annotations": lambda: self._pairs("annotations"),
            "notify": lambda: self._receivers(self._nodes.get("notify"), ("admins",)),
            "repeat_ms": lambda: max(60_000, self._length("repeat", DAY_MS)),
            "group_by": lambda: tuple(self._names("groupBy", ("severity",))),
            "escalate": self._stages,
            "actions": self._actions,
            "actions_per_hour": lambda: self._whole("actionsPerHour", 10, 1, 1000),
            "is_dry": lambda: self._flag("dryRun", False),
            "is_enabled": lambda: self._flag("enabled", True),
        }
        read: dict[str, Any] = {}
        for part, look in parts.items():
            if part == "condition" and not read.get("expr"):
                continue
            try:
                read[part] = look()
            except InvalidRule as fault:
                self._faults.append(fault)
        if self._faults:
            raise InvalidRule.of(self._faults)
        return Rule(**read)

    def _name(self, name: str) -> str:
        own = self._text("alert") or _fail("`alert`, the name of the rule, is missing", self._node)
        if NAME.fullmatch(own) is None:
            _fail(f"{own[:80]!r} is not a name: letters, digits and _, up to 64", self._nodes["alert"])
        if name and own != name:
            _fail(f"the rule is named {own!r}, not {name!r}", self._nodes["alert"])
        return str(own)

    def _text(self, key: str) -> str:
        node = self._nodes.get(key)
        return "" if node is None else _scalar(node, f"`{key}` is a text")

    def _length(self, key: str, default: int) -> int:
        node = self._nodes.get(key)
        return default if node is None else _length(node)

    def _choice(self, key: str, choices: Sequence[str], default: str) -> str:
        text = self._text(key) or default
        if text not in choices:
            _fail(f"{text[:40]!r} is not a {key}; there are: {', '.join(choices)}", self._nodes[key])
        return text

    def _whole(self, key: str, default: int, least: int, most: int) -> int:
        text = self._text(key)
        if not text:
            return default
        if not (text.isascii() and text.isdigit()) or not least <= int(text[:9]) <= most:
            _fail(f"`{key}` is a whole number from {least} to {most}", self._nodes[key])
        return int(text)

    def _flag(self, key: str, default: bool) -> bool:
        text = self._text(key).lower()
        if text not in ("", "true", "false"):
            _fail(f"`{key}` is true or false", self._nodes[key])
        return text == "true" if text else default

    def _pairs(self, key: str) -> dict[str, str]:
        node = self._nodes.get(key)
        if node is None:
            return {}
        if not isinstance(node, yaml.MappingNode) or len(node.value) > 32:
            _fail(f"`{key}` is a mapping of up to 32 names to texts", node)
        found = {}
        for name, value in node.value:
            word = _scalar(name, "a name is a text")
            if LABEL.fullmatch(word) is None or (key == "labels" and word in ("alertname", "severity")):
                _fail(f"{word[:40]!r} is not a name that {key} may have", name)
            found[word] = _scalar(value, f"`{word}` is a text")
            _placed(templates.check, found[word], value)
        return found

    def _names(self, key: str, default: Sequence[str]) -> Sequence[str]:
        node = self._nodes.get(key)
        if node is None:
            return default
        found = [_scalar(each, "a name is a text") for each in _items(node, f"`{key}` is a list of labels", 16)]
        if wrong := next((each for each in found if LABEL.fullmatch(each) is None), None):
            _fail(f"{wrong[:40]!r} is not the name of a label", node)
        return found

    def _receivers(self, node: yaml.Node | None, default: tuple[str, ...]) -> tuple[str, ...]:
        if node is None:
            return default
        found = tuple(_scalar(each, "a receiver is a name") for each in _items(node, "`notify` is a list of names", 16))
        if wrong := next((each for each in found if RECEIVER.fullmatch(each) is None), None):
            _fail(f"{wrong[:40]!r} is not the name of a channel; `admins` and `owner` get mail", node)
        return found

    def _stages(self) -> tuple[Stage, ...]:
        node = self._nodes.get("escalate")
        if node is None:
            return ()
        stages = []
        for each in _items(node, "`escalate` is a list of {after: 1h, notify: [NAME]}", 8):
            parts = dict(_pairs_of(each, ("after", "notify")))
            if "after" not in parts or "notify" not in parts:
                _fail("a stage is {after: 1h, notify: [NAME]}", each)
            stages.append(Stage(_length(parts["after"]), self._receivers(parts["notify"], ())))
        return tuple(sorted(stages, key=lambda stage: stage.after_ms))

    def _actions(self) -> tuple[ActionSpec, ...]:
        node = self._nodes.get("actions")
        if node is None:
            return ()
        return tuple(_action(each) for each in _items(node, "`actions` is a list", 8))


def _action(node: yaml.Node) -> ActionSpec:
    listed = ", ".join(sorted(ACTIONS))
    if isinstance(node, yaml.ScalarNode):
        kind, argument = str(node.value), ""
        place: yaml.Node = node
    else:
        pairs = _pairs_of(node, tuple(ACTIONS))
        if len(pairs) != 1:
            _fail(f"an action is one of {listed}, or with an argument, as in `tag: idle`", node)
        kind, value = pairs[0]
        argument, place = _scalar(value, f"the argument of {kind} is a text"), value
    found = ACTIONS.get(kind)
    if found is None and kind.partition(":")[0] in ACTIONS:
        _fail(f"write {kind[:80]} without quotes around both: an action and its argument are a key and a value", node)
    if found is None:
        raise _fault(f"there is no action {kind[:40]!r}; there are: {listed}", node)
    if found.argument and not argument:
        _fail(f"{kind} needs {found.argument}, as in `{kind}: {found.example}`", place)
    if argument and re.fullmatch(found.pattern, argument) is None:
        _fail(f"{argument[:60]!r} is not {found.argument or 'an argument that ' + kind + ' takes'}", place)
    return ActionSpec(kind, argument)


def _pairs_of(node: yaml.Node, known: Sequence[str]) -> list[tuple[str, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        _fail(f"a mapping with {', '.join(known)} is expected", node)
    found = [(_scalar(key, "a key is a text"), value) for key, value in node.value]
    if wrong := next((key for key, _ in found if key not in known), None):
        _fail(f"there is no {wrong[:40]!r} here; there are: {', '.join(sorted(known))}", node)
    return found


def _items(node: yaml.Node, message: str, most: int) -> list[yaml.Node]:
    if isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~"):
        return []
    if not isinstance(node, yaml.SequenceNode):
        _fail(message, node)
    if len(node.value) > most:
        _fail(f"{message}, of up to {most}", node)
    return list(node.value)


def _scalar(node: yaml.Node, message: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        _fail(message, node)
    return str(node.value)


def _length(node: yaml.Node) -> int:
    try:
        return milliseconds(_scalar(node, "a length of time is a text such as 30m"))
    except ValueError as error:
        raise _fault(str(error), node) from None


def _placed(read: Any, text: str, node: yaml.Node) -> Any:
    """Return what is read from a text of the rule; a fault names its place in the whole text."""
    try:
        return read(text)
    except ExpressionError as error:
        mark, style = node.start_mark, getattr(node, "style", None)
        before = text[: error.offset]
        if style in ("|", ">"):
            inside = f"character {error.offset + 1} of the text that begins here: {error}"
            raise InvalidRule(inside, mark.line + 1, mark.column + 1) from None
        column = mark.column + 1 + len(before) + (1 if style else 0)
        raise InvalidRule(str(error), mark.line + 1, column) from None


def _fail(message: str, node: yaml.Node) -> Any:
    raise _fault(message, node)


def _fault(message: str, node: yaml.Node) -> InvalidRule:
    return InvalidRule(message, node.start_mark.line + 1, node.start_mark.column + 1)

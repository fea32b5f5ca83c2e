"""Rules of the failure analysis: what an observed line says about a cause, read from text and checked.

A rule observes; it never decides alone. Its role says what the line may be in the story of a failure (`Role`), and
`diagnosing` chooses the root among all that was observed. Patterns are RE2's, so that no pattern and no log can make a
search slow; all of them are tried on a line at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

import re2
import yaml

from openpai.protocol.exit_codes import EXIT_SPECS

PATTERN_MAX: Final = 2000
"""Characters of a pattern."""
PROGRAM_MAX: Final = 5000
"""Instructions that RE2 makes of a pattern: a measure of what it costs."""
MEMORY_MAX: Final = 32 << 20
"""Bytes that a search for the patterns of administrators may use, also for what it remembers between lines."""
PART_MEMORY_MAX: Final = 2 << 20
"""The same for each part of the search for the built-in ones, which has at most `PROGRAM_MAX` instructions."""
OWN_SIGNALS: Final = frozenset({132, 133, 134, 135, 136, 139})
FAILURES: Final = frozenset({*range(1, 129), *range(160, 256)})


class Role(StrEnum):
    """What an observed line may be in the story of a failure."""

    ROOT = "root"
    """The cause, unless an earlier one is found."""
    CASCADE = "cascade"
    """A consequence of the failure of another task or process."""
    CONFIRMATION = "confirmation"
    """Supports a cause, and is none by itself."""


class Domain(StrEnum):
    """The side that is responsible for a cause."""

    USER = "user"
    PLATFORM = "platform"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"


class Retry(StrEnum):
    """Whether another attempt of the same job is likely to end better."""

    HELPS = "helps"
    NO = "no"
    UNKNOWN = "unknown"


class Where(StrEnum):
    """Where a rule looks."""

    EXCEPTION = "exception"
    """In the exception that ended the program, and those it was raised from."""
    LINE = "line"
    """In the last lines of the log."""
    MESSAGE = "message"
    """In the message of the backend."""


class InvalidRules(ValueError):
    """A text of rules that cannot be used; the message says where and what to do."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of failures, with what follows from it."""

    name: str
    summary: str
    domain: Domain
    retry: Retry
    row: int
    """Code of the row of the exit-code table."""
    advice: tuple[str, ...] = ()
    """What to do; empty for the advice of the row."""
    excludes_node: bool = False
    """Whether the next attempt should avoid the node."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An observation: lines of one form, and what they say."""

    cause: Cause
    role: Role
    where: Where
    patterns: tuple[str, ...]
    exits: frozenset[int] | None
    """The exit codes it applies to; None for all."""
    row: int
    is_certain: bool = False
    """Whether it is a root wherever it stands in the log."""
    is_general: bool = False
    """Whether it names a sort of error rather than its cause, so that every other rule goes before it."""
    samples: tuple[str, ...] = ()
    is_edited: bool = False
    """Whether an administrator wrote it. The patterns of these are searched apart: together they cost far more."""

    def applies_to(self, exit_code: int | None) -> bool:
        """Return whether the rule says something about a task with this exit code; None if its own is not known."""
        return self.exits is None or exit_code is None or exit_code in self.exits

    def end_in(self, line: str) -> int:
        """Return where the first of its patterns in a line ends; 0 if none is there."""
        found = (re2.search(pattern, line, options=_options()) for pattern in self.patterns)
        return min((int(match.end()) for match in found if match), default=0)


def _options(memory_max: int = MEMORY_MAX) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory_max
    return options


@lru_cache(maxsize=4096)
def _program_size(pattern: str) -> int:
    return int(re2.compile(pattern, options=_options()).programsize)


def _parts(rules: Sequence[tuple[int, Rule]]) -> Iterator[list[tuple[int, Rule]]]:
    """Divide numbered rules into parts that are searched apart, each with few instructions.

    A search remembers each combination of half-found patterns that it met. Those of all patterns together are far more
    than those of the parts, and each is larger: beyond its memory a search forgets everything and begins again.
    """
    part, size = list[tuple[int, Rule]](), 0
    for each in rules:
        more = sum(map(_program_size, each[1].patterns))
        if part and size + more > PROGRAM_MAX:
            yield part
            part, size = [], 0
        part.append(each)
        size += more
    if part:
        yield part


@lru_cache(maxsize=64)
def _compiled_part(patterns: tuple[str, ...]) -> Any:
    return _set_of(patterns, PART_MEMORY_MAX)


@lru_cache(maxsize=16)
def _compiled(patterns: tuple[str, ...]) -> Any:
    return _set_of(patterns, MEMORY_MAX)


def _set_of(patterns: tuple[str, ...], memory_max: int) -> Any:
    compiled = re2.Set.SearchSet(_options(memory_max))
    for pattern in patterns:
        compiled.Add(pattern)
    try:
        compiled.Compile()
    except re2.error:
        message = "together the patterns of the rules need too much memory"
        raise InvalidRules(f"{message}; shorten bounded repetitions such as .{{0,200}}") from None
    return compiled


class _Search:
    """One search for the patterns of several rules, which are numbered."""

    def __init__(self, rules: Sequence[tuple[int, Rule]], flags: str = "", *, is_part: bool = False) -> None:
        self._owners = [number for number, rule in rules for _ in rule.patterns]
        compiled = _compiled_part if is_part else _compiled
        self._set = compiled(tuple(flags + pattern for _, rule in rules for pattern in rule.patterns))

    def find(self, line: str) -> set[int]:
        """Return the numbers of the rules of which a pattern is in a line."""
        return {self._owners[index] for index in self._set.Match(line) or ()} if self._owners else set()


@dataclass(frozen=True)
class RuleSet:
    """All rules, and a search for the patterns of all of them."""

    rules: tuple[Rule, ...]
    causes: Mapping[str, Cause]
    _searches: tuple[_Search, ...] = field(init=False, repr=False, compare=False)
    _certain: tuple[_Search, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the patterns."""
        numbered = list(enumerate(self.rules))
        own, edited = ([each for each in numbered if each[1].is_edited is edited] for edited in (False, True))
        searches = [_Search(part, is_part=True) for part in _parts(own)]
        object.__setattr__(self, "_searches", (*searches, _Search(edited)) if edited else tuple(searches))
        certain = [each for each in numbered if each[1].is_certain]
        object.__setattr__(self, "_certain", (_Search(certain, "(?m)"),) if certain else ())

    def observe(self, line: str) -> list[Rule]:
        """Return the rules of which a pattern is in a line, in the order of the rules."""
        return self._observe(self._searches, line)

    def observe_certain(self, lines: str) -> list[Rule]:
        """Return the rules that are roots wherever they stand and of which a pattern is in one of several lines."""
        return self._observe(self._certain, lines)

    def _observe(self, searches: Sequence[_Search], line: str) -> list[Rule]:
        found = set().union(*(search.find(line) for search in searches))
        return [self.rules[number] for number in sorted(found)]


@cache
def built_in() -> RuleSet:
    """Return the rules that the platform comes with."""
    return read_rules(files("openpai.diagnosis").joinpath("rules.yaml").read_text())


def read_rules(text: str) -> RuleSet:
    """Return the rules of a YAML text; raise InvalidRules with what is wrong, where, and what is allowed."""
    try:
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # a safe loader
    except yaml.YAMLError as error:
        raise InvalidRules(f"the rules are not YAML: {error}") from None
    _require_keys(data, {"causes", "rules"}, "the rules")
    causes = {str(name): read_cause(str(name), body) for name, body in _mapping(data["causes"], "causes").items()}
    if not isinstance(data["rules"], list):
        raise InvalidRules("rules: expected a list")
    return RuleSet(tuple(read_rule(body, f"rules[{at}]", causes) for at, body in enumerate(data["rules"])), causes)


def read_cause(name: str, body: object, where: str = "") -> Cause:
    """Return a cause; raise InvalidRules."""
    where = where or f"causes.{name}"
    found = _mapping(body, where)
    _require_keys(found, {"summary", "domain", "retry", "row"}, where, {"advice", "action"})
    # YAML reads `retry: no` as false.
    retry = "no" if found["retry"] is False else found["retry"]
    return Cause(
        name,
        _text(found["summary"], f"{where}.summary"),
        Domain(_one_of(found["domain"], Domain, f"{where}.domain")),
        Retry(_one_of(retry, Retry, f"{where}.retry")),
        _row(found["row"], f"{where}.row"),
        _texts(found.get("advice", []), f"{where}.advice"),
        _one_of(found.get("action", "none"), ("none", "exclude_node"), f"{where}.action") == "exclude_node",
    )


def read_rule(body: object, where: str, causes: Mapping[str, Cause]) -> Rule:
    """Return a rule; raise InvalidRules."""
    found = _mapping(body, where)
    _require_keys(
        found, {"cause", "role", "where", "patterns", "samples"}, where, {"exits", "row", "certain", "general"}
    )
    cause = causes.get(str(found["cause"]))
    if cause is None:
        raise InvalidRules(f"{where}.cause: no cause {found['cause']!r} is listed under causes")
    return Rule(
        cause,
        Role(_one_of(found["role"], Role, f"{where}.role")),
        Where(_one_of(found["where"], Where, f"{where}.where")),
        tuple(_pattern(text, f"{where}.patterns") for text in _texts(found["patterns"], f"{where}.patterns")),
        _exits(found.get("exits", "own"), f"{where}.exits"),
        _row(found.get("row", cause.row), f"{where}.row"),
        found.get("certain", False) is True,
        found.get("general", False) is True,
        _texts(found["samples"], f"{where}.samples"),
    )


def _pattern(text: str, where: str) -> str:
    if len(text) > PATTERN_MAX:
        raise InvalidRules(f"{where}: a pattern has {len(text)} characters; at most {PATTERN_MAX} are allowed")
    try:
        program = re2.compile(text, options=_options()).programsize
    except re2.error as error:
        message = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise InvalidRules(f"{where}: {text!r} is not a pattern of RE2: {message}") from None
    if program > PROGRAM_MAX:
        message = f"is too costly ({program} instructions; at most {PROGRAM_MAX} are allowed)"
        raise InvalidRules(f"{where}: {text[:80]!r} {message}; shorten bounded repetitions such as .{{0,200}}")
    return text


def _exits(found: object, where: str) -> frozenset[int] | None:
    match found:
        case "any":
            return None
        case "own":
            return FAILURES | OWN_SIGNALS
        case "failure":
            return FAILURES
        case list() if found and all(isinstance(code, int) for code in found):
            return frozenset(found)
    raise InvalidRules(f"{where}: expected any, own, failure, or a list of exit codes; found {found!r}")


def _row(found: object, where: str) -> int:
    if not isinstance(found, int) or found not in EXIT_SPECS:
        raise InvalidRules(f"{where}: {found!r} is no code of the exit-code table")
    return found


def _mapping(found: object, where: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise InvalidRules(f"{where}: expected a mapping")
    return found


def _require_keys(found: object, required: set[str], where: str, optional: Sequence[str] | set[str] = ()) -> None:
    keys = set(_mapping(found, where))
    if missing := required - keys:
        raise InvalidRules(f"{where}: {', '.join(sorted(missing))} missing")
    if unknown := keys - required - set(optional):
        allowed = ", ".join(sorted(required | set(optional)))
        raise InvalidRules(f"{where}: unknown {', '.join(sorted(map(str, unknown)))}; allowed are {allowed}")


def _one_of(found: object, allowed: Sequence[str] | type[StrEnum], where: str) -> str:
    words = [str(word) for word in allowed]
    if found not in words:
        raise InvalidRules(f"{where}: {found!r} is not one of {', '.join(words)}")
    return str(found)


def _text(found: object, where: str) -> str:
    if not isinstance(found, str) or not found:
        raise InvalidRules(f"{where}: expected a text")
    return found


def _texts(found: object, where: str) -> tuple[str, ...]:
    if not isinstance(found, list):
        raise InvalidRules(f"{where}: expected a list of texts")
    return tuple(_text(text, where) for text in found)

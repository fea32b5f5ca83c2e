"""Interprets the commands of a simulated task.

It supports `sleep N`, `sleep infinity`, `exit N`, `echo ...`, `true`, `false`, `read` (runs until a call or a signal),
`export A=B`, `A=B`, `$?`, `[ A = B ]`, `[ A != B ]`, `set +e`, `trap 'COMMANDS' TERM` and `( ... )`. All other
commands together take the default run time and succeed. As in a real task the first failing command ends it. The
variables SIMULATED_RUN_S and SIMULATED_EXIT_CODE, set by the task or by `export`, overrule how long it runs and how it
ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

RUN_S: Final = "SIMULATED_RUN_S"
EXIT_CODE: Final = "SIMULATED_EXIT_CODE"
TERMINATED: Final = 143

_TOKEN: Final = re.compile(
    r"""(?P<gap>[ \t\r]+|\\\n|(?<![^\s;&|()])\#[^\n]*)
      | (?P<end>\n|;|&&|\|\|)
      | (?P<other>[&|<>()])
      | (?P<word>(?:[^\s;&|()<>'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*")+)
      | (?P<odd>.)""",
    re.VERBOSE | re.DOTALL,
)
_PART: Final = re.compile(
    r"""'(?P<single>[^']*)' | "(?P<double>(?:\\.|[^"\\])*)" | \\(?P<escaped>.) | (?P<bare>[^'"\\]+)""",
    re.VERBOSE | re.DOTALL,
)
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+|\?))")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NOTHING: Final[Mapping[str, str]] = {}
_SILENT: Final = frozenset({"true", ":", "set", "cd", "eval", "(", ")"})

_Command = tuple[list[str], str]
"""The words of a simple command, or one bracket, still quoted, and the token that ends it."""


@dataclass(frozen=True, slots=True)
class Program:
    """The events of a task, in milliseconds after its start."""

    says: tuple[tuple[int, str], ...] = ()
    ends_after_ms: int | None = None
    """None for a program that runs until `SimulatedCluster.resume` or a signal."""
    code: int = 0
    after_read: Program | None = None
    """The program after `read`, from the moment the task continues."""
    on_term: Program | None = None
    """The program after SIGTERM; None for the default, to end at once with 143."""
    ignores_term: bool = False


@dataclass(slots=True)
class _Reading:
    """The state of the interpreter."""

    env: dict[str, str]
    default_run_ms: int
    at_ms: int = 0
    code: int = 0
    is_over: bool = False
    runs_for_ever: bool = False
    has_run_default: bool = False
    says: list[tuple[int, str]] = field(default_factory=list)
    after_read: Program | None = None
    on_term: Program | None = None
    ignores_term: bool = False
    stops_at_failure: bool = True
    outer: list[tuple[dict[str, str], bool]] = field(default_factory=list)
    """The variables and `set -e` of the shells around this one, outermost first."""

    def change_shell(self, words: list[str]) -> None:
        """Begin or end a group, or change `set -e`, if that is what the command does."""
        if words == ["("]:
            self.outer.append((dict(self.env), self.stops_at_failure))
        elif words == [")"] and self.outer:
            last = self.env.get("?", "0")
            self.env, self.stops_at_failure = self.outer.pop()
            self.env["?"] = last
        elif words in (["set", "-e"], ["set", "+e"]):
            self.stops_at_failure = words[1] == "-e"


def program_of(
    commands: str, env: Mapping[str, str], default_run_ms: int, shared_env: Mapping[str, str] = _NOTHING
) -> Program:
    """Return what a task with these commands does. Its own variables count before the shared ones."""
    if "$" in commands:
        return _read(commands, {**shared_env, **env}, default_run_ms)
    overrules = tuple((name, env[name]) for name in (RUN_S, EXIT_CODE) if name in env)
    return _read_once(commands, overrules, default_run_ms)


@lru_cache(maxsize=256)
def _read_once(commands: str, overrules: tuple[tuple[str, str], ...], default_run_ms: int) -> Program:
    return _read(commands, dict(overrules), default_run_ms)


def _read(commands: str, env: dict[str, str], default_run_ms: int) -> Program:
    return _interpret(list(_commands(commands)), _Reading(env, default_run_ms))


def _interpret(commands: list[_Command], reading: _Reading) -> Program:
    is_skipped = False
    at = 0
    while at < len(commands) and not reading.runs_for_ever:
        words, end = commands[at]
        at += 1
        if is_skipped:
            if words == ["("]:
                at = _after_group(commands, at)
                end = commands[at - 1][1]
            is_skipped = end in ("&&", "||")
            continue
        if words[:1] == ["read"]:
            rest = _Reading(dict(reading.env), reading.default_run_ms, on_term=reading.on_term)
            rest.ignores_term = reading.ignores_term
            rest.outer = list(reading.outer)
            reading.after_read = _interpret(commands[at:], rest)
            reading.runs_for_ever = True
            break
        reading.change_shell(words)
        code = _step(words, reading)
        if words != [")"]:
            reading.env["?"] = str(code)
        while reading.is_over or (code and end != "||" and reading.stops_at_failure):
            reading.code = code = reading.code if reading.is_over else code
            reading.is_over = not reading.outer
            if reading.is_over:
                return _finished(reading)
            # An end inside a group ends only the group, which is a command of the shell around it.
            at = _after_group(commands, at)
            end = commands[at - 1][1]
            reading.change_shell([")"])
            reading.env["?"] = str(code)
            reading.code = 0
        is_skipped = code == 0 if end == "||" else code != 0 and end == "&&"
    return _finished(reading)


def _after_group(commands: list[_Command], at: int) -> int:
    """Return the position behind the end of the group that `at` lies in."""
    depth = 1
    while depth and at < len(commands):
        words, _ = commands[at]
        depth += (words == ["("]) - (words == [")"])
        at += 1
    return at


def _finished(reading: _Reading) -> Program:
    run_s, code = _number(reading.env.get(RUN_S, "")), _number(reading.env.get(EXIT_CODE, ""))
    ends_after_ms = None if reading.runs_for_ever else reading.at_ms
    if run_s is not None:
        ends_after_ms = round(run_s * 1000)
    says = tuple(line for line in reading.says if ends_after_ms is None or line[0] <= ends_after_ms)
    return Program(
        says,
        ends_after_ms,
        reading.code if code is None else int(code),
        reading.after_read,
        reading.on_term,
        reading.ignores_term,
    )


def _step(words: list[str], reading: _Reading) -> int:
    """Take one command; return its exit code."""
    while words and _ASSIGNMENT.match(words[0]):
        _assign(words[0], reading)
        words = words[1:]
    match [_expand(word, reading.env) for word in words]:
        case []:
            return 0
        case ["exit", *rest]:
            reading.is_over = True
            reading.code = int(_number(rest[0]) or 0) % 256 if rest else 0
        case ["echo", *rest] if not {"<", ">", "|", "&"} & set(words):
            reading.says.append((reading.at_ms, " ".join(rest) + "\n"))
        case ["sleep", how_long]:
            return _sleep(how_long, reading)
        case ["false"]:
            return 1
        case ["[", left, ("=" | "!=") as relation, right, "]"]:
            return int((left == right) != (relation == "="))
        case ["export", *assignments]:
            for assignment in assignments:
                _assign(assignment, reading)
        case ["trap", what, *signals] if "TERM" in signals or "SIGTERM" in signals:
            _trap(what, reading)
        case [command, *_] if command not in _SILENT and command != "trap" and not reading.has_run_default:
            reading.has_run_default = True
            reading.at_ms += reading.default_run_ms
        case _:
            pass
    return 0


def _sleep(how_long: str, reading: _Reading) -> int:
    if how_long in ("inf", "infinity"):
        reading.runs_for_ever = True
        return 0
    unit = _UNITS.get(how_long[-1:], 1)
    seconds = _number(how_long[:-1] if how_long[-1:] in _UNITS else how_long)
    if seconds is None or seconds < 0:
        reading.says.append((reading.at_ms, f"sleep: invalid time interval '{how_long}'\n"))
        return 1
    reading.at_ms += round(seconds * unit * 1000)
    return 0


def _trap(what: str, reading: _Reading) -> None:
    reading.ignores_term = not what
    trapped = _Reading(dict(reading.env), 0, code=TERMINATED)
    for overrule in (RUN_S, EXIT_CODE):
        trapped.env.pop(overrule, None)
    reading.on_term = _interpret(list(_commands(what)), trapped) if what and what != "-" else None


def _assign(assignment: str, reading: _Reading) -> None:
    name, is_one, value = assignment.partition("=")
    if is_one:
        reading.env[name] = _expand(value, reading.env)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e9 else None


def _commands(text: str) -> Iterator[_Command]:
    """Yield the simple commands of a script and the brackets around some of them."""
    words: list[str] = []
    brackets: list[bool] = []
    for match in _TOKEN.finditer(text):
        piece = match.group()
        if match.lastgroup == "end":
            if words:
                yield words, piece
            words = []
        elif piece == "(":
            # Inside a command a bracket belongs to a word: `$(date)`, `f()`, `a=(1 2)`.
            brackets.append(not words)
            if not words:
                yield ["("], "\n"
        elif piece == ")":
            if brackets and brackets.pop():
                if words:
                    yield words, "\n"
                words = [")"]
        elif match.lastgroup != "gap":
            words.append(piece)
    if words:
        yield words, "\n"


def _expand(word: str, env: Mapping[str, str]) -> str:
    """Return a word without its quotes and with its variables."""

    def value(match: re.Match[str]) -> str:
        return env.get(match[1] or match[2], "")

    parts = []
    for part in _PART.finditer(word):
        if part.lastgroup == "single":
            parts.append(part["single"])
        elif part.lastgroup == "escaped":
            parts.append(part["escaped"])
        elif part.lastgroup == "double":
            parts.append(re.sub(r'\\([$`"\\])', r"\1", _VARIABLE.sub(value, part["double"])))
        else:
            parts.append(_VARIABLE.sub(value, part["bare"]))
    return "".join(parts)

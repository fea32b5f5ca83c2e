"""Lines of a log as a terminal would show them, without what launchers put before them: a rank, a node, a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_CLOCK: Final = r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d{1,9}))?"
# ISO 8601 and Python's logging; glog; a time in brackets.
_TIMES: Final = re.compile(rf"(?:\d{{4}}-\d\d-\d\d[T _]|\b[IWEF]\d{{4}} |\[){_CLOCK}")
_SEARCHED: Final = 120
"""Characters at the beginning of a line in which a time is searched."""

_LINE_MAX: Final = 2000
_BEGIN_KEPT: Final = 1500
_END_KEPT: Final = 500
"""How much is kept of the beginning and of the end of a longer line: what went wrong often stands last."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# What launchers put before a line, as in "[rank0]: ", "[1,3]<stderr>:" or "(worker pid=7) ".
_PREFIX: Final = re.compile(
    r"(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?|\d{1,5}: "
    # A step of a build and its seconds; the stream; a step of a pipeline.
    r"|(?:#\d{1,4} )?\d{1,5}\.\d{1,4} +(?=[A-Za-z])|#\d{1,4} (?=[A-Z]+:)|std(?:out|err): "
    r"|Step #\d{1,3}(?: - \"[^\"\n]{1,60}\")?: "
    r"|\[[^\]\n]{1,60}\](?:<\w{1,10}>)?:? ?|\(\w[\w.]{0,40} pid=\d{1,8}[^)\n]{0,40}\) ){1,4}"
)
_RANK: Final = re.compile(r"\[[a-z-]{0,10}\d{1,5}(?:,\d{1,5})?\]|\(\w|\d{1,5}: ")
_PREFIX_BEGINS: Final = frozenset("[(0123456789#sS")
_HOST: Final = re.compile(r"(?!python)[\w.-]{0,60}\d[\w.-]{0,10}(?:: | +\| )")
"""The name of a node before a line: it counts as a prefix only where every line has it, or a traceback."""
TRACEBACK_MARK: Final = "Traceback (most recent call last)"
_JSON_BREAK: Final = "\\n"
_VALUE: Final = re.compile(r".{0,300}?[{\[]")
"""What stands before the value, JSON or a list, that a logger wrote."""
_BREAKS: Final = re.compile(r"\\n(?:'(?:, '|\])|\"(?:, \"|\]))?")
"""The end of a line, and of a piece of a list of lines, within the text of a value."""
_FRAME_MARK: Final = '  File "'
_LOGGED_MAX: Final = 120
"""The most characters that a logger puts before each line of a traceback."""
_LOGGERS_MAX: Final = 4
_DIGITS: Final = re.compile(r"\d+")
_BARS: Final = re.compile(r" {0,80}(?:\| ?|\+ (?=Exception Group)|(?=\+-))")


class Line(NamedTuple):
    """A line of a log."""

    text: str
    is_in_group: bool
    """Whether it stands in an exception group."""
    prefix: str = ""
    """What a launcher put before it."""

    @property
    def indent(self) -> int:
        """Return by how much it is indented."""
        return len(self.text) - len(self.text.lstrip())


def read_lines(tail: str, count: int) -> list[Line]:
    """Return the last lines of a log as a terminal would show them, without what launchers put before them."""
    # A progress bar overwrites its line, so a message after it begins in the middle of a line.
    last = tail.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").rsplit("\n", count)[-count:]
    text = "\n".join(_shortened(line) for line in last)
    text = _CONTROLS.sub("", _ESCAPES.sub("", text) if "\x1b" in text else text)
    lines = [line.rstrip() for line in _expanded(text).split("\n")]
    host = _host(lines)
    return _unlogged([_line(line.removeprefix(host)) for line in lines])


def _expanded(text: str) -> str:
    """Return a text in which tracebacks within JSON or a list, as loggers write them, have lines of their own."""
    if TRACEBACK_MARK not in text or _JSON_BREAK not in text:
        return text
    return "\n".join(_unfolded(line) if TRACEBACK_MARK in line else line for line in text.split("\n"))


def _unfolded(line: str) -> str:
    before = _VALUE.match(line)
    if before is None or before.end() > line.index(TRACEBACK_MARK):
        return line
    return _BREAKS.sub("\n", line).replace('\\"', '"')


def _shortened(line: str) -> str:
    return line if len(line) <= _LINE_MAX else line[:_BEGIN_KEPT] + line[-_END_KEPT:]


def _unlogged(lines: list[Line]) -> list[Line]:
    """Return the lines without what a logger put before each line of a traceback: a level, a time, a place."""
    loggers: list[re.Pattern[str]] = []
    for at, line in enumerate(lines[:-1]):
        before, mark, _ = lines[at + 1].text.partition(_FRAME_MARK)
        is_new = mark and 0 < len(before) <= _LOGGED_MAX and before.strip() and TRACEBACK_MARK in line.text
        if is_new and len(loggers) < _LOGGERS_MAX and not any(each.fullmatch(before) for each in loggers):
            # Its digits differ: a time goes on.
            loggers.append(re.compile(r"\d+".join(re.escape(part) for part in _DIGITS.split(before))))
    return [_without(line, loggers) for line in lines] if loggers else lines


def _without(line: Line, loggers: Sequence[re.Pattern[str]]) -> Line:
    found = next((match for each in loggers if (match := each.match(line.text))), None)
    if found is None:
        return line
    text = line.text[found.end() :]
    _, mark, rest = text.partition(TRACEBACK_MARK)
    # Before the traceback, the logger's own message may stand on the same line.
    return line._replace(text=f"{mark}{rest}" if mark else text)


def _host(lines: Sequence[str]) -> str:
    """Return the name of a node that a launcher put before each line; empty if there is none."""
    found = next((_HOST.match(line) for line in lines if TRACEBACK_MARK in line), None) or _HOST.match(lines[-1])
    if found is None:
        return ""
    has_traceback = any(line.startswith(found[0] + TRACEBACK_MARK) for line in lines)
    is_everywhere = len(lines) > 1 and all(line.startswith(found[0]) for line in lines if line)
    return found[0] if has_traceback or is_everywhere else ""


def _line(line: str) -> Line:
    prefix = _PREFIX.match(line) if line[:1] in _PREFIX_BEGINS else None
    before = prefix[0] if prefix else ""
    line = line[len(before) :]
    bars = _BARS.match(line)
    return Line(line[bars.end() :] if bars else line, bars is not None, before)


def untangled(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines with those of a traceback together, where several ranks wrote theirs at once."""
    ranks = {line.prefix for line in lines if _RANK.match(line.prefix)}
    if len(ranks) < 2 or not any(line.text.lstrip().startswith(TRACEBACK_MARK) for line in lines):
        return lines
    last = {line.prefix: at for at, line in enumerate(lines)}
    return sorted(lines, key=lambda line: last[line.prefix])


def time_of_day(line: str) -> float | None:
    """Return the seconds since midnight that a line says it was written; None if it says nothing."""
    found = _TIMES.search(line[:_SEARCHED])
    if found is None:
        return None
    hours, minutes, seconds, fraction = found.groups()
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")

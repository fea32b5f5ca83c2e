"""The line of a failed program's log that says most about why it failed.

Programs report failures in a few shapes: a Python traceback, another language's exception or panic, the runtime of C
and C++, or one line such as `tar: data.tar: Cannot open`. The last of them in the log counts, unless it only passes on
the failure of another process, or follows from a line just before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from openpai.diagnosis import error_forms as forms
from openpai.diagnosis.log_lines import Line, untangled

_HINT_WITHIN: Final = 100
"""Where a line that has only a word of failure must stand, counted from the end."""
_SHOWN_MAX: Final = 400
_END_SHOWN: Final = 160
"""How much is shown of the end of a line that is too long: libraries put there what an exception was caused by."""
_ROOT_MAX: Final = 200
_CAUSES_MAX: Final = 8
_WRAPPED_WITHIN: Final = 25
"""An error line within this number of lines after an exception counts as its consequence."""

_STACK_WITHIN: Final = 3
"""How many lines may stand between a message and its stack."""
_STACK_INDENT: Final = 4
_MESSAGE_WITHIN: Final = 60
"""How many lines after the head of a message the message may begin."""
_PARAGRAPH_MAX: Final = 20
_BLOCK_MAX: Final = 20
"""How many indented lines of a report are looked at."""


class ErrorKind(StrEnum):
    """The sort of line that was found."""

    EXCEPTION = "exception"
    """An exception or a panic that nothing handled, or an abort by the language's runtime."""
    MESSAGE = "message"
    """A line in which a program reports an error."""
    HINT = "hint"
    """Nothing looked like an error; this is the last line with a word such as "failed"."""
    LAST_LINE = "last line"
    """Nothing looked like an error; this is the last line of the log."""


@dataclass(frozen=True, slots=True)
class LastError:
    """The line that says most about why a program failed."""

    kind: ErrorKind
    line: str
    """The line as the program wrote it, and in brackets the exception that it was raised from."""
    exceptions: str = ""
    """The exception that ended the program and those it was raised from, a line each; empty if there is none."""
    is_passed_on: bool = False
    """Whether it only says how another process ended."""


@dataclass(frozen=True, slots=True)
class _Found:
    begin: int
    end: int
    """Position of the last line that belongs to it."""
    kind: ErrorKind
    line: str
    causes: tuple[str, ...] = ()
    counts: bool = True


def last_error_in(lines: Sequence[Line]) -> LastError | None:
    """Return what the last lines of a log say about a failure; None if all are empty."""
    lines = untangled(lines)
    tracebacks = _tracebacks(lines)
    found = [*filter(lambda each: each.counts, tracebacks), *_others(lines, tracebacks)]
    found.sort(key=lambda each: each.end)
    own = [each for each in found if not _is_passed_on(each, lines)]
    if not own and (before := _said_before_launcher(lines)) is not None:
        return before
    if not own:
        # What stands below such a report is the launcher's; the program wrote what is above it.
        words = _words(lines[: found[0].begin] if found else lines)
        if not found or words is not None:
            return _hint(lines) if words is None else LastError(ErrorKind.HINT, words)
    message = (own or found)[-1]
    if not own and message.kind is ErrorKind.MESSAGE:
        return LastError(ErrorKind.HINT, _shown(message))
    if message.kind is ErrorKind.MESSAGE:
        near = (each for each in reversed(own) if message.begin - each.end <= _WRAPPED_WITHIN)
        message = next((each for each in near if each.kind is ErrorKind.EXCEPTION), message)
    is_exception = message.kind is ErrorKind.EXCEPTION
    exceptions = "\n".join((message.line, *message.causes)) if is_exception else ""
    shown = _shown(message)
    if is_exception and not message.causes and forms.BARE.fullmatch(message.line):
        # An exception without a message, such as of an assertion: what was reported just above it says more.
        above = (each for each in reversed(own) if 0 < message.begin - each.end <= _STACK_WITHIN)
        reported = next((each.line for each in above if each.kind is ErrorKind.MESSAGE), "")
        shown = f"{shown_part(reported)} (then {message.line})" if reported else shown
    return LastError(message.kind, shown, exceptions, is_passed_on=not own)


def _is_passed_on(found: _Found, lines: Sequence[Line]) -> bool:
    """Return whether a report, or what is indented below it, only says how another process ended."""
    if forms.PASSED_ON.search(found.line):
        return True
    if found.kind is not ErrorKind.MESSAGE:
        return False
    indent = lines[found.begin].indent
    for line in lines[found.end + 1 : found.end + 1 + _BLOCK_MAX]:
        if line.text.strip() and line.indent <= indent:
            return False
        if forms.EXITED.search(line.text):
            return True
    return False


def _said_before_launcher(lines: Sequence[Line]) -> LastError | None:
    """Return the last line before a launcher's report that a rank of its own failed, as by `sys.exit("message")`."""
    end = next((at for at, line in enumerate(lines) if forms.LAUNCHER.match(line.prefix + line.text)), 0)
    if forms.BY_SIGNAL.match(lines[end].prefix + lines[end].text):
        return None
    while end > 0 and (lines[end - 1].indent or forms.TRACEBACK.match(lines[end - 1].text)):
        end -= 1
    before = [line for line in lines[:end] if not forms.STOPPING.match(line.prefix + line.text)]
    hint = _hint(before)
    return None if hint is None or forms.PASSED_ON.search(hint.line) else replace(hint, kind=ErrorKind.MESSAGE)


def _hint(lines: Sequence[Line]) -> LastError | None:
    """Return the last line that has a word of failure, else a warning with one, else the last line; None if empty."""
    hint = _words(lines)
    if hint is not None:
        return LastError(ErrorKind.HINT, hint)
    texts = [text for line in reversed(lines) if (text := line.text.strip())]
    grave = next((text for _, text in _last_of(lines) if forms.GRAVE.search(text)), None)
    if grave is not None:
        return LastError(ErrorKind.HINT, _head_of_paragraph(lines, grave))
    says = (
        text for text in texts if not (forms.RULE.match(text) or forms.NO_HINT.match(text) or forms.FRAME.match(text))
    )
    line = next(says, texts[0] if texts else None)
    return None if line is None else LastError(ErrorKind.LAST_LINE, shown_part(line))


def _last_of(lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Return the last lines that may name a failure, the last first, each with its prefix."""
    last = [(line.prefix, shown_part(line.text.strip())) for line in reversed(lines[-_HINT_WITHIN:])]
    return [each for each in last if not forms.PASSED_ON.search(each[1]) and not forms.NO_HINT.match(each[1])]


def _words(lines: Sequence[Line]) -> str | None:
    """Return the last line that has a word of failure and is no warning, or else one that says what is not so."""
    plain = [
        text
        for prefix, text in _last_of(lines)
        if not (forms.NOT_A_FAILURE.search(prefix + text) or forms.FRAME.match(text) or forms.STACK.match(text))
    ]
    complaint = next((at for at, text in enumerate(plain) if forms.WORDS.search(text)), None)
    hint = None if complaint is None else _first_of(lines, plain[complaint])
    hint = hint or next((text for text in plain if forms.WEAK_WORDS.search(text)), None)
    return None if hint is None else _head_of_paragraph(lines, hint)


def _first_of(lines: Sequence[Line], hint: str) -> str:
    """Return the first of the lines with a word of failure that stand one below the other, down to a hint."""
    at = _last_at(lines, hint)
    while at > 0:
        above = lines[at - 1].text.strip()
        is_plain = not (forms.NOT_A_FAILURE.search(lines[at - 1].prefix + above) or forms.NO_HINT.match(above))
        if not is_plain or not forms.WORDS.search(above) or forms.PASSED_ON.search(above):
            break
        at -= 1
    return shown_part(lines[at].text.strip())


def _last_at(lines: Sequence[Line], shown: str) -> int:
    """Return where a line that is shown stands last."""
    return next((at for at in range(len(lines) - 1, -1, -1) if shown_part(lines[at].text.strip()) == shown), 0)


def _head_of_paragraph(lines: Sequence[Line], hint: str) -> str:
    """Return the first line of a paragraph between rulers, as launchers write them, or else the hint itself."""
    at = _last_at(lines, hint)
    for begin in range(at, max(-1, at - _PARAGRAPH_MAX), -1):
        text = lines[begin].text.strip()
        if forms.RULE.match(text):
            is_ruler = begin < at and len(text) >= _PARAGRAPH_MAX
            return shown_part(lines[begin + 1].text.strip()) if is_ruler else hint
        if not text:
            break
    return hint


def _shown(found: _Found) -> str:
    root = next((cause for cause in found.causes if cause != found.line), "")
    return f"{shown_part(found.line)} (after {shown_part(root, _ROOT_MAX)})" if root else shown_part(found.line)


def shown_part(line: str, limit: int = _SHOWN_MAX) -> str:
    """Return a line; of one that is too long the beginning and the end."""
    end = limit * _END_SHOWN // _SHOWN_MAX
    return line if len(line) <= limit else f"{line[: limit - end - 5]} ... {line[-end:]}"


def _tracebacks(lines: Sequence[Line]) -> list[_Found]:
    """Return the Python tracebacks, each with the causes of its exception, the first first."""
    found: list[_Found] = []
    at = 0
    while at < len(lines):
        if not forms.TRACEBACK.match(lines[at].text.lstrip()):
            at += 1
            continue
        begin, indent = at, lines[at].indent
        at += 1
        while at < len(lines) and (
            not lines[at].text.strip() or lines[at].indent > indent or lines[at].text.startswith(("│", "╰", "└"))
        ):
            at += 1
        if at >= len(lines):
            break
        line = _whole(lines, at)
        end, inner = _rest_of_group(lines, at) if forms.GROUP.match(line) else (at, ())
        causes = (*_causes(lines, found, begin), *inner)
        counts = not begin or not forms.OF_NO_ACCOUNT.match(lines[begin - 1].text)
        found.append(_Found(begin, end, ErrorKind.EXCEPTION, line, causes, counts))
        at = end + 1
    return found


def _causes(lines: Sequence[Line], found: Sequence[_Found], begin: int) -> tuple[str, ...]:
    if not found or not any(line.text in forms.IN_A_CHAIN for line in lines[found[-1].end + 1 : begin]):
        return ()
    return (*found[-1].causes, found[-1].line)[:_CAUSES_MAX]


def _rest_of_group(lines: Sequence[Line], at: int) -> tuple[int, tuple[str, ...]]:
    """Return where an exception group ends, and the first exception in it."""
    begin = at + 1
    while at + 1 < len(lines) and lines[at + 1].is_in_group:
        at += 1
    inner = (line.text for line in lines[begin : at + 1] if not forms.GROUP.match(line.text))
    first = next((text for text in inner if forms.EXCEPTION.match(text)), "")
    return at, (first,) if first else ()


def _whole(lines: Sequence[Line], at: int) -> str:
    """Return a line, with the next one that says something when its message only begins there."""
    line = lines[at].text.strip()
    following = next((each.text.strip() for each in lines[at + 1 : at + 3] if each.text.strip()), "")
    if line.endswith(":") or forms.HEAD.search(line):
        following = _message_after(lines, at)
    elif not following.startswith(forms.WHAT):
        return line
    return f"{line} {following}" if following and not forms.TRACEBACK.match(following) else line


def _message_after(lines: Sequence[Line], at: int) -> str:
    """Return the first line after the head of a message that says something; empty if there is none."""
    in_stack = False
    for line in lines[at + 1 : at + 1 + _MESSAGE_WITHIN]:
        text = line.text.strip()
        if in_stack and line.indent >= _STACK_INDENT:
            continue
        in_stack = text.endswith("(most recent call last):")
        if not forms.NO_MESSAGE.match(text):
            return text
        if forms.TRACEBACK.match(text):
            break
    return ""


def _others(lines: Sequence[Line], tracebacks: Sequence[_Found]) -> list[_Found]:
    """Return the lines that report a failure outside of Python tracebacks."""
    taken = {at for each in tracebacks for at in range(each.begin, each.end + 1)}
    found: list[_Found] = []
    for at, each in enumerate(lines):
        if at in taken:
            continue
        line = each.text
        cause = forms.CAUSED_BY.match(line)
        if cause is not None and found and found[-1].kind is not ErrorKind.HINT:
            causes = (line[cause.end() :] or _message_after(lines, at), *found[-1].causes)
            found[-1] = replace(found[-1], end=at, causes=causes[:_CAUSES_MAX])
        elif line.lstrip().startswith(forms.WHAT) and found and found[-1].line.startswith(forms.TERMINATED):
            # If several processes end at once, the lines before it are mixed.
            if forms.WHAT not in found[-1].line:
                found[-1] = replace(found[-1], end=at, line=f"{found[-1].line} {line.strip()}")
        elif _is_crash(line):
            found.append(_Found(at, at, ErrorKind.EXCEPTION, _whole(lines, at)))
        elif (before := forms.QUOTED.match(line)) and forms.EXCEPTION.match(line[before.end() :]):
            found.append(_Found(at, at, ErrorKind.EXCEPTION, line[before.end() :].rstrip("\"'`,}] ")))
        elif (
            forms.MESSAGE.match(line)
            or forms.COMPILER.match(line)
            or forms.LEVEL.search(each.prefix)
            or _has_stack(lines, at)
        ):
            is_next = bool(found) and found[-1].end == at - 1
            # The first of several reports in a row names the cause, unless it only passes on that of another.
            if is_next and (
                _speaker(found[-1].line) == _speaker(line)
                or (found[-1].kind is ErrorKind.MESSAGE and not forms.PASSED_ON.search(found[-1].line))
            ):
                found[-1] = replace(found[-1], end=at)
            else:
                found.append(_Found(at, at, ErrorKind.MESSAGE, _whole(lines, at)))
    return found


def _has_stack(lines: Sequence[Line], at: int) -> bool:
    """Return whether a line, which is no warning, is the one above a stack that a runtime wrote."""
    text = lines[at].text.strip()
    if forms.NO_MESSAGE.match(text) or forms.FRAME.match(lines[at].text) or forms.STACK.match(text):
        return False
    below = [line.text for line in lines[at + 1 : at + 1 + _STACK_WITHIN] if line.text.strip()]
    is_above = bool(below) and (forms.STACK.match(below[0]) is not None or forms.FRAME.match(below[0]) is not None)
    return is_above and not forms.NOT_A_FAILURE.search(lines[at].prefix + text)


def _is_crash(line: str) -> bool:
    """Return whether a line reports an exception or a panic, also after the place in the source of a logger."""
    if forms.CRASH.match(line) or forms.EXCEPTION.match(line):
        return True
    place = forms.PLACE.match(line)
    return place is not None and forms.CRASH.match(line, place.end()) is not None


def _speaker(line: str) -> str:
    """Return which program wrote a line: of several lines of one program in a row, the first names the cause."""
    return line.partition(":")[0]

"""The line of a failed program's log that says most about why it failed.

Programs report failures in a few shapes: a Python traceback, another language's exception or panic, the runtime of C
and C++, or one line such as `tar: data.tar: Cannot open`. The last of them in the log counts, unless it only passes on
the failure of another process, or follows from a line just before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from openpai.diagnosis.log_lines import Line, untangled

_HINT_WITHIN: Final = 100
"""Where a line that has only a word of failure must stand, counted from the end."""
_SHOWN_MAX: Final = 300
_ROOT_MAX: Final = 120
_CAUSES_MAX: Final = 8
_WRAPPED_WITHIN: Final = 25
"""An error line within this number of lines after an exception counts as its consequence."""

_TRACEBACK: Final = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):$|[╭┌]─+ Traceback \(")
_OF_NO_ACCOUNT: Final = re.compile(r"Exception ignored in\b|--- Logging error ---$")
_IN_A_CHAIN: Final = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_GROUP: Final = re.compile(r"(?:Base)?ExceptionGroup: ")
_EXCEPTION: Final = re.compile(
    r"(?:[A-Za-z_]\w{0,60}[.$]){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt)(?: \[\w{1,60}\])?(?:: |:?$)"
)
# An exception that a service or a launcher passes on in a field of its own report.
_QUOTED: Final = re.compile(
    r"(?i:.{0,100}\b(?:error_?message|message|msg|reason|error|exception|cause)\b\"?[:=]? ?[\"'`])"
)
# Reports that another process failed or lost its peer: the cause is in the log of that process.
_PASSED_ON: Final = re.compile(
    r"exits? with (?:return|exit) ?code\b|Exited with exit code|ChildFailedError|CalledProcessError"
    r"|ProcessExitedException|ProcessRaisedException|BrokenProcessPool|torch[./]distributed[./]elastic"
    r"|Connection (?:was )?(?:reset|closed|aborted) by (?:remote )?peer|Broken ?[Pp]ipe|\bSIGTERM\b"
    r"|Watchdog caught collective operation timeout|^srun: error: |^make(?:\[\d+\])?: \*\*\* \["
    r"|^npm (?:ERR!|error) (?:(?:code|errno) (?:ELIFECYCLE|\d)|(?:command|path|syscall) |.{0,80}Exit status"
    r"|A complete log)"
    # Where to look instead.
    r"|(?i:\b(?:see|check|refer to|look at)\b.{0,40}\b(?:root cause|stack ?trace|traceback|messages?|print statements?"
    r"|logs?|output|errors?|exceptions?)\b.{0,20}\b(?:above|earlier|for (?:the )?(?:root|actual|real|original)))"
    r"|systemd\[\d+\]: |workers? (?:are|is) no longer alive"
    r"|\b(?:exited|crashed|terminated|failed) with (?:exit |return |error )?(?:code|status)\b"
    r"|collect2: error: ld returned|ninja: build stopped|compilation terminated\.$|compilation failed for package"
    r"|[Bb]uild did NOT complete|\bfailed to build$|could not compile `|linker command failed"
    r"|Fatal Python error: Aborted|\b(?:Container|Pod) failed\b"
    r"|Error compiling objects for extension|(?:[Cc]ould not build|Failed building|Failed to build) (?:wheels? )?"
    r"|subprocess-exited-with-error|metadata-generation-failed|\bpip subprocess to install\b"
    r"|\bfailed \d+ times; aborting job\b|EngineDeadError|[Ee]ngine core initialization failed"
    r"|[Cc]ouldn't start container|Failed to invoke spank plugin|required plugin spank_|task_init\w*\(?\)? failed"
)
_CRASH: Final = re.compile(
    r"panic: |fatal error: |thread '[^'\n]{0,80}' (?:\(\d+\) )?panicked at |Exception in thread \""
    r"|ERROR: (?:(?:Load|Init)Error: )*[A-Z]\w{1,80}(?:Error|Exception|Mismatch)(?:: |:?$)"
    r"|terminate called (?:after|without|recursively)|Fatal Python error: |Unhandled exception\b|Uncaught "
    r"|\S{1,200}: .{0,200}Assertion [`'].{0,300} failed\.$|\*\*\* stack smashing detected"
    r"|.{0,120}(?:\] |: )Check fail(?:ed|ure)\b|\*\*\* (?:SIG[A-Z]{3,6}|Aborted) (?:received|at|\()"
    r"|(?:free|malloc|realloc|munmap_chunk)\(\): |double free or corruption|corrupted (?:size|double-linked)"
)
_MESSAGE: Final = re.compile(
    r"(?!(?:INFO|WARN|WARNING|DEBUG|TRACE|NOTE|[Ww]arning|[Nn]ote)\b)(?:"
    # The level of a logger, after its time and what else it puts first.
    r"[EF]\d{4} [\d:.]{8,20} +\d{1,8} \S{1,200}\] "
    r"|\s{0,12}(?:ERROR|CRITICAL|FATAL)\b[: ]|[\w.-]{1,40} {1,4}(?:ERROR|CRITICAL|FATAL) {1,8}\S"
    r"|[\d:.,\-T/Z |+]{0,40}(?:\[[\w.-]{1,40}\] ?){0,2}[| \[]{0,3}"
    r"(?:ERROR|CRITICAL|FATAL|SEVERE)\b[\] |]{1,8}\S"
    r"|\{.{0,200}\"(?:level|severity|levelname|lvl)\": ?\"(?i:error|fatal|critical|panic|alert)\""
    r"|npm (?:ERR!|error) |ERROR \(|[A-Z]\w{1,20} Error at \S{1,200}:\d|Error (?:in|using) \S|"
    r"(?:\d{4}-\d\d-\d\d[T ]\S{5,20} )?(?:\S{1,200}: ){0,2}"
    r"(?:FATAL|[Ff]atal|CRITICAL|ERROR|[Ee]rror)(?: \w{1,20})?(?:: ?|\] )(?!\s*[-+]?[\d.])"
    r"|E: |curl: \(\d+\) |wget: |make: \*\*\* |Can't open perl script "
    r"|\S{0,200}sh: (?:line )?\d+: |\S{1,200}: (?:.{0,200}: )?[Cc](?:an't|annot|ould not) |\S{0,200}: No module named "
    r"|.{0,200}: (?:No such file or directory|Permission denied|Is a directory|Not a directory|Exec format error)\b"
    r"|.{0,200}: undefined (?:reference to|symbol: )"
    r"|.{0,200}: (?:command )?not found$|.{1,300} at \S{1,200} line \d+\.$"
    r"|.{0,200}\b(?:No space left on device|Disk quota exceeded|Read-only file system|Input/output error)\b"
    r"|.{0,200}\b(?:CUDA|CUBLAS|NCCL|cuDNN|HIP) (?:error|ERROR|failure)\b|.{0,200}\bCUDA_ERROR_\w+"
    r"|(?:Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)\b)"
)


# Words that a report of a failure has in any form, in lines that are not a report of something else.
_WORDS: Final = re.compile(
    r"(?i)\b(?:errors?|fail(?:ed|s|ure)?|fatal|can(?:not|'t)|could not|unable to|invalid|illegal|abort(?:ed|ing)?"
    r"|denied|refused|not found|no such|missing|exceed(?:ed|s)|panic|exception"
    r"|crash(?:ed)?|killed|corrupt(?:ed)?|undefined"
    r"|unknown|unsupported|mismatch|nan|diverged)\b"
    r"|(?:Fehler|nicht|erreur|introuvable|impossible|errore|ошибк|错误|失败|没有|エラー)"
)
# A place in the source, which loggers of C++ and Rust put before a message, and the level before it.
_PLACE: Final = re.compile(
    r"(?:\([\w.-]{1,40}\) )?[\w./-]{1,120}\.(?:cc|cpp|cu|cuh|c|h|hpp|go|rs|py|pyx):\d{1,6}(?:\] |: )+"
)
_LEVEL: Final = re.compile(r"[\d:.,\-T/ ]{8,40} ?(?:E|F|C|ERROR|FATAL|CRITICAL)\b")
# A line of a compiler that names a place.
_COMPILER: Final = re.compile(r"\s{0,40}[^\s:]{1,300}:\d+(?::\d+)?: (?:fatal )?error: ")
# What stands between the head of a message and what it says.
_NO_MESSAGE: Final = re.compile(
    r"\W*$|.*\(most recent call last\):$|Detected at node |Node: '|\d+ root error\(s\) found\.|\.\.\. \("
)
_HEAD: Final = re.compile(r"\b\d+ validation errors? for [\w.]+$")
_STACK_INDENT: Final = 4
_MESSAGE_WITHIN: Final = 60
"""How many lines after the head of a message the message may begin."""
_CAUSED_BY: Final = re.compile(r"Caused by: |\s{0,20}\[cause\]: ")
# Where torchrun begins to report that a rank of its own failed.
_LAUNCHER: Final = re.compile(r".{0,160}\bfailed \(exitcode: -?\d+\) local_rank: \d+|.{0,120}\bChildFailedError: ?$")
_BY_SIGNAL: Final = re.compile(r".{0,160}\bfailed \(exitcode: -\d+\)")
_STOPPING: Final = re.compile(r".{0,160}\bSending process \d+ closing signal\b")
_NOT_A_FAILURE: Final = re.compile(
    r"(?i)(?:^\[[WI]\d{3,4} |\b(?:warn(?:ing)?|info|debug|note)\b"
    r"|\b(?:0|no) (?:errors?|failed|failures?)\b|\berror (?:rate|=|of\b)|\bset the environment variable\b"
    r"|[a-z]warning: )"
)


# A warning that a part of the program ended.
_GRAVE: Final = re.compile(
    r"(?i)\b(?:terminat(?:ed|ion)|dead|died|lost|killed|crash(?:ed)?|unexpected(?:ly)?|aborted)\b"
)
_RULE: Final = re.compile(r"[\W_]*$|Node\.js v\d")
_PARAGRAPH_MAX: Final = 20


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
    own = [each for each in found if not _PASSED_ON.search(each.line)]
    if not own and (before := _said_before_launcher(lines)) is not None:
        return before
    if not own:
        hint = _hint(lines)
        if not found or hint is None or hint.kind is ErrorKind.HINT:
            return hint
    message = (own or found)[-1]
    if not own and message.kind is ErrorKind.MESSAGE:
        return LastError(ErrorKind.HINT, _shown(message))
    if message.kind is ErrorKind.MESSAGE:
        near = (each for each in reversed(own) if message.begin - each.end <= _WRAPPED_WITHIN)
        message = next((each for each in near if each.kind is ErrorKind.EXCEPTION), message)
    is_exception = message.kind is ErrorKind.EXCEPTION
    return LastError(message.kind, _shown(message), "\n".join((message.line, *message.causes)) if is_exception else "")


def _said_before_launcher(lines: Sequence[Line]) -> LastError | None:
    """Return the last line before a launcher's report that a rank of its own failed, as by `sys.exit("message")`."""
    end = next((at for at, line in enumerate(lines) if _LAUNCHER.match(line.prefix + line.text)), 0)
    if _BY_SIGNAL.match(lines[end].prefix + lines[end].text):
        return None
    while end > 0 and (lines[end - 1].indent or _TRACEBACK.match(lines[end - 1].text)):
        end -= 1
    before = [line for line in lines[:end] if not _STOPPING.match(line.prefix + line.text)]
    hint = _hint(before)
    return None if hint is None or _PASSED_ON.search(hint.line) else replace(hint, kind=ErrorKind.MESSAGE)


def _hint(lines: Sequence[Line]) -> LastError | None:
    """Return the last line that has a word of failure, else a warning with one, else the last line; None if empty."""
    texts = [text for line in reversed(lines) if (text := line.text.strip())]
    last = [(line.prefix, line.text.strip()[:_SHOWN_MAX]) for line in reversed(lines[-_HINT_WITHIN:])]
    words = [(prefix, text) for prefix, text in last if _WORDS.search(text) and not _PASSED_ON.search(text)]
    hint = next((text for prefix, text in words if not _NOT_A_FAILURE.search(prefix + text)), None)
    hint = hint or next((text for _, text in last if _GRAVE.search(text) and not _PASSED_ON.search(text)), None)
    if hint is not None:
        return LastError(ErrorKind.HINT, _head_of_paragraph(lines, hint)[:_SHOWN_MAX])
    line = next((text for text in texts if not _RULE.match(text)), texts[0] if texts else None)
    return None if line is None else LastError(ErrorKind.LAST_LINE, line[:_SHOWN_MAX])


def _head_of_paragraph(lines: Sequence[Line], hint: str) -> str:
    """Return the first line of a paragraph between rulers, as launchers write them, or else the hint itself."""
    at = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].text.strip()[:_SHOWN_MAX] == hint), 0)
    for begin in range(at, max(-1, at - _PARAGRAPH_MAX), -1):
        text = lines[begin].text.strip()
        if _RULE.match(text):
            return lines[begin + 1].text.strip() if begin < at and len(text) >= _PARAGRAPH_MAX else hint
        if not text:
            break
    return hint


def _shown(found: _Found) -> str:
    root = next((cause for cause in found.causes if cause != found.line), "")
    return f"{found.line[:_SHOWN_MAX]} (after {root[:_ROOT_MAX]})" if root else found.line[:_SHOWN_MAX]


def _tracebacks(lines: Sequence[Line]) -> list[_Found]:
    """Return the Python tracebacks, each with the causes of its exception, the first first."""
    found: list[_Found] = []
    at = 0
    while at < len(lines):
        if not _TRACEBACK.match(lines[at].text.lstrip()):
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
        end, inner = _rest_of_group(lines, at) if _GROUP.match(line) else (at, ())
        causes = (*_causes(lines, found, begin), *inner)
        counts = not begin or not _OF_NO_ACCOUNT.match(lines[begin - 1].text)
        found.append(_Found(begin, end, ErrorKind.EXCEPTION, line, causes, counts))
        at = end + 1
    return found


def _causes(lines: Sequence[Line], found: Sequence[_Found], begin: int) -> tuple[str, ...]:
    if not found or not any(line.text in _IN_A_CHAIN for line in lines[found[-1].end + 1 : begin]):
        return ()
    return (*found[-1].causes, found[-1].line)[:_CAUSES_MAX]


def _rest_of_group(lines: Sequence[Line], at: int) -> tuple[int, tuple[str, ...]]:
    """Return where an exception group ends, and the first exception in it."""
    begin = at + 1
    while at + 1 < len(lines) and lines[at + 1].is_in_group:
        at += 1
    inner = (line.text for line in lines[begin : at + 1] if not _GROUP.match(line.text))
    first = next((text for text in inner if _EXCEPTION.match(text)), "")
    return at, (first,) if first else ()


def _whole(lines: Sequence[Line], at: int) -> str:
    """Return a line, with the next one that says something when its message only begins there."""
    line = lines[at].text.strip()
    following = next((each.text.strip() for each in lines[at + 1 : at + 3] if each.text.strip()), "")
    if line.endswith(":") or _HEAD.search(line):
        following = _message_after(lines, at)
    elif not following.startswith("what(): "):
        return line
    return f"{line} {following}" if following and not _TRACEBACK.match(following) else line


def _message_after(lines: Sequence[Line], at: int) -> str:
    """Return the first line after the head of a message that says something; empty if there is none."""
    in_stack = False
    for line in lines[at + 1 : at + 1 + _MESSAGE_WITHIN]:
        text = line.text.strip()
        if in_stack and line.indent >= _STACK_INDENT:
            continue
        in_stack = text.endswith("(most recent call last):")
        if not _NO_MESSAGE.match(text):
            return text
        if _TRACEBACK.match(text):
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
        cause = _CAUSED_BY.match(line)
        if cause is not None and found and found[-1].kind is not ErrorKind.HINT:
            causes = (line[cause.end() :], *found[-1].causes)
            found[-1] = replace(found[-1], end=at, causes=causes[:_CAUSES_MAX])
        elif _is_crash(line):
            found.append(_Found(at, at, ErrorKind.EXCEPTION, _whole(lines, at)))
        elif (before := _QUOTED.match(line)) and _EXCEPTION.match(line[before.end() :]):
            found.append(_Found(at, at, ErrorKind.EXCEPTION, line[before.end() :].rstrip("\"'`,}] ")))
        elif _MESSAGE.match(line) or _COMPILER.match(line) or _LEVEL.search(each.prefix):
            if found and found[-1].end == at - 1 and _speaker(found[-1].line) == _speaker(line):
                found[-1] = replace(found[-1], end=at)
            else:
                found.append(_Found(at, at, ErrorKind.MESSAGE, _whole(lines, at)))
    return found


def _is_crash(line: str) -> bool:
    """Return whether a line reports an exception or a panic, also after the place in the source of a logger."""
    if _CRASH.match(line) or _EXCEPTION.match(line):
        return True
    place = _PLACE.match(line)
    return place is not None and _CRASH.match(line, place.end()) is not None


def _speaker(line: str) -> str:
    """Return which program wrote a line: of several lines of one program in a row, the first names the cause."""
    return line.partition(":")[0]

"""Patterns for the end of a failed task's log, each with the row of the exit-code table that it leads to.

A rule checks only the last lines of the log and expects a message in the exact form of its program, mostly at
the start of a line: a word that merely occurs somewhere in the log must never decide that a failure is
permanent. Rules are tried in order and the first that matches wins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

LAST_LINES: Final = 200
"""The number of lines at the end of a log that a rule checks."""
LINE_SHOWN_MAX: Final = 300
_SIGNALS: Final = range(129, 160)

# A failure without a signal, or with one that a program causes itself (abort, bus, fpe, segv).
UNLESS_KILLED: Final = frozenset({*range(1, 129), 134, 135, 136, 139, *range(160, 256)})
# Prefixes that launchers and loggers put before a line: "[rank0]: ", "[1,3]<stderr>:", a time in brackets.
_START: Final = r"^(?:\[[^\]\n]{0,60}\](?:<\w+>)?:?\s*)*"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LogRule:
    """A pattern in a log's last lines that explains a failure as the row `code` of the exit-code table."""

    code: int
    pattern: str
    exit_codes: frozenset[int] | None = None
    """The program's exit codes it applies to; None: any failure that was not a signal."""
    is_of_exception: bool = False
    """Whether it applies only to the exception that ended the program, not to one that was handled before."""

    def applies_to(self, exit_code: int) -> bool:
        """Return whether the rule may explain a task that ended with this exit code."""
        if self.exit_codes is not None:
            return exit_code in self.exit_codes
        return exit_code != 0 and exit_code not in _SIGNALS

    def match(self, exit_code: int, tail: str) -> str | None:
        """Return the line that shows the cause, or None when the rule does not apply."""
        if not tail or not self.applies_to(exit_code):
            return None
        start = _start_of_last_lines(tail)
        found = _compiled(self.pattern).search(tail, start)
        if found is None:
            return None
        begin = tail.rfind("\n", 0, found.start()) + 1
        end = tail.find("\n", found.start())
        line = tail[begin : end if end >= 0 else len(tail)]
        return line.strip()[:LINE_SHOWN_MAX]


def _start_of_last_lines(tail: str) -> int:
    at = len(tail.rstrip("\n"))
    for _ in range(LAST_LINES):
        at = tail.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _raised(code: int, pattern: str) -> LogRule:
    return LogRule(code, _START + pattern, is_of_exception=True)


def _error(*names: str) -> str:
    """Return a pattern for the last line of a Python traceback that raised one of these exceptions."""
    return r"(?:[\w.]+\.)?(?:" + "|".join(names) + r"):"


LOG_RULES: Final[tuple[LogRule, ...]] = (
    # `bash train.sh`; for a command in a script, bash names the line.
    LogRule(238, r"^\S*sh: (?!line \d+: )[^:\n]+: No such file or directory$", frozenset({127})),
    LogRule(220, r"command not found|: not found\s*$|No such file or directory|cannot execute: ", frozenset({127})),
    LogRule(
        220,
        r"[Pp]ermission denied|[Cc]annot execute|Exec format error|bad interpreter: |: Argument list too long",
        frozenset({126}),
    ),
    LogRule(
        238, r"^\S*(?:python[\d.]*: can't open file .*: \[Errno 2\]|sh: 0: [Cc]an(?:'t|not) open )", frozenset({2})
    ),
    LogRule(220, r"^\S*python[\d.]*: can't open file ", frozenset({2})),
    LogRule(238, r"^\S*python[\d.]*: can't find '__main__' module in ", frozenset({1})),
    LogRule(238, r"^Can't open perl script ", frozenset({1, 2})),
    LogRule(220, r"^Error: Could not find or load main class ", frozenset({1, 2})),
    LogRule(231, r"^\S+: (?:line )?\d+: (?:[Ss]yntax error\b|unexpected EOF while looking for )", frozenset({2})),
    LogRule(223, r"CUDA_ERROR_ECC_UNCORRECTABLE|(?i:uncorrectable ecc error encountered)", UNLESS_KILLED),
    LogRule(
        226,
        r"(?i:cuda runtime error \(2\) ?: out of memory)|torch\.(?:cuda\.)?OutOfMemoryError"
        r"|CUDA out of memory|CUDA error: out of memory|cudaErrorMemoryAllocation",
        UNLESS_KILLED,
    ),
    LogRule(221, r"ResourceExhaustedError.*\bOOM\b|(?i:ran out of memory trying to allocate)", UNLESS_KILLED),
    LogRule(222, r"Signal code:\s+Address not mapped", UNLESS_KILLED),
    LogRule(224, r"(?i:cuda driver version is insufficient for cuda runtime version)", UNLESS_KILLED),
    LogRule(225, r"(?i:dropout supported only in cudnn v|cudnn version incompatibility)", UNLESS_KILLED),
    _raised(230, r"ValueError: Restore called with invalid save path"),
    _raised(231, _error("SyntaxError", "IndentationError", "TabError", "UnpicklingError")),
    LogRule(231, r"Assign requires shapes of both tensors to match"),
    _raised(231, r"(?:AttributeError: .*has no attribute|NameError: name .* is not defined)"),
    _raised(232, _error("ImportError", "ModuleNotFoundError")),
    LogRule(232, r"^\S*python[\d.]*: No module named |^Error: Cannot find module '", frozenset({1})),
    _raised(233, r"IndexError: .*out of (?:range|bounds)"),
    _raised(229, r"FileNotFoundError: \[Errno 2\]"),
    _raised(229, _error("UnicodeEncodeError", "UnicodeDecodeError")),
    _raised(229, r"EOFError: Ran out of input"),
    LogRule(229, r"(?i:unknown (?:text|label) header name)"),
    LogRule(229, r"(?i:^error opening file\b|utils\.lua.*input/output error|\bis in a different file format)"),
    LogRule(229, r"UnknownError.*Input/output error|^cp: failed to close .*Input/output error"),
    LogRule(228, r"(?i:^[\w./-]+: (?:line \d+: )?[\w./-]*:? ?(?:unknown|unrecognized|invalid) option\b)"),
    LogRule(228, r"error: unrecognized arguments: ", frozenset({2})),
    LogRule(228, r"dynamic_rnn\(\) got multiple values for|option -start_symbol has no default value"),
    LogRule(228, r"bad argument #\d+ to '|InvalidArgumentError.*:|^tensorflow\S*: Invalid argument:"),
    LogRule(249, r"SSH barrier reaches max retry count", frozenset({10})),
    LogRule(234, r"^(?:\S+: line \d+:\s+\d+ )?Segmentation fault\b"),
    LogRule(235, r"^(?:\S+: line \d+:\s+\d+ )?[A-Z][\w ]{0,40}\(core dumped\)"),
)

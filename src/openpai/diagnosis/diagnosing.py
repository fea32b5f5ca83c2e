"""Finds the root of a failure: in the log of one task, and among all tasks of an attempt by the order of time.

In one log, what the kernel or the hardware reports counts first, wherever it stands. Then what the fatal exception or
those it was raised from say, then the earliest other line that may be a root. Consequences of other processes' failures
count only where nothing else is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple

from openpai.diagnosis.evidence import Evidence, Finding
from openpai.diagnosis.last_error import ErrorKind, LastError, last_error_in, shown_part
from openpai.diagnosis.log_lines import read_lines, time_of_day
from openpai.diagnosis.rules import Role, Rule, RuleSet, Where, built_in
from openpai.protocol.exit_codes import EXIT_SPECS

LINES_READ: Final = 1000
MayGoOn = Callable[[], bool]
"""Says whether more of a log may be searched."""
_LINES_AT_ONCE: Final = 25
"""Old lines that are searched together: none of them says anything in a common log."""
_SEARCHED_MAX: Final = 1000
"""Characters of a line that are searched: of a longer one the beginning and the end."""
_MESSAGE_SEARCHED_MAX: Final = 4000
_RECENT_LINES: Final = 200
"""Where a line that is not certain must stand, counted from the end: what is older was survived."""
_SHOWN_MAX: Final = 400
_BEGIN_SHOWN: Final = 80
"""How much is shown of the beginning of a message that is too long."""
_LINES_BEFORE: Final = 3
_LINES_AFTER: Final = 1
_TIME_ABOVE: Final = 30
"""How many lines before an observed one may give its time: a traceback has none."""
_HARMLESS: Final = re.compile(
    r"(?!.{0,300}\b(?:aborted|failed)\b.{0,100}\b(?:due to|because of|caused by)\b|.{0,300}\bmarked (?:as )?dead\b)"
    r"(?:.{0,80}\b(?:WARNING|INFO|DEBUG)\b|.{0,200}[a-z]Warning: )"
)
_GUESS: Final = re.compile(
    r"(?i)\b(?:some |there are some )?(?:possible|potential|common|likely) (?:root )?(?:causes|reasons)\b"
)
_RETRY: Final = re.compile(r".{0,80}\bRetrying\b|.{0,200}\bentering retry loop\b")
# What runtimes put before the name of an exception.
_REPORTED: Final = re.compile(
    r"(?:Exception in thread \"[^\"]{0,80}\" |Caused by: |Uncaught (?:\(in promise\) )?|Unhandled exception[.:] "
    r"|ERROR: |[Ee]rror: |(?:Load|Init)Error: |nested task error: )+"
)
_OF_RUNTIME: Final = re.compile(
    r"Error response from daemon: |[Ff]ailed to pull (?:and unpack )?image|[Uu]nable to pull \w+:"
    r"|\berror fetching image\b|\b(?:ErrImagePull|ImagePullBackOff|Evicted|FailedMount|FailedAttachVolume)\b"
    r"|\b(?:FailedCreatePodSandBox|NetworkNotReady|kubelet|containerd)\b"
)
"""What a container runtime or Kubernetes wrote into a log: it says what their messages say."""
_DIED: Final = frozenset(
    {"dataloader_worker_killed", "python_killed_signal9_unknown", "mpi_abort", "core_dumped", "runtime_plugin_failed"}
)
"""Consequences that say that a process of the task itself died: they come before those that say it of another task."""
_OF_EXIT: Final = {
    127: "entrypoint_not_found",
    130: "keyboard_interrupt_or_user_stop",
    132: "illegal_instruction",
    139: "segfault",
    153: "quota_exceeded",
}
"""What an exit code says where nothing else is found, such as where a shell wrote in another language."""
_OWN_FAULTS: Final = frozenset({132, 139})
_SIGTERM: Final = 143
_SIGKILL: Final = 137
_KILLED_WITHIN: Final = 10
"""How many lines after the exception of one process a launcher says that it kills the others."""
_KILLING: Final = re.compile(r"(?i).{0,200}\b(?:terminating|killing|aborting|stopping)\b")


class _Rank(IntEnum):
    """How much an observation says about one task, the most first."""

    MESSAGE = 0
    CERTAIN = 1
    FATAL = 2
    GENERAL = 3
    LINE = 4
    MESSAGE_LINE = 5
    DIED = 6
    CASCADE = 7


class _Observed(NamedTuple):
    rank: _Rank
    order: int
    rule: Rule
    line: str
    at: int | None
    """Which of the last lines it is, if it is one."""


class _Meter:
    """Whether more of a log may be searched, and how many lines were left out since it may not."""

    def __init__(self, may_go_on: MayGoOn) -> None:
        self._may_go_on = may_go_on
        self.unread = 0

    def allows(self, lines: int = 1) -> bool:
        """Return whether more lines may be searched; count them if not."""
        if self.unread or not self._may_go_on():
            self.unread += lines
        return not self.unread


def find(evidence: Evidence, rules: RuleSet | None = None, may_go_on: MayGoOn = lambda: True) -> Finding:
    """Return what the end of one task shows; search no further once `may_go_on` says no.

    What is searched last, and so left out of a log that is made to be slow, is its oldest part.
    """
    rules = rules or built_in()
    meter = _Meter(may_go_on)
    found = _find(evidence, rules, meter)
    return replace(found, unread=meter.unread) if meter.unread else found


def is_concerned(evidence: Evidence, rules: RuleSet) -> bool:
    """Return whether one of these rules says something about the end of a task, alone or beside others.

    If not, `find` returns the same with them and without them.
    """
    if any(rule.cause.name == _OF_EXIT.get(evidence.exit_code or 0) for rule in rules.rules):
        return True
    read = read_lines(evidence.log, LINES_READ)
    lines = [line.text.strip() for line in read]
    found = _observed(evidence, lines, last_error_in(read[-_RECENT_LINES:]), rules, _Meter(lambda: True))
    return next(found, None) is not None


def _find(evidence: Evidence, rules: RuleSet, meter: _Meter) -> Finding:
    read = read_lines(evidence.log, LINES_READ)
    error = last_error_in(read[-_RECENT_LINES:])
    lines = [line.text.strip() for line in read]
    observed = min(_observed(evidence, lines, error, rules, meter), key=lambda each: each[:2], default=None)
    if observed is None or (observed.rank >= _Rank.DIED and _comes_first(evidence, error, lines, observed)):
        line = error.line if error else _shown_message(evidence)
        if error is not None and error.kind is ErrorKind.LAST_LINE and evidence.message:
            line = _shown_message(evidence)
        rule = _rule_of_exit(evidence.exit_code, rules)
        return Finding(rule, line, error, context=_context(lines, _position(lines, _said_by(error)), ""))
    at = _position(lines, observed.line) if observed.at is None else observed.at
    shown = _shown_part(observed.line.strip(), observed.rule)
    return Finding(observed.rule, shown, error, _seconds(lines, at), _context(lines, at, shown))


def find_root(
    tasks: Sequence[Evidence], rules: RuleSet | None = None, findings: Sequence[Finding] | None = None
) -> int | None:
    """Return which task's end is the root of an attempt's failure; None if none of them failed.

    The first root in the order of time: tasks that only report that another one failed, and what the platform ended
    afterwards, come after every task that failed by itself. `findings` are what `find` returned for each task.
    """
    known = findings or [find(evidence, rules) for evidence in tasks]
    shown = [(number, evidence, known[number]) for number, evidence in enumerate(tasks)]
    ranked = [(_class(evidence, finding), number) for number, evidence, finding in shown]
    best = min((rank for rank, _ in ranked if rank is not None), default=None)
    first = [shown[number] for rank, number in ranked if rank == best and rank is not None]
    if not first:
        return None
    by_clock = all(finding.seconds is not None for _, _, finding in first)
    return min(first, key=lambda each: (each[2].seconds or 0 if by_clock else each[1].ended_at_ms, each[0]))[0]


def _class(evidence: Evidence, finding: Finding) -> int | None:
    """Return how likely the end of a task is the root of all, the likeliest first; None if it did not fail."""
    rule, error = finding.rule, finding.error
    is_root = rule is not None and rule.role is Role.ROOT
    if evidence.exit_code == 0:
        return None
    if evidence.is_explained or (rule is not None and rule.is_certain):
        return 0
    if evidence.exit_code is None:
        # It was ended while it ran or stood still: what it raised before counts, what it says about its end does not.
        is_exception = error is not None and error.kind is ErrorKind.EXCEPTION
        return 1 if is_root and is_exception and not _is_of_signal(finding) else None
    if is_root:
        return 1
    if rule is not None:
        return 2 if rule.cause.name in _DIED else 3
    if evidence.exit_code == _SIGTERM:
        return 3
    return 1 if error is None or error.kind in (ErrorKind.EXCEPTION, ErrorKind.MESSAGE) else 2


def _is_of_signal(finding: Finding) -> bool:
    return finding.cause is not None and finding.cause.name == "keyboard_interrupt_or_user_stop"


def _shown_message(evidence: Evidence) -> str:
    """Return the message of the backend; of a long one, the beginning and the end, where its innermost error is."""
    message = evidence.message
    if len(message) <= _SHOWN_MAX:
        return message
    return f"{message[:_BEGIN_SHOWN]} ... {message[_BEGIN_SHOWN + 5 - _SHOWN_MAX :]}"


def _observed(
    evidence: Evidence, lines: Sequence[str], error: LastError | None, rules: RuleSet, meter: _Meter
) -> Iterator[_Observed]:
    message = evidence.message[-_MESSAGE_SEARCHED_MAX:]
    for rule in rules.observe(message) if message else ():
        if rule.where is Where.MESSAGE or (rule.where is Where.LINE and rule.role is Role.ROOT):
            yield _Observed(_Rank.MESSAGE, rule.where is Where.LINE, rule, evidence.message, None)
    evidence = _of_exception(evidence, error, lines)
    for order, line in enumerate(_chain(error)):
        for rule in _shown(_observe_exception(rules, line), evidence, (Where.LINE, Where.EXCEPTION)):
            rank = _rank_of(rule, _Rank.GENERAL if rule.is_general else _Rank.FATAL)
            # Where only the sort of error is known, the whole chain says more than one of its exceptions.
            is_bare = rule.is_general or ": " not in line
            yield _Observed(rank, order, rule, error.line if error and is_bare else line, None)
        if not meter.allows():
            break
    for rule in _shown(_observe_message(rules, error), evidence, (Where.EXCEPTION,)):
        # A rule about the line itself goes before one about the sort of error.
        yield _Observed(_rank_of(rule, _Rank.MESSAGE_LINE), len(lines), rule, error.line if error else "", None)
    recent = max(0, len(lines) - _RECENT_LINES)
    for at in range(len(lines) - 1, recent - 1, -1):
        if meter.allows():
            yield from _observed_in(lines, at, evidence, rules, is_old=False)
    for begin in range(0, recent, _LINES_AT_ONCE):
        part = range(begin, min(recent, begin + _LINES_AT_ONCE))
        if meter.allows(len(part)) and rules.observe_certain("\n".join(_searched(lines[at]) for at in part)):
            for at in part:
                yield from _observed_in(lines, at, evidence, rules, is_old=True)


def _observed_in(
    lines: Sequence[str], at: int, evidence: Evidence, rules: RuleSet, *, is_old: bool
) -> Iterator[_Observed]:
    """Yield what a line of the log shows: of an old one, and one that was survived, only what is certain."""
    line = lines[at]
    observe = rules.observe_certain if is_old or _is_survived(lines, at) else rules.observe
    found = observe(_searched(line))
    is_message = any(rule.where is Where.MESSAGE for rule in found) and _OF_RUNTIME.search(line)
    for rule in _shown(found, evidence, (Where.LINE, Where.MESSAGE) if is_message else (Where.LINE,)):
        rank = _Rank.CERTAIN if rule.is_certain else _rank_of(rule, _Rank.LINE)
        yield _Observed(rank, at, rule, line, at)


def _searched(line: str) -> str:
    """Return what is searched of a line: not what may have been the cause, as far as the program knows."""
    guess = _GUESS.search(line)
    line = line[: guess.start()] if guess else line
    return line if len(line) <= _SEARCHED_MAX else f"{line[: _SEARCHED_MAX // 2]} {line[-_SEARCHED_MAX // 2 :]}"


def _observe_exception(rules: RuleSet, line: str) -> list[Rule]:
    """Return the rules of an exception as it was reported, and of the exception alone."""
    searched = _searched(line)
    found = rules.observe(searched)
    reported = _REPORTED.match(searched)
    return [*found, *rules.observe(searched[reported.end() :])] if reported else found


def _of_exception(evidence: Evidence, error: LastError | None, lines: Sequence[str]) -> Evidence:
    """Return the evidence for an exception: a launcher kills a task of which one process raised one."""
    if evidence.exit_code != _SIGKILL or error is None or error.kind is not ErrorKind.EXCEPTION:
        return evidence
    at = _position(lines, _said_by(error))
    after = [] if at is None else lines[at + 1 : at + 1 + _KILLED_WITHIN]
    return replace(evidence, exit_code=1) if any(_KILLING.match(line) for line in after) else evidence


def _rank_of(rule: Rule, of_root: _Rank) -> _Rank:
    """Return the rank of a rule: that a process of the task itself died comes before what it lost by that."""
    if rule.role is not Role.CASCADE:
        return of_root
    return _Rank.DIED if rule.cause.name in _DIED else _Rank.CASCADE


def _comes_first(evidence: Evidence, error: LastError | None, lines: Sequence[str], cascade: _Observed) -> bool:
    """Return whether an error that no rule knows, or the signal of the program's own fault, is older than a cascade."""
    if evidence.exit_code in _OWN_FAULTS:
        return True
    if error is None or error.is_passed_on or error.kind not in (ErrorKind.EXCEPTION, ErrorKind.MESSAGE):
        return False
    at = _position(lines, _said_by(error))
    then = _position(lines, cascade.line) if cascade.at is None else cascade.at
    return at is not None and then is not None and at < then


def _is_survived(lines: Sequence[str], at: int) -> bool:
    """Return whether a line reports what the program went on after: a warning, or a retry that was not the last."""
    if _RETRY.match(lines[at]):
        after = next((line for line in lines[at + 1 :] if line and not _RETRY.match(line)), "")
        return bool(after) and not after.lower().startswith("error: ")
    return _HARMLESS.match(lines[at]) is not None


def _rule_of_exit(exit_code: int | None, rules: RuleSet) -> Rule | None:
    name = _OF_EXIT.get(exit_code or 0)
    known = next((rule for rule in rules.rules if rule.cause.name == name), None)
    if known is None or exit_code is None:
        return None
    return replace(known, row=exit_code if exit_code in EXIT_SPECS else known.row)


def _chain(error: LastError | None) -> list[str]:
    """Return the exceptions that ended a program, the first one first."""
    if error is None or not error.exceptions:
        return []
    last, *causes = error.exceptions.splitlines()
    return [*causes, last]


def _observe_message(rules: RuleSet, error: LastError | None) -> list[Rule]:
    """Return the rules of a message that no language's runtime wrote: of exceptions those about sorts of errors."""
    if error is None or error.kind not in (ErrorKind.MESSAGE, ErrorKind.HINT):
        return []
    return [rule for rule in _observe_exception(rules, error.line) if rule.where is Where.EXCEPTION and rule.is_general]


def _shown(rules: Iterable[Rule], evidence: Evidence, places: Sequence[Where]) -> Iterator[Rule]:
    for rule in rules:
        if rule.where in places and rule.role is not Role.CONFIRMATION and rule.applies_to(evidence.exit_code):
            yield rule


def _said_by(error: LastError | None) -> str:
    """Return an error as it stands in the log."""
    return (error.exceptions.partition("\n")[0] or error.line) if error else ""


def _position(lines: Sequence[str], shown: str) -> int | None:
    """Return the last line with which a quoted line begins: of a message of several lines, the first."""
    return next((at for at in range(len(lines) - 1, -1, -1) if shown.startswith(lines[at] or "\n")), None)


def _context(lines: Sequence[str], at: int | None, shown: str) -> tuple[str, ...]:
    """Return a line with those around it that are not empty; of a long line the part that is shown."""
    if at is None:
        return ()
    begin = max(0, at - _LINES_BEFORE)
    around = enumerate(lines[begin : at + 1 + _LINES_AFTER], begin)
    return tuple(shown if shown and each == at else shown_part(line) for each, line in around if line)


def _shown_part(line: str, rule: Rule) -> str:
    """Return a line; of a long one the beginning and the part in which the rule is."""
    if len(line) <= _SHOWN_MAX:
        return line
    shown = shown_part(line)
    if rule.end_in(shown):
        return shown
    end = rule.end_in(line)
    begin = max(_BEGIN_SHOWN, end + _BEGIN_SHOWN + 5 - _SHOWN_MAX)
    return f"{line[:_BEGIN_SHOWN]} ... {line[begin:end]}"


def _seconds(lines: Sequence[str], at: int | None) -> float | None:
    """Return the time of a line, or of the nearest line before it that has one."""
    if at is None:
        return None
    times = (time_of_day(line) for line in reversed(lines[max(0, at - _TIME_ABOVE) : at + 1]))
    return next((seconds for seconds in times if seconds is not None), None)

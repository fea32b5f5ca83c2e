"""Diagnoses why a task attempt ended, what caused it, and what to do.

The exit code, the backend's report and the tail of the log are looked up in the exit-code table and the rules of
`diagnosis`. The task's own exit code is not changed: the diagnosis is a row of the table beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from openpai.diagnosis.diagnosing import MayGoOn, find, find_root
from openpai.diagnosis.evidence import Evidence, Finding
from openpai.diagnosis.last_error import ErrorKind
from openpai.diagnosis.rules import Domain, Retry, Role, RuleSet
from openpai.lifecycle.model import Behavior, Diagnosis, ExitReason, ExitReport, Outcome, Verdict
from openpai.protocol.exit_codes import EXIT_SPECS, RETRY_ADVICE, spec_for

SUCCEEDED: Final = 0
STOP_REQUESTED: Final = -210
ENDED_WITH_ATTEMPT: Final = -220
REMOVED_BY_RESCALE: Final = -230
DEPENDENCY_MISSED: Final = -240
TIME_LIMIT_REACHED: Final = -1004
UNCAUGHT_EXCEPTION: Final = 236
ERROR_REPORTED: Final = 237
UNKNOWN_FAILURE: Final = 255
# SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV: the program's log may hold the cause.
_OWN_SIGNALS: Final = frozenset({132, 133, 134, 135, 136, 139})

# Ends that a backend reports beside the program's own exit.
_CODE_OF: Final = {
    ExitReason.OOM_KILLED: -1200,
    ExitReason.DISK_EXCEEDED: -1206,
    ExitReason.LOST: -101,
    ExitReason.LAUNCH_FAILED: -120,
    ExitReason.LAUNCH_REFUSED: -200,
    ExitReason.IMAGE_MISSING: 254,
    ExitReason.PORT_TAKEN: 253,
    ExitReason.STALE_GRANT: -120,
    ExitReason.ABSENT: -101,
    ExitReason.EVICTED: -1000,
    ExitReason.NODE_LOST: -1001,
    ExitReason.OUT_OF_RESOURCES: -1002,
    ExitReason.DISPLACED: -1003,
    ExitReason.DEADLINE_EXCEEDED: -1004,
    ExitReason.NODE_FORBIDS: -1005,
    ExitReason.NODE_FAILED: -1006,
    ExitReason.CREATION_FAILED: -1201,
    ExitReason.START_FAILED: -1204,
    ExitReason.NO_SHELL: -1203,
}
TAIL_BYTES: Final = 64 * 1024
"""How much of the end of a log is worth reading for a diagnosis."""
_UNREAD: Final = " {} lines of the end of its log were not searched, because searching them takes too long."
_HINT: Final = "The program failed and reported no error that is known; this line of its log may say why."
_NO_ERROR: Final = "The program failed, and nothing in its log looks like an error; this is its last line."


def diagnose(
    report: ExitReport, tail: str = "", rules: RuleSet | None = None, may_go_on: MayGoOn = lambda: True
) -> Diagnosis:
    """Return why a task attempt ended: a row of the exit-code table, with what the rules say about its log.

    Once `may_go_on` says no, its log is not searched further; the reason says how many of its lines were left out.
    """
    if report.reason is not ExitReason.EXITED:
        found = find(Evidence(None, message=report.message), rules, may_go_on)
        row = _row(_CODE_OF[report.reason], report.message)
        # The backend knows whether what it reports may pass.
        return replace(_with_cause(row, found), behavior=row.behavior)
    if report.code == SUCCEEDED:
        return _row(SUCCEEDED)
    found = find(Evidence(report.code, tail), rules, may_go_on)
    diagnosis = _of_exit(report, found)
    if found.unread:
        diagnosis = replace(diagnosis, reason=diagnosis.reason + _UNREAD.format(found.unread))
    return replace(diagnosis, lines=found.context) if diagnosis.matched else diagnosis


def _of_exit(report: ExitReport, found: Finding) -> Diagnosis:
    """Return the row for the exit of a program that failed."""
    if found.rule is not None and (found.rule.role is Role.ROOT or report.signal is None):
        is_of_signal = found.rule.is_general and report.code in _OWN_SIGNALS
        return _with_cause(_row(report.code if is_of_signal else found.rule.row, found.line), found)
    error = found.error
    message = error.line if error and error.kind not in (ErrorKind.LAST_LINE, ErrorKind.HINT) else ""
    if report.signal is not None and report.code in EXIT_SPECS:
        if found.rule is not None:
            # What another process did to it is no row of its own, but says why it got the signal.
            return _with_cause(_row(report.code, found.line), found)
        return _row(report.code, message if report.code in _OWN_SIGNALS else "")
    if error is None:
        return replace(_row(UNKNOWN_FAILURE), reason="The program failed and wrote nothing to its log.")
    if error.kind in (ErrorKind.LAST_LINE, ErrorKind.HINT):
        reason = _NO_ERROR if error.kind is ErrorKind.LAST_LINE else _HINT
        return replace(_row(UNKNOWN_FAILURE, error.line), reason=reason)
    return _row(UNCAUGHT_EXCEPTION if error.kind is ErrorKind.EXCEPTION else ERROR_REPORTED, message)


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How a task of an attempt that is over ended, with the end of its log."""

    report: ExitReport
    tail: str
    ended_at_ms: int
    was_ended: bool
    """Whether the platform ended it, since the attempt was over."""


def find_end(end: TaskEnd, rules: RuleSet | None = None, may_go_on: MayGoOn = lambda: True) -> Finding:
    """Return what the end of one task shows."""
    return find(_evidence(end), rules, may_go_on)


def root_of(
    ends: Sequence[TaskEnd],
    rules: RuleSet | None = None,
    findings: Sequence[Finding] | None = None,
    may_go_on: MayGoOn = lambda: True,
) -> tuple[int, Diagnosis] | None:
    """Return which task's failure all others followed from, and its diagnosis; None if none of them failed."""
    at = find_root([_evidence(end) for end in ends], rules, findings)
    if at is None:
        return None
    end = ends[at]
    # A task that was ended has no exit code of its own.
    return at, diagnose(ExitReport(1) if end.was_ended else end.report, end.tail, rules, may_go_on)


def _evidence(end: TaskEnd) -> Evidence:
    report = end.report
    is_explained = report.reason is not ExitReason.EXITED
    if end.was_ended or (report.reason is ExitReason.EXITED and report.code == SUCCEEDED):
        return Evidence(None if end.was_ended else SUCCEEDED, end.tail, ended_at_ms=end.ended_at_ms)
    return Evidence(report.code or 1, end.tail, report.message, is_explained, end.ended_at_ms)


def _with_cause(diagnosis: Diagnosis, found: Finding) -> Diagnosis:
    cause = found.cause
    if cause is None:
        return diagnosis
    return replace(
        diagnosis,
        behavior=_behavior(found, diagnosis.behavior),
        reason=cause.summary,
        advice=cause.advice or diagnosis.advice,
        cause=cause.name,
        domain=cause.domain.value,
        retry=cause.retry.value,
        excludes_node=cause.excludes_node,
    )


def _behavior(found: Finding, of_row: Behavior) -> Behavior:
    """Return what a cause means for retries: a known one goes before the row of the table, which many causes share."""
    cause, rule = found.cause, found.rule
    if cause is None or rule is None or of_row is Behavior.TRANSIENT_CONFLICT:
        return of_row
    if cause.retry is Retry.HELPS:
        return Behavior.TRANSIENT
    # Where only the sort of error is known, its owner may know better.
    is_users = cause.retry is Retry.NO and cause.domain is Domain.USER and not rule.is_general
    return Behavior.PERMANENT if is_users else of_row


def without_retry_advice(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis without the advice to set jobRetryCount, for a job that retries already."""
    if RETRY_ADVICE not in diagnosis.advice:
        return diagnosis
    return replace(diagnosis, advice=tuple(line for line in diagnosis.advice if line != RETRY_ADVICE))


def needs_log(report: ExitReport) -> bool:
    """Return whether the tail of the log could say more than the report does."""
    return report.reason is ExitReason.EXITED and report.code != SUCCEEDED


def stop_requested(message: str) -> Diagnosis:
    """Return the diagnosis of a job that ended on request, with a sentence that says whose."""
    return replace(_row(STOP_REQUESTED), reason=f"{message}." if message[-1:].isalnum() else message)


def dependency_never_met(why: str) -> Diagnosis:
    """Return the diagnosis of a job that was not started, because a job that it waits for ended otherwise."""
    return replace(_row(DEPENDENCY_MISSED), reason=why)


def time_limit_reached() -> Diagnosis:
    """Return the diagnosis of a job whose attempt reached its time limit."""
    return _row(TIME_LIMIT_REACHED)


def ended_with_attempt(outcome: Outcome) -> Diagnosis:
    """Return the diagnosis of a task that was ended because its attempt was over."""
    if outcome.verdict is Verdict.STOPPED:
        return outcome.diagnosis or _row(STOP_REQUESTED)
    return _row(TIME_LIMIT_REACHED if outcome.code == TIME_LIMIT_REACHED else ENDED_WITH_ATTEMPT)


def removed_by_rescale() -> Diagnosis:
    """Return the diagnosis of a task that was ended because its task role became smaller."""
    return _row(REMOVED_BY_RESCALE)


@lru_cache(maxsize=512)
def _row(code: int, matched: str = "") -> Diagnosis:
    spec = spec_for(code)
    return Diagnosis(
        code=spec.code,
        phrase=spec.phrase,
        type=spec.type,
        behavior=Behavior(spec.behavior),
        reason=spec.reason,
        advice=tuple(spec.solution),
        matched=matched,
    )

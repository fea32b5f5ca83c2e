"""Exits in OpenPAI's shapes: the row of the exit-code table, a text, and the messages of task and platform."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

from openpai.lifecycle.model import Behavior, Diagnosis, ExitReason, ExitReport
from openpai.protocol.exit_codes import spec_for
from openpai.wire import exits as wire

Document = dict[str, Any]
# OpenPAI's name for the one container of a task.
CONTAINER: Final = "app"


def exit_spec(code: int, diagnosis: Diagnosis | None) -> wire.ExitSpec:
    """Return the diagnosed row of the exit-code table, or the row of `code` itself when nothing was diagnosed."""
    spec = _spec(code if diagnosis is None else diagnosis.code)
    if diagnosis is None:
        return spec
    return {**spec, "reason": diagnosis.reason or spec["reason"], "solution": diagnosis.advice or spec["solution"]}


@lru_cache(maxsize=512)
def _spec(code: int) -> wire.ExitSpec:
    spec = spec_for(code)
    issuer, causer = spec.parties.split("/")
    return {
        "code": spec.code,
        "phrase": spec.phrase,
        "issuer": issuer,
        "causer": causer,
        "type": spec.type,
        "stage": spec.stage,
        "behavior": spec.behavior,
        "reaction": spec.reaction,
        "reason": spec.reason,
        "repro": (spec.repro,),
        "solution": spec.solution,
    }


_DOMAINS: Final[Mapping[str, wire.Domain]] = {
    "USER_FAILURE": "user",
    "USER_STOP": "user",
    "PLATFORM_FAILURE": "platform",
}
"""The responsible side of a row of the table, where no rule names a cause."""
_RETRY: Final[Mapping[Behavior, wire.Retry]] = {
    Behavior.TRANSIENT: "helps",
    Behavior.TRANSIENT_CONFLICT: "helps",
    Behavior.PERMANENT: "no",
}


def cause(diagnosis: Diagnosis | None) -> wire.Cause | None:
    """Return the cause of a failure; None if nothing failed."""
    if diagnosis is None or diagnosis.type in ("USER_SUCCESS", "USER_STOP"):
        return None
    domain, retry = diagnosis.domain, diagnosis.retry
    return {
        "name": diagnosis.cause or "unknown",
        "summary": diagnosis.reason,
        "domain": cast("wire.Domain", domain) if domain else _DOMAINS.get(diagnosis.type, "unknown"),
        "retry": cast("wire.Retry", retry) if retry else _RETRY.get(diagnosis.behavior, "unknown"),
        "excludesNode": diagnosis.excludes_node,
        "line": diagnosis.matched,
        "lines": diagnosis.lines,
        "advice": diagnosis.advice,
    }


def diagnostics(message: str, diagnosis: Diagnosis | None) -> str:
    """Return the cause of an exit and advice, as text for a person; no sentence of it twice."""
    if diagnosis is None:
        return message
    summary = f"{diagnosis.phrase}: {diagnosis.reason}" if diagnosis.reason else diagnosis.phrase
    # What a user said of a stop is both the message and the reason, what a backend reports the message and the match.
    is_reason = message.removesuffix(".") == diagnosis.reason.removesuffix(".")
    lines = [message] if message and not is_reason else []
    lines += [summary]
    lines += [f"log: {diagnosis.matched}"] if diagnosis.matched and diagnosis.matched not in lines else []
    lines += [f"advice: {advice}" for advice in diagnosis.advice]
    return "\n".join(lines)


def exit_messages(code: int, message: str, diagnosis: Diagnosis | None, report: ExitReport | None) -> wire.ExitMessages:
    """Return the message of the task's own exit (`runtime`), or else that of the platform (`launcher`)."""
    if diagnosis is None or (report is not None and report.reason is not ExitReason.EXITED) or code < 0:
        return {"container": None, "runtime": None, "launcher": (report.message if report else "") or message or None}
    runtime: wire.RuntimeExit = {
        "exitCode": diagnosis.code,
        "originUserExitCode": code,
        "reason": diagnosis.reason,
        "solution": "\n".join(diagnosis.advice),
        "errorLogs": {"user": diagnosis.matched, "platform": ""},
        "name": CONTAINER,
    }
    return {"container": None, "runtime": runtime, "launcher": None}

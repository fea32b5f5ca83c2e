"""The page of exit codes: every way a task can end, what caused it, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from openpai.app.pages.markdown import code, page, table
from openpai.diagnosis.rules import built_in
from openpai.protocol.exit_codes import EXIT_SPECS, ExitSpec

_INTRO: Final = """\
A task attempt ends with an exit code. The platform looks up that code, the report of the node, and the last lines of
the log; the row of this table that it finds is the *diagnosis*, which decides whether the task or job is tried again.
The program's own exit code is kept beside the diagnosis: a program that returned 1 because a module was missing has
exit code 1 and diagnosis 232. Codes and names are OpenPAI's, but for -1206 and those from 236 to 246, which OpenPAI
lacks. The *quoted line* is the line of the log that says most about the failure: the exception that ended the
program, with the one that it was raised from, or the error that a program reported last."""

_CAUSES: Final = """\
The rules of the failure analysis lead from lines of the log, and from messages of the backend, to a cause. A rule
says what a line may be in the story of a failure: a *root*, a *cascade* (a consequence of another task's or process's
failure, such as a collective operation that timed out) or a *confirmation*. What the kernel and the hardware report
counts first, then the exception that ended the program and those it was raised from, then the earliest other root
among the last lines; a cascade counts only where no root is found. The rules are `openpai/diagnosis/rules.yaml`."""

_AGAIN: Final = {
    "TRANSIENT": "tried again without being counted, up to a ceiling",
    "TRANSIENT_CONFLICT": "the same, after a longer pause",
    "PERMANENT": "not tried again",
    "UNKNOWN": "tried again while the job's own retry count lasts",
}


def exit_codes() -> str:
    """Return the page."""
    return page(
        "Exit codes",
        "`openpai/protocol/exit_codes.py`",
        _INTRO,
        table(("Behavior", "What happens"), [[code(word), message] for word, message in _AGAIN.items()]),
        "## Overview",
        table(("Code", "Name", "Type", "Behavior", "Meaning"), map(_row, EXIT_SPECS.values())),
        "## Causes",
        _CAUSES,
        table(("Cause", "What happened", "Responsible", "Retry", "Row"), _causes()),
        "## Each code",
        *map(_section, EXIT_SPECS.values()),
    )


def _row(spec: ExitSpec) -> list[str]:
    behavior = "" if spec.type == "USER_SUCCESS" else code(spec.behavior)
    return [str(spec.code), spec.phrase, code(spec.type), behavior, spec.reason]


def _causes() -> Iterable[list[str]]:
    for cause in built_in().causes.values():
        yield [
            code(cause.name),
            cause.summary,
            cause.domain,
            cause.retry,
            f"{cause.row} {EXIT_SPECS[cause.row].phrase}",
        ]


def _section(spec: ExitSpec) -> str:
    issuer, causer = spec.parties.split("/")
    parties = f"Issued by {code(issuer)}, caused by {code(causer)}"
    about = f"{spec.reason} {parties}, stage {code(spec.stage)}, reaction {code(spec.reaction)}."
    points = [
        *(f"- To do: {message}" for message in spec.solution),
        f"- To see it: {spec.repro}",
    ]
    return "\n\n".join([f"### {spec.code} {spec.phrase}", about, "\n".join(points)])

"""The page of exit codes: every way a task can end, what caused it, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from openpai.app.pages.markdown import code, page, table
from openpai.protocol.exit_codes import EXIT_SPECS, ExitSpec
from openpai.protocol.log_rules import LOG_RULES

_INTRO: Final = """\
A task attempt ends with an exit code. The platform looks up that code, the report of the node, and the last lines
of the log in this table; the row it finds is the *diagnosis*, which decides whether the task or job is tried again. The
program's own exit code is kept beside the diagnosis: a program that returned 1 because a module was missing has exit
code 1 and diagnosis 232. Codes and names are OpenPAI's, but for 236 and 237, which OpenPAI lacks: it calls such a
failure 255. The *quoted line* is the line of the log that says most about the failure: the exception that ended the
program, with the one that it was raised from, or the error that a program reported last."""

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
        "## Patterns in the log",
        "These patterns, tried in this order over the last lines of a failed task's log, lead to a row of the table.",
        table(("Leads to", "Pattern"), _rules()),
        "## Each code",
        *map(_section, EXIT_SPECS.values()),
    )


def _row(spec: ExitSpec) -> list[str]:
    behavior = "" if spec.type == "USER_SUCCESS" else code(spec.behavior)
    return [str(spec.code), spec.phrase, code(spec.type), behavior, spec.reason]


def _rules() -> Iterable[list[str]]:
    for rule in LOG_RULES:
        yield [f"{rule.code} {EXIT_SPECS[rule.code].phrase}", code(rule.pattern.replace("`", "'"))]


def _section(spec: ExitSpec) -> str:
    issuer, causer = spec.parties.split("/")
    parties = f"Issued by {code(issuer)}, caused by {code(causer)}"
    about = f"{spec.reason} {parties}, stage {code(spec.stage)}, reaction {code(spec.reaction)}."
    points = [
        *(f"- To do: {message}" for message in spec.solution),
        f"- To see it: {spec.repro}",
    ]
    return "\n\n".join([f"### {spec.code} {spec.phrase}", about, "\n".join(points)])

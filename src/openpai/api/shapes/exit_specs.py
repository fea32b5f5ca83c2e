"""Exit specs as documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from openpai.api.shapes.exits import cause
from openpai.api.shapes.revisions import revised, revision
from openpai.lifecycle.model import Diagnosis
from openpai.orchestrator.past_failures import Comparison
from openpai.ports.platform import ExitSpecContent
from openpai.ports.revisions import Revised, Revision
from openpai.wire import exit_specs as wire


def entry(view: Revised[ExitSpecContent]) -> wire.ExitSpecEntry:
    """Return an exit spec without its rules."""
    body = view.content
    return {
        "name": view.name,
        "origin": view.origin.value,
        "summary": body.get("summary", ""),
        "domain": body.get("domain", ""),
        "retry": _retry(body.get("retry", "")),
        "action": body.get("action", "none"),
        "row": body.get("row"),
        "rules": len(body.get("rules", ())),
        **revised(view),
        "problem": view.problem,
    }


def _retry(found: Any) -> str:
    # YAML reads `retry: no` as false.
    return "no" if found is False else str(found)


def detail(view: Revised[ExitSpecContent]) -> wire.ExitSpecDetail:
    """Return an exit spec with its rules, and the bundled one beside it."""
    return {**entry(view), "spec": view.content, "bundled": view.bundled}


def change(found: Revision[ExitSpecContent]) -> wire.ExitSpecChange:
    """Return one change of an exit spec."""
    return {
        **revision(found),
        "action": cast("Any", found.action),
        "spec": found.content,
    }


def tested(findings: Sequence[Diagnosis], comparison: Comparison) -> wire.ExitSpecTest:
    """Return the effect of an edit on a text, if there is one, and on past failures."""
    finding: wire.ExitSpecFinding | None = None
    if findings:
        finding = {"before": cause(findings[0]), "after": cause(findings[1])}
    return {
        "finding": finding,
        "compared": comparison.compared,
        "cut": comparison.is_cut,
        "changes": [
            {
                "job": each.job.full_name,
                "submissionTime": each.job.submitted_at_ms,
                "taskRoleName": each.role,
                "taskIndex": each.index,
                "before": cause(each.before),
                "after": cause(each.after),
            }
            for each in comparison.changes
        ],
    }

"""What checks find: `pai admin check` and `pai cluster check` print it alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import typer

from openpai.cli.output import document, say


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    state: Literal["ok", "warning", "fault"]
    message: str
    advice: str = ""


def report(findings: Sequence[Finding], about: Mapping[str, Any], *, as_json: bool) -> None:
    """Print findings; exit with 1 if one of them is a fault."""
    if as_json:
        document({**about, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            advice = f"; {finding.advice}" if finding.advice else ""
            say(f"{finding.state:8}{finding.what}: {finding.message}{advice}")
    if any(finding.state == "fault" for finding in findings):
        raise typer.Exit(1)

"""Exit specs: causes of failures, and the rules that find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import Answer, Document, amount, flag, mapping, number, parts, text, value, whole
from openpai.client.model.revisions import Revised, Revision
from openpai.client.model.tasks import Cause, as_cause


def _body(found: Any) -> Mapping[str, Any] | None:
    return found if isinstance(found, Mapping) else None


@dataclass(frozen=True, slots=True)
class ExitSpec(Revised):
    """An exit spec; `spec` is empty in a list."""

    name: str = text("name")
    origin: str = text("origin")
    """bundled, changed, disabled or added."""
    summary: str = text("summary")
    domain: str = text("domain")
    retry: str = text("retry")
    action: str = text("action")
    row: int | None = number("row")
    rules: int = amount("rules")
    problem: str = text("problem")
    spec: Mapping[str, Any] = mapping("spec")
    bundled: Mapping[str, Any] | None = value("bundled", convert=_body)
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class ExitSpecChange(Revision):
    """One change of an exit spec."""

    spec: Mapping[str, Any] | None = value("spec", convert=_body)


@dataclass(frozen=True, slots=True)
class PastFailure(Answer):
    """A failed job with another cause after an edit."""

    job: str = text("job")
    submitted_at_ms: int | None = number("submissionTime")
    role: str = text("taskRoleName")
    index: int = amount("taskIndex")
    before: Cause = value("before", convert=as_cause)
    after: Cause = value("after", convert=as_cause)


@dataclass(frozen=True, slots=True)
class ExitSpecTest(Answer):
    """The effect of an edit on a text, and on the newest failed jobs."""

    before: Cause = value("finding.before", convert=as_cause)
    after: Cause = value("finding.after", convert=as_cause)
    compared: int = amount("compared")
    is_cut: bool = flag("cut")
    changes: tuple[PastFailure, ...] = parts(PastFailure, "changes")
    document: Document = whole()

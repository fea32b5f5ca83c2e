"""Documents of exit specs: causes of failures, and the rules that find them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from openpai.wire.answers import NullableMs
from openpai.wire.doc import Doc, Document
from openpai.wire.exits import Cause
from openpai.wire.revisions import Revised, Revision

Body = Annotated[Mapping[str, Any], Doc("summary, domain, retry, row, action, advice and rules", example={})]
_NAME = Annotated[str, Doc(example="cuda_oom")]


class ExitSpecEntry(Revised):
    """An exit spec as an entry of the list."""

    name: _NAME
    origin: Annotated[Literal["bundled", "changed", "disabled", "added"], Doc("where it comes from", example="bundled")]
    summary: Annotated[str, Doc(example="The GPU's memory ran out.")]
    domain: Annotated[str, Doc("who is responsible", example="user")]
    retry: Annotated[str, Doc("whether another attempt may end better", example="no")]
    action: Annotated[str, Doc("`exclude_node`: the next attempt avoids the node", example="none")]
    row: Annotated[int | None, Doc("its row of the exit-code table", example=226)]
    rules: Annotated[int, Doc("how many rules find it", example=1)]
    problem: Annotated[str, Doc("why this version cannot use the change, so that the bundled one holds", example="")]


class ExitSpecDetail(ExitSpecEntry):
    """An exit spec with its rules."""

    spec: Body
    bundled: Annotated[Mapping[str, Any] | None, Doc("the bundled one, if there is one", example=None)]


class ExitSpecChange(Revision):
    """One change of an exit spec."""

    action: Annotated[Literal["changed", "added", "disabled", "reverted"], Doc(example="changed")]
    spec: Annotated[Mapping[str, Any] | None, Doc("as it was afterwards; null: as bundled, or none", example=None)]


class ExitSpecFinding(Document):
    """What the rules find in a text, today and after an edit."""

    before: Cause | None
    after: Cause | None


class PastFailure(Document):
    """A failed job with another cause after an edit."""

    job: Annotated[str, Doc(example="ann~train")]
    submissionTime: NullableMs
    taskRoleName: Annotated[str, Doc("the task that failed first, after the edit", example="worker")]
    taskIndex: Annotated[int, Doc(example=0)]
    before: Cause | None
    after: Cause | None


class ExitSpecTest(Document):
    """The effect of an edit on a text, and on the newest failed jobs."""

    finding: Annotated[ExitSpecFinding | None, Doc("of the text, if there is one")]
    compared: Annotated[int, Doc("failed jobs that were compared", example=100)]
    cut: Annotated[bool, Doc("whether jobs were left out because too many logs would be read", example=False)]
    changes: Annotated[Sequence[PastFailure], Doc("those whose cause would change, newest first")]

"""Documents of changes of many jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NotRequired

from openpai.wire.answers import JobId, Sentence
from openpai.wire.doc import Doc, Document


class BulkResult(Document):
    """The result for one job."""

    job: Annotated[str, Doc(example="ann~train")]
    id: JobId | None
    status: Annotated[int, Doc(example=200)]
    message: Sentence
    code: NotRequired[Annotated[str, Doc("of an error")]]
    advice: NotRequired[Annotated[str, Doc("of an error")]]


class BulkResults(Document):
    """The results for all jobs."""

    done: Annotated[int, Doc(example=1, minimum=0)]
    failed: Annotated[int, Doc(example=0, minimum=0)]
    more: Annotated[int, Doc("jobs that match after the first 1,000", example=0, minimum=0)]
    results: Sequence[BulkResult]

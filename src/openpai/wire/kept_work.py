"""Documents of what tasks left in their working directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from openpai.wire.answers import Ms, RoleName
from openpai.wire.doc import Doc, Document


class KeptTaskFiles(Document):
    """The files that one task attempt left in its working directory."""

    jobAttemptId: Annotated[int, Doc(example=0)]
    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]
    attemptId: Annotated[int, Doc(example=0)]
    files: Annotated[int, Doc(example=3)]
    bytes: Annotated[int, Doc(example=104857600)]
    isCounted: Annotated[bool, Doc("false if there are more: very many files are not all counted")]
    keptUntil: Ms


class KeptFiles(Document):
    """The kept files of all tasks of a job."""

    kept: Sequence[KeptTaskFiles]

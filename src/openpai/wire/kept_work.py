"""Documents of what tasks left in their working directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from openpai.wire.answers import Ms, RoleName
from openpai.wire.doc import Doc, Document


class KeptTaskFiles(Document):
    """What one task attempt left in its working directory."""

    jobAttemptId: Annotated[int, Doc(example=0)]
    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]
    attemptId: Annotated[int, Doc(example=0)]
    files: Annotated[int, Doc(example=3)]
    bytes: Annotated[int, Doc(example=104857600)]
    isCounted: Annotated[bool, Doc("whether these are all: of very many files only a part is counted")]
    keptUntil: Ms


class KeptFiles(Document):
    """What is kept of the files that the tasks of a job left."""

    kept: Sequence[KeptTaskFiles]

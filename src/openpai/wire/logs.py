"""Documents of the logs of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from openpai.wire.doc import Doc, Document


class LogLocation(Document):
    """A log, and where it is read."""

    name: Annotated[str, Doc(example="stdout")]
    uri: Annotated[
        str,
        Doc(
            "opens without a login for two minutes, for the one who asked",
            example="/api/v2/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout?ticket=gAAA",
        ),
    ]


class LogLocations(Document):
    """The logs of a task attempt."""

    locations: Sequence[LogLocation]

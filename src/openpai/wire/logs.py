"""Documents of the logs of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from openpai.wire.doc import Doc, Document


class LogLocation(Document):
    """A log and its address."""

    name: Annotated[str, Doc(example="stdout")]
    uri: Annotated[
        str,
        Doc(
            "works for two minutes without a login, with the rights of the user who requested it",
            example="/api/v2/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout?ticket=gAAA",
        ),
    ]


class LogLocations(Document):
    """The logs of a task attempt."""

    locations: Sequence[LogLocation]

"""Documents about commands in running tasks."""

from __future__ import annotations

from typing import Annotated

from openpai.wire.answers import Ms
from openpai.wire.doc import Doc, Document


class ShellTicket(Document):
    """The address of one WebSocket."""

    uri: Annotated[
        str,
        Doc(
            "opens one WebSocket without a login, with the rights of the user who requested it",
            example="/api/v2/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/exec?ticket=5fA",
        ),
    ]
    expiresAt: Ms

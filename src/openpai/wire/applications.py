"""Documents about the applications of jobs."""

from __future__ import annotations

from typing import Annotated, Literal

from openpai.wire.answers import Ms, NullableMs, RoleName
from openpai.wire.doc import Doc, Document


class JobApplication(Document):
    """A server in a task of a job that browsers reach through the platform."""

    name: Annotated[str, Doc(example="lab")]
    title: Annotated[str, Doc(example="JupyterLab")]
    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]
    state: Annotated[
        Literal["waiting", "starting", "ready", "gone"],
        Doc("waiting for its task, starting until it answers, ready, or gone with its task", example="ready"),
    ]
    usedTime: Annotated[NullableMs, Doc("when it was used last, while it runs")]
    stopTime: Annotated[NullableMs, Doc("when its job is stopped unless it is used; null if it is not")]


class ApplicationTicket(Document):
    """The address of an application, for one browser."""

    uri: Annotated[
        str,
        Doc(
            "opens the application in one browser without a login, once, with the rights of the user who requested it",
            example="http://localhost:9300/.pai/enter?ticket=5fA",
        ),
    ]
    expiresAt: Ms

"""Documents of whether the server is alive and ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from openpai.wire.doc import Doc, Document


class Health(Document):
    """That this server takes requests."""

    status: Literal["ok"]
    loopFailures: Annotated[int, Doc(example=0)]
    """Errors that background work of this server has met and survived since it was started; its log has them."""


class Readiness(Document):
    """That jobs can be submitted and run."""

    status: Literal["ready"]
    checks: Annotated[
        Mapping[str, str],
        Doc(example={"server": "ok", "database": "ok", "disk": "ok", "leader": "ok", "backend": "ok"}),
    ]
    """What the platform needs, each `ok`."""

"""Documents of whether the server is alive and ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from openpai.wire.doc import Doc, Document


class Health(Document):
    """This server accepts requests."""

    status: Literal["ok"]
    loopFailures: Annotated[int, Doc(example=0)]
    """Errors in background loops since this server was started; its log has the details."""


class Readiness(Document):
    """Jobs can be submitted and run."""

    status: Literal["ready"]
    checks: Annotated[
        Mapping[str, str],
        Doc(example={"server": "ok", "database": "ok", "disk": "ok", "leader": "ok", "backend": "ok"}),
    ]
    """The parts of the platform, each `ok`."""

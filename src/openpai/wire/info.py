"""The document about the server itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from openpai.wire.doc import Doc, Document


class ServerInfo(Document):
    """The name and version of this server, and how to log in."""

    name: Literal["PAI RESTful API"]
    version: Annotated[str, Doc(example="0.2.0")]
    launcherType: Literal["k8s"]
    authnMethod: Literal["basic", "OIDC"]


class Health(Document):
    """This server accepts requests."""

    status: Literal["ok"]
    leads: Annotated[bool, Doc("whether this server runs the jobs", example=True)]
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

"""Documents of the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from openpai.wire.answers import Ms
from openpai.wire.doc import Doc, Document


class AuditEntry(Document):
    """One request that changed something, or tried to."""

    id: Annotated[int, Doc(example=42)]
    time: Ms
    actor: Annotated[str, Doc(example="root")]
    action: Annotated[str, Doc(example="user.change")]
    target: Annotated[str, Doc(example="ann")]
    owner: Annotated[str, Doc(example="ann")]
    via: Annotated[str, Doc(example="login")]
    address: Annotated[str, Doc(example="192.0.2.7")]
    status: Annotated[int, Doc(example=201)]
    detail: Annotated[Mapping[str, Any], Doc(example={"request": "PUT /api/v2/users"})]


class AuditPage(Document):
    """Entries, newest first."""

    entries: Sequence[AuditEntry]
    next: Annotated[int | None, Doc("`before` of the next page", example=None)]

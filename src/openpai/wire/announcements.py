"""Documents of announcements."""

from __future__ import annotations

from typing import Annotated, Literal

from openpai.wire.answers import Ms, UserName
from openpai.wire.doc import Doc, Document


class Announcement(Document):
    """What administrators tell all users for a time."""

    id: Annotated[str, Doc(example="5f1c09ab")]
    text: Annotated[str, Doc("plain text", example="The cluster is upgraded on Saturday from 8:00.")]
    level: Annotated[Literal["info", "warning", "critical"], Doc(example="info")]
    fromTime: Annotated[Ms, Doc("shown from then on")]
    toTime: Annotated[Ms | None, Doc("until then; null: until it is removed", example=None)]
    by: UserName
    state: Annotated[Literal["waiting", "shown", "over"], Doc(example="shown")]

"""Documents of the channels of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from openpai.wire.answers import NullableMs
from openpai.wire.doc import Doc, Document


class AlertChannel(Document):
    """A way by which messages leave the platform; its credentials are never returned."""

    name: Annotated[str, Doc(example="mail")]
    kind: Annotated[Literal["mail", "webhook", "slack", "teams", "alertmanager"], Doc(example="mail")]
    data: Annotated[Mapping[str, Any], Doc("without credentials", example={"host": "mail.example.org"})]
    secrets: Annotated[Sequence[str], Doc("whether there are credentials: `sealed`", example=[])]
    changedBy: Annotated[str, Doc(example="root")]
    changedTime: NullableMs

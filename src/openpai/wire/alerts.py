"""Documents of alerts, in Alertmanager's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from openpai.wire.doc import Doc, Document


class AlertStatus(Document):
    """The state of an alert."""

    state: Literal["active"]
    silencedBy: Annotated[Sequence[str], Doc(example=[])]
    inhibitedBy: Annotated[Sequence[str], Doc(example=[])]


class AlertAnnotations(Document):
    """The text of an alert."""

    summary: Annotated[str, Doc(example="node node-17 is not ready: it does not answer")]


class Alert(Document):
    """Something that needs attention, in Alertmanager's shape."""

    labels: Annotated[Mapping[str, str], Doc(example={"alertname": "NodeNotReady", "severity": "error"})]
    annotations: AlertAnnotations
    startsAt: Annotated[str, Doc(example="2026-01-31T12:00:00.000Z")]
    endsAt: Annotated[str, Doc(example="0001-01-01T00:00:00Z")]
    generatorURL: Literal[""]
    status: AlertStatus
    receivers: Annotated[Sequence[str], Doc(example=[])]
    fingerprint: Annotated[str, Doc(example="0d7c2a52c1f64e2f")]

"""Documents of alerts, in Alertmanager's shape, of silences, and of what alerts did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NotRequired

from openpai.wire.doc import Doc, Document

_MS = Annotated[int, Doc("milliseconds since 1970", example=1767225600000)]


class AlertStatus(Document):
    """The state of an alert."""

    state: Annotated[Literal["active", "suppressed"], Doc("suppressed: a silence holds for it", example="active")]
    silencedBy: Annotated[Sequence[str], Doc("ids of silences", example=[])]
    inhibitedBy: Annotated[Sequence[str], Doc(example=[])]


class AlertAnnotations(Document):
    """The text of an alert."""

    summary: Annotated[str, Doc(example="node node-17 is not ready: it does not answer")]
    next: NotRequired[Annotated[str, Doc("what to do next", example="pai node show node-17")]]


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


class Silence(Document):
    """Alerts that fit all matchers neither notify nor act until it ends."""

    id: Annotated[str, Doc(example="9f2c01ab")]
    matchers: Annotated[Sequence[str], Doc(example=['node_name="n1"'])]
    fromTime: _MS
    toTime: _MS
    user: Annotated[str, Doc(example="root")]
    comment: Annotated[str, Doc(example="new disks on Friday")]
    active: Annotated[bool, Doc("whether it is in effect", example=True)]


class AlertAction(Document):
    """Something that an alert did."""

    time: _MS
    rule: Annotated[str, Doc(example="NvidiaSmiDoubleEccError")]
    action: Annotated[str, Doc(example="cordon")]
    target: Annotated[str, Doc(example="n1")]
    state: Annotated[
        Literal["planned", "started", "done", "failed", "limited", "dry"],
        Doc("limited: a limit prevented it; dry: the rule only records", example="done"),
    ]
    detail: Annotated[str, Doc("what became of it", example="the node takes no new tasks")]
    fingerprint: Annotated[str, Doc("of its alert", example="0d7c2a52c1f64e2f")]


class AlertMessage(Document):
    """A message in the outbox."""

    id: Annotated[int, Doc(example=7)]
    channel: Annotated[str, Doc(example="mail")]
    subject: Annotated[str, Doc(example="[firing] NodeNotReady (error): node n1 is not ready")]
    state: Annotated[Literal["waiting", "sent", "given_up"], Doc(example="waiting")]
    tries: Annotated[int, Doc("how often it was sent", example=3)]
    createdTime: _MS
    nextTime: Annotated[int, Doc("when it is sent next", example=1767225600000)]
    error: Annotated[str, Doc("why it was not delivered", example="the mail server mail:587 cannot be reached")]


class Subscription(Document):
    """What a user hears of their own jobs."""

    on: Annotated[
        Sequence[Literal["start", "end", "failure", "waiting", "retry", "weekly"]],
        Doc("the events; weekly: a report of the virtual clusters that one manages", example=["failure"]),
    ]
    waitingMinutes: Annotated[float, Doc("how long a job may wait before a message", example=30)]
    url: Annotated[str, Doc("a webhook of one's own; empty: mail", example="")]
    shape: Annotated[Literal["webhook", "slack", "teams"], Doc("the form of what the webhook gets", example="webhook")]
    problem: Annotated[str, Doc("why no message can arrive; empty if nothing is known to be in the way", example="")]

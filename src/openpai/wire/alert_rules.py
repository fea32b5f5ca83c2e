"""Documents of alert rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from openpai.wire.answers import NullableMs
from openpai.wire.doc import Doc, Document
from openpai.wire.revisions import Revised, Revision

_NAME = Annotated[str, Doc(example="NodeNotReady")]
_TEXT = Annotated[str, Doc("the rule as YAML", example="alert: NodeNotReady\nexpr: pai_node_ready == 0\n")]
_MS = Annotated[int, Doc("milliseconds since 1970", example=1767225600000)]


class AlertRule(Revised):
    """An alert rule."""

    name: _NAME
    origin: Annotated[Literal["bundled", "changed", "added"], Doc("where it comes from", example="bundled")]
    severity: Annotated[str, Doc(example="error")]
    expr: Annotated[str, Doc("its condition", example="pai_node_ready == 0")]
    forSeconds: Annotated[int, Doc("how long the condition must hold", example=600)]
    actions: Annotated[Sequence[str], Doc("what an alert does", example=["cordon"])]
    notify: Annotated[Sequence[str], Doc("the channels and users that are notified", example=["admins"])]
    enabled: Annotated[bool, Doc("whether it is evaluated", example=True)]
    dryRun: Annotated[bool, Doc("whether its actions are only recorded", example=False)]
    text: _TEXT
    bundled: Annotated[str, Doc("the bundled rule, if there is one", example="")]
    problem: Annotated[str, Doc("why it could not be evaluated or act lately", example="")]


class AlertRuleChange(Revision):
    """One change of an alert rule."""

    action: Annotated[Literal["changed", "added", "reverted"], Doc(example="changed")]
    text: Annotated[str | None, Doc("as it was afterwards; null: as bundled, or none", example=None)]


class PastAlert(Document):
    """An alert that a rule would have had."""

    labels: Annotated[Mapping[str, str], Doc(example={"node_name": "n1"})]
    summary: Annotated[str, Doc(example="node n1 has not been ready for 10 minutes")]
    firedTime: NullableMs
    resolvedTime: NullableMs
    value: Annotated[float, Doc("its last value", example=0.0)]


class PastAction(Document):
    """An action that a rule would have carried out."""

    time: _MS
    action: Annotated[str, Doc(example="cordon")]
    target: Annotated[str, Doc(example="n1")]
    refused: Annotated[str, Doc("the limit that would have prevented it", example="")]


class AlertRuleTest(Document):
    """What a rule would have done in the past."""

    fromTime: _MS
    toTime: _MS
    stepSeconds: Annotated[float, Doc("how far the evaluations are apart", example=300)]
    evaluations: Annotated[int, Doc(example=2016)]
    alerts: Annotated[Sequence[PastAlert], Doc("those that would have fired, the oldest first")]
    actions: Annotated[Sequence[PastAction], Doc("what they would have done")]
    unknown: Annotated[Sequence[str], Doc("values of which no past is kept", example=["pai_node_ready"])]
    problem: Annotated[str, Doc("why it could not be evaluated", example="")]
    cut: Annotated[bool, Doc("whether alerts or jobs were left out because there are too many", example=False)]

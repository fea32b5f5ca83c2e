"""Documents about the server itself, and answers in Prometheus's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from openpai.wire.doc import Doc, Document


class MetricsData(Document):
    """What a query found, a row for each node."""

    resultType: Literal["vector", "matrix"]
    result: Annotated[
        Sequence[Mapping[str, Any]],
        Doc(example=[{"metric": {"instance": "10.0.0.1:9100"}, "value": [1_760_000_000, "62.5"]}]),
    ]


class Metrics(Document):
    """Prometheus's answer to a query."""

    status: Literal["success"]
    data: MetricsData
    warnings: Annotated[
        Sequence[str], Doc(example=["the values are what jobs hold of each node; real use is not measured"])
    ]


class ServerInfo(Document):
    """What this server is."""

    name: Literal["PAI RESTful API"]
    version: Annotated[str, Doc(example="0.2.0")]
    launcherType: Literal["k8s"]
    authnMethod: Literal["basic", "OIDC"]


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

"""What is told of quotas, of use, of the audit log, of alerts, and of the server itself."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from openpai.api.openapi.operations import Answer, Done, Ms, Operation


class QuotaLimits(Answer):
    """A quota; what limits nothing is null."""

    virtualCluster: str = Field(description="empty: all together", examples=["vision"])
    user: str = Field(description="empty: each user without one of their own", examples=["ann"])
    gpusRunning: int | None = Field(examples=[8])
    gpusPerJob: int | None = Field(examples=[4])
    jobsUnfinished: int | None = Field(examples=[100])
    gpuHoursPerMonth: float | None = Field(examples=[None])


class Used(Answer):
    """What of a quota is used up."""

    gpusRunning: int = Field(description="GPUs that one's jobs hold now", examples=[4])
    jobsUnfinished: int = Field(examples=[3])
    gpuHoursThisMonth: float = Field(examples=[12.5])


class QuotaOfMine(QuotaLimits):
    """A quota that holds for oneself."""

    used: Used


class UseSum(Answer):
    """What was held, in hours."""

    gpuHours: float = Field(examples=[12.5])
    cpuHours: float = Field(examples=[100])
    memoryGbHours: float = Field(examples=[800])
    taskAttempts: int = Field(examples=[3])


class UseOf(UseSum):
    """What was held, by what was asked for."""

    day: str = Field("", description="in UTC", examples=["2026-01-31"])
    user: str = Field("", examples=["ann"])
    group: str = Field("", examples=["team-vision"])
    virtualCluster: str = Field("", examples=["vision"])


class Use(Answer):
    """A report of use."""

    from_: Ms = Field(alias="from")
    to: Ms
    by: list[Literal["day", "user", "group", "vc"]] = Field(examples=[["user"]])
    rows: list[UseOf]
    total: UseSum


class AuditLine(Answer):
    """Who did, or tried to do, what to what."""

    id: int = Field(examples=[42])
    time: Ms
    actor: str = Field(examples=["root"])
    action: str = Field(examples=["user.change"])
    target: str = Field(examples=["ann"])
    owner: str = Field(examples=["ann"])
    via: str = Field(examples=["login"])
    address: str = Field(examples=["192.0.2.7"])
    status: int = Field(examples=[201])
    detail: dict[str, Any] = Field(examples=[{"request": "PUT /api/v2/users"}])


class AuditPage(Answer):
    """Entries, newest first."""

    entries: list[AuditLine]
    next: int | None = Field(description="`before` of the next page", examples=[None])


class MetricsFound(Answer):
    """What a query found, a row for each node."""

    resultType: Literal["vector", "matrix"]
    result: list[dict[str, Any]] = Field(
        examples=[[{"metric": {"instance": "10.0.0.1:9100"}, "value": [1_760_000_000, "62.5"]}]]
    )


class Metrics(Answer):
    """Prometheus's answer to a query."""

    status: Literal["success"]
    data: MetricsFound
    warnings: list[str] = Field(examples=[["the values are what jobs hold of each node; real use is not measured"]])


class AlertStatus(Answer):
    """How an alert is."""

    state: Literal["active"]
    silencedBy: list[str] = Field(examples=[[]])
    inhibitedBy: list[str] = Field(examples=[[]])


class AlertText(Answer):
    """What an alert says."""

    summary: str = Field(examples=["node node-17 is not ready: it does not answer"])


class AlertDocument(Answer):
    """Something that needs attention, in Alertmanager's shape."""

    labels: dict[str, str] = Field(examples=[{"alertname": "NodeNotReady", "severity": "error"}])
    annotations: AlertText
    startsAt: str = Field(examples=["2026-01-31T12:00:00.000Z"])
    endsAt: str = Field(examples=["0001-01-01T00:00:00Z"])
    generatorURL: Literal[""]
    status: AlertStatus
    receivers: list[str] = Field(examples=[[]])
    fingerprint: str = Field(examples=["0d7c2a52c1f64e2f"])


class Info(Answer):
    """What this server is."""

    name: Literal["PAI RESTful API"]
    version: str = Field(examples=["0.2.0"])
    launcherType: Literal["k8s"]
    authnMethod: Literal["basic", "OIDC"]


class Health(Answer):
    """That this server takes requests."""

    status: Literal["ok"]
    loopFailures: int = Field(examples=[0])
    """Errors that background work of this server has met and survived since it was started; its log has them."""


class Readiness(Answer):
    """That jobs can be submitted and run."""

    status: Literal["ready"]
    checks: dict[str, str] = Field(
        examples=[{"server": "ok", "database": "ok", "disk": "ok", "leader": "ok", "backend": "ok"}]
    )
    """What the platform needs, each `ok`."""


_Q: Final = "/api/v2/quotas"
_SET: Final = {"virtualCluster": "vision", "user": "ann", "gpusRunning": 8}
_USE_CSV: Final = "user,gpuHours,cpuHours,memoryGbHours,taskAttempts\r\nann,12.5,100,800,3\r\ntotal,12.5,100,800,3\r\n"
_AUDIT_CSV: Final = "id,time,actor,action,target,owner,via,address,status,detail\r\n"
_TEXT: Final = {"text/plain": "OpenPAI 0.2.0: the API is described at /docs\n"}
_FILE: Final = {"Content-Disposition": "of CSV: the name of the file"}
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_Q}": Operation("listQuotas", "List quotas", list[QuotaLimits]),
    f"GET {_Q}/me": Operation("listMyQuotas", "List one's own quotas", list[QuotaOfMine]),
    f"PUT {_Q}": Operation("setQuota", "Set a quota", Done, "NoUserError NoVirtualClusterError", request=_SET),
    f"DELETE {_Q}": Operation("deleteQuota", "Remove a quota", Done, "NoQuotaError"),
    "GET /api/v2/reports/use": Operation("reportUse", "Report use", Use, media={"text/csv": _USE_CSV}, headers=_FILE),
    "GET /api/v2/audit": Operation(
        "listAuditEntries", "Read the audit log", AuditPage, media={"text/csv": _AUDIT_CSV}, headers=_FILE
    ),
    "GET /api/v2/alerts": Operation("listAlerts", "List alerts", list[AlertDocument]),
    "GET /api/v1/": Operation("getRoot", "Tell what this server is", Info),
    "GET /api/v2/info": Operation("getInfo", "Tell what this server is", Info),
    "GET /api/v2/": Operation("getBanner", "Greet people", media=_TEXT),
    "GET /prometheus/api/v1/query": Operation("queryMetrics", "Answer a query of Prometheus", Metrics),
    "GET /prometheus/api/v1/query_range": Operation(
        "queryMetricsOverTime", "Answer a query over a span of time", Metrics
    ),
    "GET /": Operation("getPage", "Say where people find what", media={"text/html": "<!doctype html>"}),
    "GET /readyz": Operation("getReadiness", "Tell whether jobs can be submitted and run", Readiness),
    "GET /healthz": Operation("getHealth", "Tell that this server is alive", Health),
}

"""Operations on quotas, reports of use, the audit log, alerts, and the server itself."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import alerts, answers, audit, server, usage

_Q: Final = "/api/v2/quotas"
_SET: Final = {"virtualCluster": "vision", "user": "ann", "gpusRunning": 8}
_USE_CSV: Final = "user,gpuHours,cpuHours,memoryGbHours,taskAttempts\r\nann,12.5,100,800,3\r\ntotal,12.5,100,800,3\r\n"
_AUDIT_CSV: Final = "id,time,actor,action,target,owner,via,address,status,detail\r\n"
_TEXT: Final = {"text/plain": "OpenPAI 0.2.0: the API is described at /docs\n"}
_FILE: Final = {"Content-Disposition": "of CSV: the name of the file"}
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_Q}": Operation("listQuotas", "List quotas", list[usage.Quota]),
    f"GET {_Q}/me": Operation("listMyQuotas", "List one's own quotas", list[usage.OwnQuota]),
    f"PUT {_Q}": Operation(
        "setQuota", "Set a quota", answers.StatusMessage, "NoUserError NoVirtualClusterError", request=_SET
    ),
    f"DELETE {_Q}": Operation("deleteQuota", "Remove a quota", answers.StatusMessage, "NoQuotaError"),
    "GET /api/v2/reports/use": Operation(
        "reportUse", "Report use", usage.UsageReport, media={"text/csv": _USE_CSV}, headers=_FILE
    ),
    "GET /api/v2/audit": Operation(
        "listAuditEntries", "Read the audit log", audit.AuditPage, media={"text/csv": _AUDIT_CSV}, headers=_FILE
    ),
    "GET /api/v2/alerts": Operation("listAlerts", "List alerts", list[alerts.Alert]),
    "GET /api/v1/": Operation("getRoot", "Show what this server is", server.ServerInfo),
    "GET /api/v2/info": Operation("getInfo", "Show what this server is", server.ServerInfo),
    "GET /api/v2/": Operation("getBanner", "Greet people", media=_TEXT),
    "GET /prometheus/api/v1/query": Operation("queryMetrics", "Answer a query of Prometheus", server.Metrics),
    "GET /prometheus/api/v1/query_range": Operation(
        "queryMetricsOverTime", "Answer a query over a span of time", server.Metrics
    ),
    "GET /": Operation("getPage", "Say where people find what", media={"text/html": "<!doctype html>"}),
    "GET /readyz": Operation("getReadiness", "Show whether jobs can be submitted and run", server.Readiness),
    "GET /healthz": Operation("getHealth", "Show that this server is alive", server.Health),
}

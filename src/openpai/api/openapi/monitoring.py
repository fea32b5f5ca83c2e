"""Operations that only report: alerts, audit log, health, server, Kubernetes lists, metrics and reports of use."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import alerts, audit, health, info, kubernetes, prometheus, reports

_AUDIT_CSV: Final = "id,time,actor,action,target,owner,via,address,status,detail\r\n"
_FILE: Final = {"Content-Disposition": "of CSV: the name of the file"}
_BANNER: Final = {"text/plain": "OpenPAI 0.2.0: the API is described at /docs\n"}
_USE_CSV: Final = "user,gpuHours,cpuHours,memoryGbHours,taskAttempts\r\nann,12.5,100,800,3\r\ntotal,12.5,100,800,3\r\n"
OPERATIONS: Final[dict[str, Operation]] = {
    "GET /api/v2/alerts": Operation("listAlerts", "List alerts", list[alerts.Alert]),
    "GET /api/v2/audit": Operation(
        "listAuditEntries", "Read the audit log", audit.AuditPage, media={"text/csv": _AUDIT_CSV}, headers=_FILE
    ),
    "GET /readyz": Operation("getReadiness", "Show whether jobs can be submitted and run", health.Readiness),
    "GET /healthz": Operation("getHealth", "Show that this server is alive", health.Health),
    "GET /api/v1/": Operation("getRoot", "Show what this server is", info.ServerInfo),
    "GET /api/v2/info": Operation("getInfo", "Show what this server is", info.ServerInfo),
    "GET /api/v2/": Operation("getBanner", "Show a line for people", media=_BANNER),
    "GET /": Operation("getPage", "Show a page for people", media={"text/html": "<!doctype html>"}),
    "GET /api/v2/kubernetes/nodes": Operation(
        "listKubernetesNodes", "List nodes as Kubernetes would", kubernetes.KubernetesList
    ),
    "GET /api/v2/kubernetes/pods": Operation(
        "listKubernetesPods", "List tasks as Kubernetes would", kubernetes.KubernetesList
    ),
    "GET /prometheus/api/v1/query": Operation("queryMetrics", "Answer a query of Prometheus", prometheus.Metrics),
    "GET /prometheus/api/v1/query_range": Operation(
        "queryMetricsOverTime", "Answer a query over a span of time", prometheus.Metrics
    ),
    "GET /api/v2/reports/use": Operation(
        "reportUse", "Report use", reports.UsageReport, media={"text/csv": _USE_CSV}, headers=_FILE
    ),
}

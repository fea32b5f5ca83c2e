"""Dashboards for Grafana in the chart, written from the table below; units and descriptions are the catalogue's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from openpai.series.catalogue import METRICS

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_UNITS: Final = {
    "bytes": "bytes",
    "percent": "percent",
    "seconds": "s",
    "watts": "watt",
    "celsius": "celsius",
    "": "short",
}
_NAME: Final = re.compile(r"\b(?:pai|process|task|DCGM)_\w+")
_WIDTH, _HEIGHT = 12, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart: its title, and its queries with their legends."""

    title: str
    queries: Mapping[str, str]
    unit: str = ""
    """Another unit than that of the first metric in its queries."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics of its queries."""
        return tuple(dict.fromkeys(name for query in self.queries for name in _NAME.findall(query)))


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Charts of one page, and the labels among whose values its reader chooses."""

    title: str
    panels: Sequence[Panel]
    variables: Mapping[str, str]
    """Labels by the metric that has them."""


def _rate(metric: str, by: str, where: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{where}[$__rate_interval]))"


_NODE, _VC = '{node=~"$node"}', '{virtual_cluster=~"$virtual_cluster"}'
_JOB: Final = '{job_name=~"$job_name"}'
DASHBOARDS: Final[Mapping[str, Dashboard]] = {
    "platform": Dashboard(
        "OpenPAI / Platform",
        (
            Panel("Jobs", {"sum by (state) (pai_jobs)": "{{state}}"}),
            Panel("Nodes", {"sum by (state) (pai_nodes)": "{{state}}"}),
            Panel("Jobs that wait", {"sum by (virtual_cluster) (pai_queue_jobs)": "{{virtual_cluster}}"}),
            Panel("Longest wait", {"max by (virtual_cluster) (pai_queue_oldest_seconds)": "{{virtual_cluster}}"}),
            Panel("Requests per second", {_rate("pai_api_requests_total", "status"): "{{status}}"}, "reqps"),
            Panel(
                "Time of a request, by route",
                {
                    f"topk(10, {_rate('pai_api_request_seconds_total', 'route')} / "
                    f"{_rate('pai_api_requests_total', 'route')})": "{{route}}"
                },
                "s",
            ),
            Panel("Delay of the event loop", {"max by (instance) (pai_loop_lag_seconds)": "{{instance}}"}),
            Panel("Commits per second", {_rate("pai_commits_total", "instance"): "{{instance}}"}, "ops"),
            Panel("Grants per second", {_rate("pai_grants_total", "instance"): "{{instance}}"}, "ops"),
            Panel("Memory of the server", {"max by (instance) (process_resident_memory_bytes)": "{{instance}}"}),
            Panel(
                "Processor of the server",
                {f"100 * {_rate('process_cpu_seconds_total', 'instance')}": "{{instance}}"},
                "percent",
            ),
            Panel("Errors that loops survived", {_rate("pai_loop_failures_total", "instance"): "{{instance}}"}),
        ),
        {},
    ),
    "nodes": Dashboard(
        "OpenPAI / Nodes and GPUs",
        (
            Panel("GPUs held", {f"pai_node_gpus_held{_NODE}": "{{node}}"}),
            Panel("CPUs held", {f"pai_node_cpus_held{_NODE}": "{{node}}"}),
            Panel("Processors", {f"pai_node_cpu_percent{_NODE}": "{{node}}"}),
            Panel("Memory in use", {f"pai_node_memory_used_bytes{_NODE}": "{{node}}"}),
            Panel("Network", {
                _rate("pai_node_network_received_bytes_total", "node", _NODE): "{{node}} received",
                _rate("pai_node_network_sent_bytes_total", "node", _NODE): "{{node}} sent",
            }, "Bps"),
            Panel("Disks", {
                _rate("pai_node_disk_read_bytes_total", "node", _NODE): "{{node}} read",
                _rate("pai_node_disk_written_bytes_total", "node", _NODE): "{{node}} written",
            }, "Bps"),
            Panel("Disk of the data directory", {
                f"100 * pai_node_disk_used_bytes{_NODE} / pai_node_disk_total_bytes{_NODE}": "{{node}}"
            }, "percent"),
            Panel("Drained or bad", {
                f"pai_node_drained{_NODE} > 0": "{{node}} drained", f"pai_node_gpus_bad{_NODE} > 0": "{{node}} bad GPUs"
            }),
            Panel("How busy GPUs are", {f"DCGM_FI_DEV_GPU_UTIL{_NODE}": "{{node}}/{{gpu}}"}),
            Panel("Tensor cores", {f"100 * DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{_NODE}": "{{node}}/{{gpu}}"}, "percent"),
            Panel("Memory of GPUs", {f"DCGM_FI_DEV_FB_USED{_NODE}": "{{node}}/{{gpu}}"}, "decmbytes"),
            Panel("Power", {f"DCGM_FI_DEV_POWER_USAGE{_NODE}": "{{node}}/{{gpu}}"}),
            Panel("Temperature", {f"DCGM_FI_DEV_GPU_TEMP{_NODE}": "{{node}}/{{gpu}}"}),
        ),
        {"node": "pai_node_up"},
    ),
    "virtual-clusters": Dashboard(
        "OpenPAI / Virtual clusters",
        (
            Panel("GPUs used of those promised", {
                f"pai_vc_gpus_used{_VC}": "{{virtual_cluster}} used",
                f"pai_vc_gpus_promised{_VC}": "{{virtual_cluster}} promised",
            }),
            Panel("Lent and borrowed", {
                f"pai_vc_gpus_lent{_VC}": "{{virtual_cluster}} lent",
                f"pai_vc_gpus_borrowed{_VC}": "{{virtual_cluster}} borrowed",
            }),
            Panel("Stranded", {f"pai_vc_gpus_stranded{_VC}": "{{virtual_cluster}}"}),
            Panel("CPUs used", {f"pai_vc_cpus_used{_VC}": "{{virtual_cluster}}"}),
            Panel("Jobs", {
                f"pai_vc_jobs_running{_VC}": "{{virtual_cluster}} running",
                f"pai_vc_jobs_waiting{_VC}": "{{virtual_cluster}} waiting",
            }),
            Panel("Longest wait", {f"pai_queue_oldest_seconds{_VC}": "{{virtual_cluster}}"}),
        ),
        {"virtual_cluster": "pai_vc_gpus_promised"},
    ),
    "jobs": Dashboard(
        "OpenPAI / Jobs",
        (
            Panel("GPUs held", {f"pai_job_gpus_held{_JOB}": "{{job_name}}"}),
            Panel("How busy its GPUs are", {f"pai_job_gpu_percent{_JOB}": "{{job_name}}"}),
            Panel("Processors", {f"pai_job_cpus_used{_JOB}": "{{job_name}}"}),
            Panel("Memory", {f"pai_job_memory_used_bytes{_JOB}": "{{job_name}}"}),
            Panel("Processors of tasks", {f"task_cpu_percent{_JOB}": "{{role_name}}-{{task_index}}"}),
            Panel("Memory of tasks", {f"task_mem_usage_byte{_JOB}": "{{role_name}}-{{task_index}}"}),
            Panel("GPUs of tasks", {f"task_gpu_percent{_JOB}": "{{role_name}}-{{task_index}} {{minor_number}}"}),
            Panel("Memory of GPUs", {f"task_gpu_mem_percent{_JOB}": "{{role_name}}-{{task_index}} {{minor_number}}"}),
        ),
        {"job_name": "pai_job_gpus_held"},
    ),
}  # fmt: skip
"""The dashboards by the names of their files."""


def dashboard(name: str) -> str:
    """Return a dashboard as Grafana reads it."""
    one = DASHBOARDS[name]
    document = {
        "uid": f"openpai-{name}",
        "title": one.title,
        "tags": ["openpai"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            *(_variable(label, metric) for label, metric in one.variables.items()),
        ]},
        "panels": [_panel(number, panel) for number, panel in enumerate(one.panels)],
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"


def _variable(label: str, metric: str) -> dict[str, Any]:
    return {
        "name": label, "type": "query", "datasource": _SOURCE, "query": f"label_values({metric}, {label})",
        "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    first = METRICS[panel.metrics[0]]
    row, column = divmod(number, 2)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": " ".join(METRICS[name].help for name in panel.metrics),
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit or _UNITS[first.unit], "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for place, (query, legend) in enumerate(panel.queries.items())
        ],
    }

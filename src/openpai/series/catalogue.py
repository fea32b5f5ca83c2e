"""The catalogue of metrics: what is measured, in which unit, and with which labels.

Names are those of the field: DCGM's for devices, OpenPAI's for tasks, which its dashboards ask for, and `pai_` for the
platform. What is not in the catalogue is neither kept nor published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; the series of a counter are kept as rates per second."""

    name: str
    help: str
    kind: Kind = "gauge"
    unit: str = ""
    """The unit of its kept values: bytes, percent, seconds; empty for a count."""


def _table(unit: str, kind: Kind, rows: Mapping[str, str]) -> Iterable[tuple[str, Metric]]:
    return ((name, Metric(name, text, kind, unit)) for name, text in rows.items())


_PLATFORM: Final = {
    "pai_jobs": "Jobs that are not over, by state.",
    "pai_tasks": "Tasks of jobs that are not over, by state.",
    "pai_queue_jobs": "Jobs that wait for resources, by virtual cluster.",
    "pai_nodes": "Nodes, by state.",
    "pai_series": "Series that are measured at the moment.",
    "pai_series_dropped": "Series that are not measured because there are too many.",
    "pai_remote_write_waiting_bytes": "What waits for the store of --remote-write-url.",
    "pai_leads": "1 on the server that leads.",
    "pai_backend_up": "1 while the backend reports nodes.",
}
_PLATFORM_SECONDS: Final = {
    "pai_queue_oldest_seconds": "How long the job that waits longest has waited, by virtual cluster.",
    "pai_loop_lag_seconds": "The longest delay of the event loop since the round before.",
    "pai_metrics_round_seconds": "Processor time that the newest round of measuring took.",
}
_PLATFORM_COUNTERS: Final = {
    "pai_loop_failures_total": "Errors that background work of this server survived.",
    "pai_grants_total": "Grants of resources to tasks by this leader.",
    "pai_commits_total": "Transactions that the database committed.",
    "pai_writes_total": "Writes in these transactions.",
    "pai_remote_write_dropped_samples_total": "Samples that the store of --remote-write-url never took.",
    "pai_turns_total": "Turns of the leader.",
    "pai_api_requests_total": "Requests that the API answered, by route, method and class of status.",
}
_PLATFORM_COUNTED_SECONDS: Final = {
    "pai_api_request_seconds_total": "Time that answers of the API took, by route and method.",
    "pai_turn_seconds_total": "Time that turns of the leader took.",
    "pai_commit_seconds_total": "Time that transactions of the database took.",
    "process_cpu_seconds_total": "Processor time of the server.",
}
_VC: Final = {
    "pai_vc_gpus_promised": "GPUs promised to a virtual cluster, bad ones included.",
    "pai_vc_gpus_guaranteed": "The healthy part of them.",
    "pai_vc_gpus_used": "GPUs that jobs with a guarantee hold, by virtual cluster.",
    "pai_vc_gpus_borrowed": "GPUs that opportunistic jobs hold, by virtual cluster.",
    "pai_vc_gpus_lent": "GPUs promised to a virtual cluster that jobs of others hold.",
    "pai_vc_gpus_stranded": "Free GPUs of a virtual cluster while jobs wait in it.",
    "pai_vc_cpus_promised": "CPUs promised to a virtual cluster.",
    "pai_vc_cpus_used": "CPUs that jobs with a guarantee hold, by virtual cluster.",
    "pai_vc_cpus_borrowed": "CPUs that opportunistic jobs hold, by virtual cluster.",
    "pai_vc_jobs_running": "Jobs that run, by virtual cluster; where tasks start one by one, the tasks.",
    "pai_vc_jobs_waiting": "Jobs that wait, by virtual cluster; where tasks start one by one, the tasks.",
}
_NODE: Final = {
    "pai_node_up": "1 while a node is healthy.",
    "pai_node_drained": "1 while a node is drained.",
    "pai_node_cpus": "CPUs that a node offers to jobs.",
    "pai_node_cpus_held": "CPUs of a node that jobs hold.",
    "pai_node_gpus": "GPUs that a node offers to jobs.",
    "pai_node_gpus_held": "GPUs of a node that jobs hold.",
    "pai_node_gpus_bad": "GPUs of a node that are marked as bad.",
    "pai_node_tasks": "Task attempts that hold resources of a node.",
    "pai_node_load1": "Load average of a node over one minute.",
}
_NODE_BYTES: Final = {
    "pai_node_memory_bytes": "Memory that a node offers to jobs.",
    "pai_node_memory_held_bytes": "Memory of a node that jobs hold.",
    "pai_node_memory_total_bytes": "Memory of a node.",
    "pai_node_memory_used_bytes": "Memory of a node in use, without caches.",
    "pai_node_disk_total_bytes": "Size of the file system of the data directory.",
    "pai_node_disk_used_bytes": "Used bytes of the file system of the data directory.",
}
_NODE_RATES: Final = {
    "pai_node_network_received_bytes_total": "Bytes that a node received.",
    "pai_node_network_sent_bytes_total": "Bytes that a node sent.",
    "pai_node_disk_read_bytes_total": "Bytes that a node read from its disks.",
    "pai_node_disk_written_bytes_total": "Bytes that a node wrote to its disks.",
}
_JOB: Final = {
    "pai_job_gpus_held": "GPUs that a job holds.",
    "pai_job_cpus_held": "CPUs that a job holds.",
    "pai_job_tasks_running": "Running tasks of a job.",
    "pai_job_cpus_used": "Processors that the tasks of a job use.",
    "pai_job_progress_steps": "Steps that the task of a job that is least far has made.",
    "pai_job_progress_value": "A value that this task reported with its progress, such as the loss, by its name.",
}
_TASK: Final = {
    "task_processes": "Processes of a task.",
    "task_processes_stopped": "Stopped processes of a task, as by SIGSTOP.",
    "task_progress_steps": "Steps that a task reported.",
}
_PERCENT: Final = {
    "pai_node_cpu_percent": "How busy the processors of a node are.",
    "pai_job_gpu_percent": "Mean of how busy the GPUs of a job are.",
    "task_cpu_percent": "Processor use of a task; 100 is one processor.",
    "task_mem_usage_percent": "Memory use of a task of what it asked for.",
    "task_gpu_percent": "How busy a GPU of a task is.",
    "task_gpu_mem_percent": "How much of the memory of a GPU of a task is used.",
    "task_gpu_tensor_percent": "How busy the tensor cores of a GPU of a task are.",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilisation (in %).",
}
_BYTES: Final = {
    "pai_job_memory_used_bytes": "Memory that the tasks of a job use.",
    "task_mem_usage_byte": "Memory that a task uses, without the file cache.",
    "task_mem_limit_byte": "Memory that a task asked for.",
    "process_resident_memory_bytes": "Memory of the server.",
}
_TASK_RATES: Final = {
    "task_net_in_byte": "Bytes that a task received.",
    "task_net_out_byte": "Bytes that a task sent.",
    "task_block_in_byte": "Bytes that a task read from disks.",
    "task_block_out_byte": "Bytes that a task wrote to disks.",
}
_DEVICE: Final = {
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "Ratio of cycles the tensor cores are active.",
    "DCGM_FI_DEV_SM_CLOCK": "SM clock (in MHz).",
    "DCGM_FI_DEV_MEM_CLOCK": "Memory clock (in MHz).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_RESERVED": "Framebuffer memory that the driver keeps for itself (in MiB).",
    "DCGM_FI_DEV_XID_ERRORS": "Value of the last XID error encountered.",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "Uncorrectable ECC errors since the driver was loaded.",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": "Corrected ECC errors since the driver was loaded.",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "Reasons of reduced clocks, as NVML's bits.",
    "DCGM_FI_DEV_PSTATE": "Performance state, 0 is the fastest.",
    "pai_device_power_limit_watts": "Enforced power limit of a device.",
}
_WATTS: Final = {
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "task_gpu_power_watts": "Power draw of a GPU of a task.",
}
_CELSIUS: Final = {
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "task_gpu_temperature_celsius": "Temperature of a GPU of a task.",
}
METRICS: Final[Mapping[str, Metric]] = dict(
    (
        *_table("", "gauge", {**_PLATFORM, **_VC, **_NODE, **_JOB, **_TASK, **_DEVICE}),
        *_table("seconds", "gauge", _PLATFORM_SECONDS),
        *_table("", "counter", _PLATFORM_COUNTERS),
        *_table("seconds", "counter", _PLATFORM_COUNTED_SECONDS),
        *_table("bytes", "gauge", {**_NODE_BYTES, **_BYTES}),
        *_table("bytes", "counter", {**_NODE_RATES, **_TASK_RATES}),
        *_table("percent", "gauge", _PERCENT),
        *_table("watts", "gauge", _WATTS),
        *_table("celsius", "gauge", _CELSIUS),
    )
)
"""Every metric by its name."""

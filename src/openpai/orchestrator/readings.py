"""What the leader can read off its memory for metrics: jobs, the queue, nodes, virtual clusters, and what tasks use.

Labels of jobs and tasks are OpenPAI's: its dashboards ask for them. Each function returns nothing while this server
does not lead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from openpai.lifecycle.model import JobPhase, Tasks
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.nodes import Used, add_used, node_views
from openpai.ports.store import JobRecord
from openpai.ports.task_usage import DeviceUse, TaskUse
from openpai.scheduler.interface import VcView
from openpai.series.labels import NO_LABELS, Labels
from openpai.series.model import PAUSE, Reading

Find = Callable[[], Leader | None]
_JOBS_AT_ONCE = 200
_WAITING = (JobPhase.QUEUED, JobPhase.BACKING_OFF)


def of_platform(find: Find) -> Iterator[Reading]:
    """Yield what concerns the leader itself, its jobs and its queue."""
    leader = find()
    yield Reading(NO_LABELS, {"pai_leads": float(leader is not None)})
    if leader is None:
        return
    yield Reading(
        NO_LABELS,
        {
            "pai_grants_total": float(leader.grants_given),
            "pai_turns_total": float(leader.turns),
            "pai_turn_seconds_total": leader.turn_s,
            "pai_backend_up": float(bool(leader.nodes)),
        },
    )
    now_ms = leader.clock.now_ms()
    states, tasks = Counter[str](), Counter[str]()
    waiting: dict[str, list[int]] = {}
    # A copy: jobs end in the pauses.
    for number, record in enumerate(list(leader.active.records.values()), start=1):
        if number % _JOBS_AT_ONCE == 0:
            yield PAUSE
        job = record.job
        states[job.phase.value] += 1
        for (_, phase), count in Tasks.counted(job.tasks).counts.items():
            tasks[phase.value] += count
        if job.phase in _WAITING:
            waiting.setdefault(record.virtual_cluster, []).append(now_ms - job.submitted_at_ms)
    for state, count in states.items():
        yield Reading(Labels.of({"state": state}), {"pai_jobs": float(count)})
    for state, count in (+tasks).items():
        yield Reading(Labels.of({"state": state}), {"pai_tasks": float(count)})
    for name, ages_ms in waiting.items():
        values = {"pai_queue_jobs": float(len(ages_ms)), "pai_queue_oldest_seconds": max(0, *ages_ms, 0) / 1000}
        yield Reading(Labels.of({"virtual_cluster": name}), values)


def of_virtual_clusters(find: Find) -> Iterator[Reading]:
    """Yield what virtual clusters are promised, use, lend and borrow."""
    leader = find()
    for view in leader.scheduler.virtual_clusters() if leader is not None else ():
        yield Reading(Labels.of({"virtual_cluster": view.name}), _vc_values(view))


def _vc_values(view: VcView) -> Mapping[str, float]:
    free = max(0, view.guaranteed.gpus - view.used.gpus - view.lent.gpus)
    return {
        "pai_vc_gpus_promised": float(view.total.gpus),
        "pai_vc_gpus_guaranteed": float(view.guaranteed.gpus),
        "pai_vc_gpus_used": float(view.used.gpus),
        "pai_vc_gpus_borrowed": float(view.borrowed.gpus),
        "pai_vc_gpus_lent": float(view.lent.gpus),
        "pai_vc_gpus_stranded": float(free if view.waiting else 0),
        "pai_vc_cpus_promised": float(view.total.cpus),
        "pai_vc_cpus_used": float(view.used.cpus),
        "pai_vc_cpus_borrowed": float(view.borrowed.cpus),
        "pai_vc_jobs_running": float(view.running),
        "pai_vc_jobs_waiting": float(view.waiting),
    }


def of_nodes(find: Find) -> Iterator[Reading]:
    """Yield the state of nodes, and what jobs hold of them."""
    leader = find()
    states = Counter[str]()
    used: dict[str, Used] = {}
    # A copy: jobs end in the pauses.
    for number, record in enumerate(list(leader.active.records.values()) if leader is not None else (), start=1):
        add_used(used, record)
        if number % _JOBS_AT_ONCE == 0:
            yield PAUSE
    for node in node_views(leader, used) if leader is not None else ():
        states["drained" if node.is_drained else "healthy" if node.is_healthy else "unhealthy"] += 1
        values = {
            "pai_node_up": float(node.is_healthy),
            "pai_node_drained": float(node.is_drained),
            "pai_node_cpus": float(node.cpus_total),
            "pai_node_cpus_held": float(node.cpus_used),
            "pai_node_memory_bytes": node.memory_mb_total * 2.0**20,
            "pai_node_memory_held_bytes": node.memory_mb_used * 2.0**20,
            "pai_node_gpus": float(node.gpus_total),
            "pai_node_gpus_held": float(node.gpus_used),
            "pai_node_gpus_bad": float(len(node.bad_devices)),
            "pai_node_tasks": float(node.tasks),
        }
        yield Reading(Labels.of({"node": node.name}), values)
    for state, count in states.items():
        yield Reading(Labels.of({"state": state}), {"pai_nodes": float(count)})


class OfJobs:
    """Yields what jobs hold and use, and what each of their tasks uses, from the newest samples."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._labels = _TaskLabels()

    def __call__(self) -> Iterator[Reading]:
        """Yield the readings of one round."""
        self._labels.begin()
        if (leader := self._find()) is not None:
            yield from _of_jobs(leader, self._labels)


class _TaskLabels:
    """The labels of tasks, kept for the next round: those of thousands of tasks are the same in each."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Labels] = {}
        self._used: dict[tuple[object, ...], Labels] = {}

    def begin(self) -> None:
        """Begin a round, and forget what the last one did not use."""
        self._known, self._used = self._used, {}

    def of(self, job: Mapping[str, str], role: str, index: int, device: int | None = None) -> Labels:
        """Return the labels of a task of a job, or of one of its devices."""
        key = (job["job_instance_id"], job["virtual_cluster"], role, index, device)
        found = self._known.get(key)
        if found is None:
            labels = {**job, "role_name": role, "task_index": str(index)}
            found = Labels.of(labels if device is None else {**labels, "minor_number": str(device)})
        self._used[key] = found
        return found


def _of_jobs(leader: Leader, task_labels: _TaskLabels) -> Iterator[Reading]:
    uses: dict[str, list[TaskUse]] = {}
    for key, use in (leader.measures.newest() if leader.measures is not None else {}).items():
        uses.setdefault(key.job, []).append(use)
    # A copy: a long round of measuring pauses for others, who may end jobs.
    for id_, record in list(leader.active.records.items()):
        if record.slots:
            labels = job_labels(record)
            found = uses.get(id_, [])
            yield Reading(Labels.of(labels), {**_held(record), **_sums(found)})
            reported = leader.measures.reported(id_) if leader.measures is not None else {}
            for name, value in reported.items():
                yield Reading(Labels.of({**labels, "metric": name}), {"pai_job_progress_value": value})
            limits = {role.name: role.resources.memory_mb * 2.0**20 for role in record.spec.task_roles}
            for use in found:
                yield from _of_task(labels, task_labels, use, limits.get(use.sample.key.role, 0.0))


def job_labels(record: JobRecord) -> dict[str, str]:
    """Return the labels of a job."""
    return {
        "username": record.user,
        "job_name": record.full_name,
        "virtual_cluster": record.virtual_cluster,
        "job_instance_id": record.job.id,
    }


def _held(record: JobRecord) -> dict[str, float]:
    slots = record.slots.values()
    return {
        "pai_job_gpus_held": float(sum(slot.gpus for slot in slots)),
        "pai_job_cpus_held": float(sum(slot.cpus for slot in slots)),
    }


def _sums(uses: Sequence[TaskUse]) -> dict[str, float]:
    if not uses:
        return {}
    busy = [gpu.busy_percent for use in uses for gpu in use.sample.devices if gpu.busy_percent is not None]
    values = {
        "pai_job_tasks_running": float(len(uses)),
        "pai_job_cpus_used": sum(use.rates.cpus for use in uses if use.rates is not None),
        "pai_job_memory_used_bytes": float(sum(use.sample.memory_bytes for use in uses)),
    }
    if busy:
        values["pai_job_gpu_percent"] = sum(busy) / len(busy)
    if steps := [use.sample.progress.step for use in uses if use.sample.progress is not None]:
        values["pai_job_progress_steps"] = float(min(steps))
    return values


def _of_task(job: Mapping[str, str], task_labels: _TaskLabels, use: TaskUse, limit_bytes: float) -> Iterator[Reading]:
    sample, counters = use.sample, use.sample.counters
    role, index = sample.key.role, sample.key.index
    found = {
        "task_cpu_percent": None if use.rates is None else use.rates.cpus * 100,
        "task_mem_usage_byte": float(sample.memory_bytes),
        "task_mem_limit_byte": limit_bytes or None,
        "task_mem_usage_percent": sample.memory_bytes / limit_bytes * 100 if limit_bytes else None,
        "task_processes": float(sample.processes),
        "task_processes_stopped": float(sample.stopped),
        "task_progress_steps": None if sample.progress is None else float(sample.progress.step),
        "task_block_in_byte": counters.disk_read_bytes,
        "task_block_out_byte": counters.disk_written_bytes,
        "task_net_in_byte": counters.network_received_bytes,
        "task_net_out_byte": counters.network_sent_bytes,
    }
    yield Reading(task_labels.of(job, role, index), _known(found))
    for gpu in sample.devices:
        yield Reading(task_labels.of(job, role, index, gpu.index), _known(_gpu(gpu)))


def _gpu(gpu: DeviceUse) -> dict[str, float | None]:
    share = None
    if gpu.memory_bytes is not None and gpu.memory_total_bytes:
        share = gpu.memory_bytes / gpu.memory_total_bytes * 100
    return {
        "task_gpu_percent": gpu.busy_percent,
        "task_gpu_mem_percent": share,
        "task_gpu_tensor_percent": gpu.tensor_percent,
        "task_gpu_power_watts": gpu.power_w,
        "task_gpu_temperature_celsius": gpu.temperature_c,
    }


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None}

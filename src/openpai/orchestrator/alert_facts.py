"""Recorded values as input of alert rules: jobs, nodes, virtual clusters, storages, and the health of the platform.

They are derived from what the leader knows, at each evaluation. What is measured is in `ports.metrics` instead.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from openpai.alerts.series import Labels, Vector, as_labels
from openpai.lifecycle.model import JobPhase
from openpai.orchestrator.alert_state import AlertParts, Facts
from openpai.orchestrator.leader import Leader
from openpai.ports.cluster_settings import NodeNote
from openpai.ports.queries import JobFilter, JobRow
from openpai.ports.store import JobRecord
from openpai.protocol.errors import PaiError
from openpai.system.pauses import let_others_go_first

FAILED_MS: Final = 3_600_000
"""How long a failed job counts as one that failed just now."""
FAILED_MAX: Final = 1_000
_JOBS_AT_ONCE: Final = 50
_NODES_AT_ONCE: Final = 200

NAMES: Final[Mapping[str, str]] = {
    "pai_job_waiting_seconds": "How long a job has waited for resources since it was submitted or tried again.",
    "pai_job_starting_seconds": "How long ago a job was placed of which no task runs yet.",
    "pai_job_ending_seconds": "How long a job has been ending.",
    "pai_job_running_seconds": "How long the attempt of a job has run.",
    "pai_job_retries": "How often a job was tried again.",
    "pai_job_failed": "1 for a job that failed within the last hour.",
    "pai_job_idle_seconds": "How long a job has held GPUs without using them.",
    "pai_node_ready": "1 while a node is healthy, 0 while it is not or is away.",
    "pai_node_cordoned": "1 while a node takes no new tasks because an administrator or a rule said so.",
    "pai_node_disk_pressure": "1 while a node reports that it is short of disk space.",
    "pai_node_lemon_score": "How many users' jobs failed lately for the hardware of a node.",
    "pai_gpu_bad": "1 for each GPU that is marked as bad.",
    "pai_gpu_held": "1 for each GPU that a task holds.",
    "pai_vc_promise_kept": "1 while the nodes that there are keep the promise to a virtual cluster.",
    "pai_vc_gpus_doomed": "GPUs promised to a virtual cluster that are bad or drained.",
    "pai_storage_ready": "1 while a storage can be reached.",
    "pai_ready": "1 while a part of the platform works: database, disk, leader, backend.",
    "pai_database_latency_seconds": "How long the database takes to answer.",
    "pai_disk_free_ratio": "The free share of the disk of the data directory.",
    "pai_messages_waiting_seconds": "How long the oldest message has waited for its channel.",
}
"""Every recorded value by its name."""


async def gather(leader: Leader, parts: AlertParts, names: Collection[str]) -> Facts:
    """Return these recorded values as they are now."""
    now_ms = leader.clock.now_ms()
    facts = await _job_facts(leader, now_ms)
    facts["pai_job_idle_seconds"] = {
        labels_of(record.full_name, record.user, record.virtual_cluster): idle_s
        for id_, idle_s in leader.alerts.idle_s.items()
        if (record := leader.active.records.get(id_)) is not None
    }
    facts |= await _node_facts(leader, now_ms)
    if "pai_gpu_held" in names:
        records = list(leader.active.records.values())
        for start in range(0, len(records), _JOBS_AT_ONCE):
            facts["pai_gpu_held"] |= _gpus_held(records[start : start + _JOBS_AT_ONCE])
            await let_others_go_first()
    facts |= _vc_facts(leader)
    if "pai_job_failed" in names:
        since_ms = now_ms - FAILED_MS
        where = JobFilter(phases=(JobPhase.FAILED.value,), order="completionTime", limit=FAILED_MAX)
        rows = (await parts.jobs.jobs(where, count=False)).jobs
        failed = [row for row in rows if row.ended_at_ms is not None and row.ended_at_ms >= since_ms]
        facts["pai_job_failed"] = {_labels_of_row(row): 1.0 for row in failed}
    facts |= await _platform_facts(parts, names, now_ms)
    return {name: found for name, found in facts.items() if name in names}


async def _job_facts(leader: Leader, now_ms: int) -> Facts:
    """Return what is recorded of jobs that are not over."""
    facts: Facts = {name: {} for name in NAMES if name.startswith("pai_job_")}
    known, leader.alerts.began_ms = leader.alerts.began_ms, {}
    records, steady_ms = list(leader.active.records.values()), leader.steady.now_ms()
    for start in range(0, len(records), _JOBS_AT_ONCE):
        _add_job_facts(facts, records[start : start + _JOBS_AT_ONCE], now_ms, steady_ms, known, leader.alerts.began_ms)
        await let_others_go_first()
    return facts


def _add_job_facts(
    facts: Facts,
    records: Iterable[JobRecord],
    now_ms: int,
    steady_ms: int,
    known: Mapping[tuple[str, int], int],
    began_ms: dict[tuple[str, int], int],
) -> None:
    """Add what is recorded of jobs that are not over.

    The wall clock is asked once for how long a job has been in its state, and `began_ms` keeps the answer as a time of
    the clock that is never set: a rule that stops what runs for a day must not believe a clock that jumps by a day.
    """

    def seconds(job: str, at_ms: int) -> float:
        began_ms[job, at_ms] = known.get((job, at_ms), steady_ms - max(0, now_ms - at_ms))
        return (steady_ms - began_ms[job, at_ms]) / 1000

    for record in records:
        job = record.job
        labels = labels_of(record.full_name, record.user, record.virtual_cluster)
        since_ms = job.attempt_at_ms or job.submitted_at_ms
        if job.phase is JobPhase.QUEUED:
            facts["pai_job_waiting_seconds"][labels] = seconds(job.id, since_ms)
        elif job.phase is JobPhase.STARTING:
            facts["pai_job_starting_seconds"][labels] = seconds(job.id, since_ms)
        elif job.phase is JobPhase.RUNNING and job.attempt_started_at_ms is not None:
            facts["pai_job_running_seconds"][labels] = seconds(job.id, job.attempt_started_at_ms)
        elif job.phase is JobPhase.ENDING and job.attempt_ended_at_ms is not None:
            facts["pai_job_ending_seconds"][labels] = seconds(job.id, job.attempt_ended_at_ms)
        facts["pai_job_retries"][labels] = float(job.retries.counted + job.retries.free)


def past_job_facts(rows: Iterable[JobRow], at_ms: int) -> Facts:
    """Return what was recorded of jobs at a time of the past, as far as their newest attempts show it."""
    waiting: Vector = {}
    running: Vector = {}
    failed: Vector = {}
    for row in rows:
        since_ms = row.attempt_at_ms or row.submitted_at_ms
        begun_ms, ended_ms = row.attempt_started_at_ms, row.attempt_ended_at_ms or row.ended_at_ms
        until_ms = begun_ms or ended_ms
        if since_ms <= at_ms and (until_ms is None or at_ms < until_ms):
            waiting[_labels_of_row(row)] = (at_ms - since_ms) / 1000
        if begun_ms is not None and begun_ms <= at_ms and (ended_ms is None or at_ms < ended_ms):
            running[_labels_of_row(row)] = (at_ms - begun_ms) / 1000
        if row.phase == JobPhase.FAILED and row.ended_at_ms is not None and 0 <= at_ms - row.ended_at_ms < FAILED_MS:
            failed[_labels_of_row(row)] = 1.0
    return {"pai_job_waiting_seconds": waiting, "pai_job_running_seconds": running, "pai_job_failed": failed}


def labels_of(job: str, user: str, virtual_cluster: str) -> Labels:
    """Return the labels of values of a job."""
    return (("job_name", job), ("username", user), ("vc_name", virtual_cluster))


def _labels_of_row(row: JobRow) -> Labels:
    return labels_of(row.full_name, row.user, row.virtual_cluster)


async def _node_facts(leader: Leader, now_ms: int) -> Facts:
    facts: Facts = {name: {} for name in NAMES if name.startswith(("pai_node_", "pai_gpu_"))}
    notes = leader.sharing.notes
    for number, name in enumerate(sorted({*leader.nodes, *notes}), start=1):
        if number % _NODES_AT_ONCE == 0:
            await let_others_go_first()
        node, note = leader.nodes.get(name), notes.get(name) or NodeNote(name)
        labels = as_labels({"node_name": name, "instance": node.address if node is not None else ""})
        is_ready = node is not None and node.is_healthy
        facts["pai_node_ready"][labels] = float(is_ready)
        facts["pai_node_cordoned"][labels] = float(note.is_drained)
        facts["pai_node_disk_pressure"][labels] = float(node is not None and node.is_short_of_disk)
        facts["pai_node_lemon_score"][labels] = leader.lemons.score_of(name, now_ms)[0]
        bad = note.bad_devices | (node.bad_devices if node is not None else frozenset())
        for device in bad:
            facts["pai_gpu_bad"][as_labels([*labels, ("minor_number", str(device))])] = 1.0
    return facts


def _gpus_held(records: Iterable[JobRecord]) -> Vector:
    slots = [slot for record in records for slot in record.slots.values()]
    devices = {(slot.node, slot.address, device) for slot in slots for device in slot.devices}
    # Sorted by name as they stand: a cluster holds many thousands.
    return {
        (("instance", address), ("minor_number", str(device)), ("node_name", node)): 1.0
        for node, address, device in devices
    }


def _vc_facts(leader: Leader) -> Facts:
    arrangement = leader.sharing.arrangement
    known = sorted(arrangement.virtual_clusters | arrangement.unkept)
    kept: Vector = {(("vc_name", name),): float(name not in arrangement.unkept) for name in known}
    doomed: Vector = {
        (("vc_name", view.name),): float(view.total.gpus - view.guaranteed.gpus)
        for view in leader.scheduler.virtual_clusters()
    }
    return {"pai_vc_promise_kept": kept, "pai_vc_gpus_doomed": doomed}


async def _platform_facts(parts: AlertParts, names: Collection[str], now_ms: int) -> Facts:
    facts: Facts = {}
    began_s = time.monotonic()
    waiting = await parts.store.notices(("waiting",), 1_000)
    facts["pai_database_latency_seconds"] = {(): time.monotonic() - began_s}
    late = [notice.created_at_ms for notice in waiting if notice.tries]
    facts["pai_messages_waiting_seconds"] = {(): max(0, now_ms - min(late)) / 1000} if late else {}
    if parts.readiness is not None and "pai_ready" in names:
        found = await parts.readiness()
        facts["pai_ready"] = {(("part", part),): float(not problem) for part, problem in found.items()}
    if parts.disk_free is not None:
        facts["pai_disk_free_ratio"] = {(): parts.disk_free()}
    if "pai_storage_ready" in names and parts.storages is not None:
        try:
            facts["pai_storage_ready"] = {
                (("storage", name),): float(is_ready) for name, is_ready in (await parts.storages()).items()
            }
        except PaiError:
            facts["pai_storage_ready"] = {}
    return facts

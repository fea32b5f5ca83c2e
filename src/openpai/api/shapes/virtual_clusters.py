"""Virtual clusters, SKU types and the cluster's configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from openpai.ports.platform import ClusterConfig, PromisePreview
from openpai.ports.queues import QueuedJob
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER
from openpai.scheduler.interface import Amount, VcView
from openpai.wire import virtual_clusters as wire

NOTHING: Final = Amount()


def amount(of: Amount) -> wire.Resources:
    """Return resources, also under OpenPAI's older names."""
    return {"cpu": of.cpus, "memory": of.memory_mb, "gpu": of.gpus, "vCores": of.cpus, "GPUs": of.gpus}


def virtual_clusters(views: Iterable[VcView]) -> dict[str, wire.VirtualCluster]:
    """Return every virtual cluster by name; `default` is always there."""
    found = {view.name: view for view in views}
    if DEFAULT_VIRTUAL_CLUSTER not in found:
        found[DEFAULT_VIRTUAL_CLUSTER] = VcView(
            DEFAULT_VIRTUAL_CLUSTER, NOTHING, NOTHING, NOTHING, NOTHING, {}, running=0, waiting=0
        )
    gpus, cpus = (sum(size) for size in zip(*((v.total.gpus, v.total.cpus) for v in found.values()), strict=True))
    return {name: _virtual_cluster(found[name], Amount(cpus=cpus, gpus=gpus)) for name in sorted(found)}


def _virtual_cluster(view: VcView, whole: Amount) -> wire.VirtualCluster:
    share = _percent(view.total, whole)
    return {
        "capacity": share,
        "maxCapacity": share,
        "usedCapacity": _percent(view.used, whole),
        "dedicated": False,
        "resourcesUsed": amount(view.used),
        "resourcesGuaranteed": amount(view.guaranteed),
        "resourcesTotal": amount(view.total),
        "resourcesBorrowed": amount(view.borrowed),
        "resourcesLent": amount(view.lent),
        "lentTo": {name: amount(of) for name, of in view.lent_to.items()},
        "skus": dict(view.skus),
        "runningGangs": view.running,
        "waitingGangs": view.waiting,
        "accuracy": {
            "starts": view.accuracy.starts,
            "startsWithinRange": view.accuracy.starts_within,
            "runTimes": view.accuracy.runs,
            "runTimesWithinFactor2": view.accuracy.runs_within_2x,
            "runTimeErrorFactor": view.accuracy.run_error,
        },
        "order": view.order.value,
        "interruptible": view.is_interruptible,
        "moveJobs": view.moves_jobs,
        "moves": {"jobs": view.moves, "gpuHoursLost": round(view.moved_gpu_hours, 4)},
    }


def _percent(part: Amount, whole: Amount) -> float:
    """Return a share in percent, of GPUs where there are any."""
    some, every = (part.gpus, whole.gpus) if whole.gpus else (part.cpus, whole.cpus)
    return round(100 * some / every, 2) if every else 0


def sku_types(types: Mapping[str, Amount]) -> dict[str, wire.Sku]:
    """Return the CPUs and memory that belong to one GPU of each SKU type."""
    return {name: {"cpu": of.cpus, "memory": of.memory_mb, "gpu": of.gpus} for name, of in types.items()}


def queued_job(of: QueuedJob, may_see: bool, may_move: bool) -> wire.QueuedJob:
    """Return a job that waits, without its name where the caller may not see it."""
    wait = of.wait
    return {
        "position": of.place,
        "job": f"{of.user}~{of.name}" if may_see else None,
        "priorityClass": of.priority_class,
        "priority": of.priority,
        "rank": of.rank,
        "tasks": of.tasks,
        "gpu": of.gpus,
        "cpu": of.cpus,
        "submittedTime": of.submitted_at_ms,
        "code": wait.code.value if wait else "",
        "message": wait.message if wait and may_see else "",
        "unblock": wait.unblock if wait and may_see else "",
        "mayMove": may_move,
    }


def promise_preview(of: PromisePreview) -> wire.PromisePreview:
    """Return what a change of guarantees would do."""

    def share(name: str) -> wire.Share:
        before, after = of.before.get(name), of.after.get(name)
        return {
            "name": name,
            "before": None if before is None else amount(before),
            "after": None if after is None else amount(after),
        }

    return {
        "promises": of.promises,
        "shares": [share(name) for name in sorted({*of.before, *of.after})],
        "problems": of.problems,
        "demoted": of.demoted,
    }


def cluster_config(config: ClusterConfig) -> wire.ClusterConfig:
    return {
        "promises": config.promises,
        "hived": config.hived,
        "version": config.version,
        "problems": config.problems,
        "demoted": config.demoted,
    }

"""What a submission is checked for beyond its own words: virtual cluster, quotas, and hardware there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from openpai.orchestrator import gangs
from openpai.orchestrator.office import Office
from openpai.orchestrator.promising import no_virtual_cluster
from openpai.ports.platform import Submitter
from openpai.ports.store import JobRecord
from openpai.ports.usage import Quota, UsageStore
from openpai.protocol.errors import Fault, InvalidProtocol, Refused
from openpai.protocol.findings import listed, nearest
from openpai.protocol.job import JobSpec
from openpai.protocol.placement import placement_of

_AT: Final = "extras.hivedScheduler.taskRoles"


def check_virtual_cluster(by: Submitter, name: str, known: frozenset[str]) -> None:
    """Raise ForbiddenUserError for one that is not granted, and NoVirtualClusterError for one that is not there."""
    if by.virtual_clusters is not None and name not in by.virtual_clusters:
        raise Refused(
            "ForbiddenUserError",
            f"{by.user} may not use the virtual cluster {name!r}",
            f"set `defaults.virtualCluster` to one of: {listed(sorted(by.virtual_clusters & known))}",
        )
    if name not in known:
        raise no_virtual_cluster(name)


async def check_quotas(by: Submitter, spec: JobSpec, usage: UsageStore | None, now_ms: int) -> None:
    """Raise NoEnoughQuotaError, naming limit and use, when a job would be more than its owner may have."""
    for quota in quotas_for(by, spec.virtual_cluster):
        limit = quota.gpus_per_job
        if limit is not None and spec.gpus_total > limit:
            told = f"the job asks for {spec.gpus_total} GPUs, and {_whose(by, quota)} may ask for {limit} in one job"
            raise _beyond(told, "ask for fewer")
        if usage is not None:
            await _check_jobs(by, quota, usage)
            await _check_hours(by, quota, usage, now_ms)


def quotas_for(by: Submitter, virtual_cluster: str) -> Iterator[Quota]:
    """Yield the quotas that hold for a user: one of the virtual cluster, and one over all of them together.

    Of each kind the user's own counts before the one for everybody.
    """
    for name in (virtual_cluster, ""):
        fitting = {quota.user: quota for quota in by.quotas if quota.virtual_cluster == name}
        found = fitting.get(by.user) or fitting.get("")
        if found is not None:
            yield found


async def _check_jobs(by: Submitter, quota: Quota, usage: UsageStore) -> None:
    limit = quota.jobs_unfinished
    if limit is None:
        return
    unfinished = await usage.unfinished(by.user)
    count = unfinished.get(quota.virtual_cluster, 0) if quota.virtual_cluster else sum(unfinished.values())
    if count >= limit:
        told = f"{by.user} has {count} unfinished jobs, and {_whose(by, quota)} may have {limit}"
        raise _beyond(told, "wait for one to end, or stop one")


async def _check_hours(by: Submitter, quota: Quota, usage: UsageStore, now_ms: int) -> None:
    limit = quota.gpu_hours_per_month
    if limit is None:
        return
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    where = (quota.virtual_cluster,) if quota.virtual_cluster else ()
    rows = await usage.use(int(first.timestamp()) * 1000, now_ms, users=(by.user,), virtual_clusters=where)
    used = sum(row.gpu_hours for row in rows)
    if used >= limit:
        told = f"{by.user} has used {used:.1f} GPU hours this month, and {_whose(by, quota)} may use {limit:g}"
        raise _beyond(told, "wait for the first of the next month (UTC)")


def _whose(by: Submitter, quota: Quota) -> str:
    who = by.user if quota.user else "each user"
    return f"{who} in virtual cluster {quota.virtual_cluster}" if quota.virtual_cluster else who


def _beyond(told: str, advice: str) -> Refused:
    return Refused("NoEnoughQuotaError", told, f"{advice}, or ask an administrator for a larger quota")


def check_hardware(office: Office, record: JobRecord, spec: JobSpec) -> None:
    """Raise InvalidProtocol for hardware the cluster does not have, and Refused for a job that could never run."""
    arrangement = office.sharing.arrangement
    if not arrangement.text or record.virtual_cluster in arrangement.unkept:
        return  # what it was promised may come yet
    faults = tuple(_hardware_faults(office, record, spec))
    if faults:
        raise InvalidProtocol(faults)
    for members in gangs.waiting(record.job):
        reason = office.scheduler.refusal(gangs.describe(record, members, spec))
        if reason is not None:
            raise Refused("InvalidProtocolError", reason, "ask for less, or ask an admin which nodes there are")


def _hardware_faults(office: Office, record: JobRecord, spec: JobSpec) -> Iterator[Fault]:
    name = record.virtual_cluster
    wishes = placement_of(spec).roles
    skus: Mapping[str, Any] = office.scheduler.sku_types() if wishes else {}
    own = office.scheduler.sku_types(name) if wishes and record.priority >= 0 else skus
    pins = office.sharing.arrangement.pins.get(name, frozenset())
    for role, wish in wishes.items():
        if wish.sku_type is not None and wish.sku_type not in own:
            told = f"virtual cluster {name!r} was promised no {wish.sku_type}"
            if wish.sku_type not in skus:
                told = f"the cluster has no SKU type {wish.sku_type!r}"
            yield Fault(f"{_AT}.{role}.skuType", told, None, listed(own), nearest(wish.sku_type, own))
        if wish.pinned_cell is not None and wish.pinned_cell not in pins:
            told = f"virtual cluster {name!r} has no pinned cell {wish.pinned_cell!r}"
            near = nearest(wish.pinned_cell, pins)
            yield Fault(f"{_AT}.{role}.pinnedCellId", told, None, listed(sorted(pins)), near)

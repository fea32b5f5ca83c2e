"""Checks a submission against the cluster: virtual cluster, quotas, and hardware.

A repeated submission, the same file under the same idempotency key, is the same job. Another file is an error: to
answer it with the older job would lose the new one without a message.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from openpai.access.budgets import in_words, renewal, whom_to_ask
from openpai.access.memberships import rights_of
from openpai.access.model import Principal, Role, thing_of
from openpai.access.quotas import Quota, quotas_for
from openpai.access.running_again import why_not_again
from openpai.lifecycle.model import Job
from openpai.orchestrator import gangs
from openpai.orchestrator.job_keys import without_keys
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.secrets import hidden
from openpai.ports.accounts import AccountStore
from openpai.ports.identity import Sealer
from openpai.ports.platform import Submitter
from openpai.ports.store import Event, JobRecord
from openpai.ports.usage import BeyondQuota, OverBudget, UsageStore
from openpai.protocol.dependencies import dependencies_of
from openpai.protocol.documents import document_of
from openpai.protocol.errors import Fault, InvalidProtocol, Refused
from openpai.protocol.job import JobSpec
from openpai.protocol.placement import placement_of
from openpai.protocol.spelling import nearest
from openpai.protocol.storages import uses
from openpai.protocol.wording import amount, exact, listed, plural
from openpai.scheduler.config.editing import no_virtual_cluster

_AT: Final = "extras.hivedScheduler.taskRoles"


def submitter_of(who: Principal) -> Submitter:
    """Return what a principal who submits a job is allowed, without their quotas."""
    if who.role is Role.ADMIN:
        return Submitter(who.name, default_storages=who.default_storages, since_ms=who.since_ms, principal=who)
    others = sorted(who.storages.difference(who.default_storages))
    storages = (*who.default_storages, *others)
    return Submitter(
        who.name, who.virtual_clusters, storages, who.default_storages, since_ms=who.since_ms, principal=who
    )


def submitted_event(by: Submitter, job: Job) -> Event:
    """Return the first line of a job's history."""
    origin = f" from item {by.made_from} of the marketplace, revision {by.item_revision}" if by.made_from else ""
    return Event(job.id, job.submitted_at_ms, "Submitted", f"{by.user} submitted the job{origin}", 0)


def check_virtual_cluster(by: Submitter, name: str, known: frozenset[str]) -> None:
    """Raise NoVirtualClusterError for one that does not exist, ForbiddenUserError for one that is not granted."""
    if name not in known:
        raise no_virtual_cluster(name)
    if by.virtual_clusters is not None and name not in by.virtual_clusters:
        raise Refused(
            "ForbiddenUserError",
            f"{by.user} may not use the virtual cluster {name!r}",
            f"set `defaults.virtualCluster` to one of: {listed(sorted(by.virtual_clusters & known))}",
        )


def check_size(user: str, quotas: Sequence[Quota], gpus: int) -> None:
    """Raise NoEnoughQuotaError for a job of more GPUs than quotas of its owner allow; the store checks the rest."""
    for quota in quotas:
        limit = quota.gpus_per_job
        if limit is not None and gpus > limit:
            message = (
                f"the job asks for {plural(gpus, 'GPU')}, and {_whose(user, quota)} may ask for {limit} in one job"
            )
            raise _beyond(quota, message, "ask for fewer" if limit else "ask for none")


async def check_owner(found: JobRecord, accounts: AccountStore | None) -> None:
    """Raise ForbiddenUserError if the owner of a job that is to run again could not submit it now."""
    if accounts is None:
        return
    owner = await accounts.user(found.user)
    storages = [use.name for use in uses(found.spec)]
    if why := why_not_again(rights_of(owner) if owner is not None else None, thing_of(found), storages):
        message = f"job {found.full_name} cannot run again: it belongs to {found.user}, {why}"
        advice = "clone it and change what is no longer allowed, or ask an administrator"
        raise Refused("ForbiddenUserError", message, advice)


async def check_again(found: JobRecord, usage: UsageStore | None, accounts: AccountStore | None) -> tuple[Quota, ...]:
    """Check a job that is to run again, for its owner and its size; return the quotas that apply to it."""
    await check_owner(found, accounts)
    if usage is None:
        return ()
    held = quotas_for(found.user, await usage.quotas(), found.virtual_cluster)
    if held and found.job.is_final:
        check_size(found.user, held, found.spec.gpus_total)
    return held


def no_room(user: str, beyond: BeyondQuota, more: int = 1) -> Refused:
    """Return the refusal for a quota that leaves no room for so many more jobs."""
    if isinstance(beyond, OverBudget):
        return _used_up(beyond)
    quota, count, used = beyond.quota, beyond.count, beyond.gpu_hours
    if used is not None:
        limit = exact(quota.gpu_hours_per_month or 0)
        message = f"{user} has used {amount(used)} GPU hours this month, and {_whose(user, quota)} may use {limit}"
        return _beyond(
            quota, message, "wait for the first of the next month (UTC)" if quota.gpu_hours_per_month else ""
        )
    jobs = plural(count, "unfinished job")
    asks = f" and asks for {more} more" if more > 1 else ""
    message = f"{user} has {jobs}{asks}, and {_whose(user, quota)} may have {quota.jobs_unfinished}"
    return _beyond(
        quota, message, _ends_first(count + more - (quota.jobs_unfinished or 0)) if quota.jobs_unfinished else ""
    )


def _used_up(over: OverBudget) -> Refused:
    budget, hours = over.budget, over.gpu_hours or 0
    message = f"the budget of {budget.label} is used up: {in_words(budget, hours)}"
    return Refused("NoEnoughQuotaError", message, f"{renewal(budget, over.now_ms)}; for more, {whom_to_ask(budget)}")


def _ends_first(jobs: int) -> str:
    return "wait for one to end, or stop one" if jobs == 1 else f"wait for {jobs} of them to end, or stop {jobs}"


def _whose(user: str, quota: Quota) -> str:
    who = user if quota.user else "each user"
    return f"{who} in virtual cluster {quota.virtual_cluster}" if quota.virtual_cluster else who


def _beyond(quota: Quota, message: str, advice: str) -> Refused:
    who = f" or a manager of {quota.virtual_cluster}" if quota.virtual_cluster else ""
    first = f"{advice}, or " if advice else ""
    return Refused("NoEnoughQuotaError", message, f"{first}ask an administrator{who} for a larger quota")


def check_hardware(
    leader: Leader, record: JobRecord, gpu_type_line: int | None, usable: Collection[str] | None = None
) -> None:
    """Raise InvalidProtocol for hardware the cluster does not have, and Refused for a job that could never run."""
    arrangement = leader.sharing.arrangement
    if arrangement.config is None or record.virtual_cluster in arrangement.unkept:
        return  # its promised hardware may appear later
    faults = tuple(_hardware_faults(leader, record))
    if gpu_type_line is not None:
        faults = in_version_1(faults, gpu_type_line)
    if faults:
        raise InvalidProtocol(faults)
    check_runnable(leader, record, usable)


def check_runnable(leader: Leader, record: JobRecord, usable: Collection[str] | None = None) -> None:
    """Raise Refused for a waiting job that could not run even if everything were free."""
    waiting = gangs.waiting(record.job)
    # All tasks of a role ask for the same.
    firsts: dict[str, str] = {}
    for name, tasks in waiting.items():
        firsts.setdefault(tasks[0].role, name)
    for gang in gangs.describe(record, {name: waiting[name] for name in firsts.values()}, record.job.submitted_at_ms):
        refused = leader.scheduler.refusal(gang, usable)
        if refused is not None:
            raise Refused("InvalidProtocolError", refused.message, refused.remedy)


def in_version_1(faults: Sequence[Fault], line: int) -> tuple[Fault, ...]:
    """Return faults with the key in the file: one `gpuType` became the SKU type of each task role."""
    named = [
        replace(fault, path="gpuType", line=line) if fault.path.endswith(".skuType") else fault for fault in faults
    ]
    return tuple(dict.fromkeys(named))


def _hardware_faults(leader: Leader, record: JobRecord) -> Iterator[Fault]:
    name = record.virtual_cluster
    placements = placement_of(record.spec).roles
    skus: Mapping[str, Any] = leader.scheduler.sku_types() if placements else {}
    own = leader.scheduler.sku_types(name) if placements and record.priority >= 0 else skus
    pins = leader.sharing.arrangement.pins_of(name)
    for role, placement in placements.items():
        if placement.sku_type is not None and placement.sku_type not in own:
            message = f"virtual cluster {name!r} was promised no {placement.sku_type}"
            if placement.sku_type not in skus:
                message = f"the cluster has no SKU type {placement.sku_type!r}"
            yield Fault(f"{_AT}.{role}.skuType", message, None, listed(own), nearest(placement.sku_type, own))
        if placement.pinned_cell is not None and placement.pinned_cell not in pins:
            message = f"virtual cluster {name!r} has no pinned cell {placement.pinned_cell!r}"
            near = nearest(placement.pinned_cell, pins)
            yield Fault(f"{_AT}.{role}.pinnedCellId", message, None, listed(sorted(pins)), near)


def check_repeated(by: Submitter, text: bytes, first: JobRecord, secrets: Sealer) -> None:
    """Raise ConflictJobError unless the file equals the one that the job `first` was submitted with."""
    from openpai.protocol.reading import read_job

    first_secrets = without_keys(secrets.open(first.sealed))
    spec, own_secrets = hidden(read_job(text, first_secrets if by.clone_of else None).spec)
    is_same = _spec_text(first.spec, by.user) == _spec_text(spec, by.user)
    if _as_text(first_secrets) == _as_text(own_secrets) and is_same:
        return
    message = f"{by.user} used this idempotency key for another file, which became job {first.full_name}"
    raise Refused("ConflictJobError", message, "give each submission a key of its own")


def _spec_text(spec: JobSpec, user: str) -> str:
    # A submission completes the list of storages, and the defaults that complete it may have changed since.
    extras = {key: value for key, value in spec.extras.items() if key not in ("storages", "after", "sweep", "kueue")}
    # A submission completes these, too: names without their user, and the jobs' ids.
    extras["after"] = [replace(one, id="").as_entry() for one in dependencies_of(spec, user)]
    return _as_text({**document_of(spec), "extras": extras})


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

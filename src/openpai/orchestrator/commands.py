"""The requests of users for their jobs, one function each: submit, stop, start, priority, rank, checkpoints, why.

A request is answered once it is durable. On the leading server it then changes the active jobs; on any other server
it reaches the leader through the store's inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from openpai.access.quotas import Quota, quotas_for
from openpai.lifecycle.actions import wanted
from openpai.lifecycle.completion import plan_of
from openpai.lifecycle.facts import Rescaled, StartRequested, StopRequested
from openpai.lifecycle.model import JobPhase, Verdict
from openpai.lifecycle.rescaling import Scales
from openpai.lifecycle.stepping import new_job
from openpai.orchestrator import gangs
from openpai.orchestrator.alert_rules import AlertCommands
from openpai.orchestrator.applications import ApplicationCommands
from openpai.orchestrator.applying import adopt
from openpai.orchestrator.changes import JobUpdate, Remark
from openpai.orchestrator.dependencies import waits_for, with_dependencies
from openpai.orchestrator.exit_specs import ExitSpecCommands
from openpai.orchestrator.holdings import borrowed_by, in_the_way
from openpai.orchestrator.job_code import hold_code
from openpai.orchestrator.job_keys import has_ssh, public_keys, with_keys
from openpai.orchestrator.job_storages import with_storages
from openpai.orchestrator.measuring import TaskMeasures
from openpai.orchestrator.nodes import NodeCommands
from openpai.orchestrator.recording import change_job
from openpai.orchestrator.rescaling import changes_in_words, check_can_run, rescaled
from openpai.orchestrator.secrets import hidden
from openpai.orchestrator.shells import ShellCommands
from openpai.orchestrator.submitting import (
    check_again,
    check_hardware,
    check_owner,
    check_repeated,
    check_size,
    check_virtual_cluster,
    no_room,
    submitted_event,
)
from openpai.orchestrator.sweeps import digest_of, sweep_again, sweep_jobs
from openpai.orchestrator.virtual_clusters import VirtualClusterCommands
from openpai.orchestrator.waits import asks_backend, backing_off, silent, starting, waits_of, would_wait
from openpai.ports.accounts import AccountStore
from openpai.ports.backend import KillTask
from openpai.ports.clock import Clock, Identities
from openpai.ports.cluster_settings import SettingsStore
from openpai.ports.code import CodeStore
from openpai.ports.identity import Sealer
from openpai.ports.platform import Checked, Holding, Submitted, SubmittedSweep, Submitter
from openpai.ports.storages import StorageStore
from openpai.ports.store import AlreadySubmitted, JobRecord, JobStore, NewJob
from openpai.ports.task_usage import TaskUse
from openpai.ports.usage import BeyondQuota, UsageStore
from openpai.protocol.admission import with_queue
from openpai.protocol.errors import InvalidParameters, Refused, Unavailable
from openpai.protocol.findings import Finding
from openpai.protocol.job import LONG_JOB_BYTES, JobSpec
from openpai.protocol.outputs import outputs_of
from openpai.protocol.placement import PRIORITY_OF, asked_class, is_private, placement_of, priority, time_limit_ms
from openpai.protocol.sweeps import MARKET_TAG, as_sent, is_sweep
from openpai.protocol.writing import dump_masked
from openpai.runtime.builtin_plugins import BUILT_IN
from openpai.runtime.plugins import Plugins, plugin_faults, plugin_warnings
from openpai.scheduler.interface import Amount
from openpai.scheduler.model import Wait

if TYPE_CHECKING:
    from openpai.protocol.reading import Read

_WAITING: Final = (JobPhase.HELD, JobPhase.QUEUED, JobPhase.BACKING_OFF)


class PlatformCommands(
    NodeCommands, VirtualClusterCommands, ExitSpecCommands, AlertCommands, ShellCommands, ApplicationCommands
):
    """`ports.platform.Platform`, on the leader and on every other server."""

    def __init__(
        self,
        store: JobStore,
        secrets: Sealer,
        clock: Clock,
        identities: Identities,
        *,
        settings: SettingsStore,
        usage: UsageStore | None = None,
        accounts: AccountStore | None = None,
        storages: StorageStore | None = None,
        check_room: Callable[[], None] = lambda: None,
        plugins: Plugins = BUILT_IN,
        code: CodeStore | None = None,
        why_unkept: str = "",
        queues: Mapping[str, str] | None = None,
    ) -> None:
        """`why_unkept` says why this server keeps no files of tasks; empty if it keeps them.

        `queues` are the queues of the cluster that admit the jobs of virtual clusters.
        """
        super().__init__(store, settings, clock)
        self._secrets = secrets
        self._identities = identities
        self._usage = usage
        self.accounts = accounts
        self._storages = storages
        self._check_room = check_room
        self._plugins = plugins
        self.measures = TaskMeasures()
        self._code = code
        self._why_unkept = why_unkept
        self._queues = queues or {}

    async def submit(self, by: Submitter, text: bytes) -> Submitted:
        if by.idempotency_key:
            known = await self._store.submitted(by.user, by.idempotency_key)
            if known is not None:
                return await self._again(by, text, *known)
        self._check_room()
        record_, spec, warnings, quotas = await self._checked(by, text)
        await hold_code(spec, by, record_.job.id, self._code)
        event, tags = submitted_event(by, record_.job), (f"{MARKET_TAG}{by.made_from}",) if by.made_from else ()
        config = dump_masked(spec)
        new = NewJob(record_, config, spec.gpus_total, event, by.idempotency_key, by.audit, quotas, tags)
        try:
            await self._store_new(new)
        except AlreadySubmitted as already:
            return await self._again(by, text, already.job, already.name)
        except BeyondQuota as beyond:
            raise no_room(by.user, beyond) from beyond
        return Submitted(record_.job.id, by.user, spec.name, warnings)

    async def submit_sweep(self, by: Submitter, text: bytes) -> SubmittedSweep:
        digest = digest_of(text)
        if by.idempotency_key and (known := await self._store.submitted(by.user, by.idempotency_key)):
            return await sweep_again(self._store, by, digest, known[0])
        self._check_room()
        record_, spec, warnings, quotas = await self._checked(by, text, as_sweep=digest)
        new_record = partial(self._new_record, owner_keys=await self._owner_keys(by, spec))
        found = await asyncio.to_thread(sweep_jobs, by, spec, quotas, new_record)
        for new in found:
            await hold_code(new.record.spec, by, new.record.job.id, self._code)
        try:
            await self._store_new(*found)
        except AlreadySubmitted as already:
            return await sweep_again(self._store, by, digest, already.job)
        except BeyondQuota as beyond:
            raise no_room(by.user, beyond, len(found)) from beyond
        names = tuple([new.record.name for new in found])
        return SubmittedSweep(by.user, record_.name, names, warnings)

    async def check(self, by: Submitter, text: bytes) -> Checked:
        found, spec, warnings, _ = await self._checked(by, text, is_check=True)
        waits = await would_wait(self.leader, found)
        return Checked(spec.name, spec.virtual_cluster, spec.gpus_total, warnings, waits)

    async def _checked(
        self, by: Submitter, text: bytes, *, as_sweep: str | None = None, is_check: bool = False
    ) -> tuple[JobRecord, JobSpec, tuple[str, ...], tuple[Quota, ...]]:
        """Return the job of a file that may be submitted, with warnings and the quotas that apply."""
        taken = await self._secrets_of_clone(by) if by.clone_of else None
        is_long = len(text) > LONG_JOB_BYTES
        read = await asyncio.to_thread(self._read, text, taken) if is_long else self._read(text, taken)
        spec = as_sent(read.spec, digest_of(text) if is_check and is_sweep(read.spec) else as_sweep)
        spec = await with_storages(spec, by, self._storages)
        spec = await with_dependencies(spec, by, self._store)
        check_virtual_cluster(by, spec.virtual_cluster, await self._known_clusters())
        quotas = quotas_for(by.user, by.quotas, spec.virtual_cluster)
        check_size(by.user, quotas, spec.gpus_total)
        record_ = self._new_record(by, spec, await self._owner_keys(by, spec))
        if self.leader is not None:
            check_hardware(self.leader, record_, read.gpu_type_line, by.virtual_clusters)
        return record_, spec, read.warnings, quotas

    def _read(self, text: bytes, taken: Mapping[str, Any] | None) -> Read:
        # A server that starts decides before it reads its first job file.
        from openpai.protocol.reading import read_job

        plugins = self._plugins
        return read_job(
            text,
            taken,
            lambda spec: (plugin_faults(spec, plugins), [*plugin_warnings(spec, plugins), *self._lost_outputs(spec)]),
        )

    def _lost_outputs(self, spec: JobSpec) -> Iterator[Finding]:
        """Yield a warning for outputs that will not be kept."""
        if self._why_unkept and outputs_of(spec.extras):
            message = f"these files will be lost: {self._why_unkept}; write what must last to a storage"
            yield Finding(("extras", "outputs"), message)

    async def _again(self, by: Submitter, text: bytes, job: str, name: str) -> Submitted:
        first = await self._store.load(job)
        if first is not None:
            check_repeated(by, text, first, self._secrets)
        return Submitted(job, by.user, name)

    async def _secrets_of_clone(self, by: Submitter) -> dict[str, Any]:
        """Return the secrets of the job to clone, an archived one by its id. It must belong to the submitter."""
        found = await self._store.load(await self._store.find(by.user, by.clone_of) or by.clone_of)
        # An older job belongs to another user who had the same name before.
        if found is None or found.user != by.user or found.job.submitted_at_ms < by.since_ms:
            message = f"{by.user} has no job named {by.clone_of!r}"
            raise Refused("NoJobError", message, "you can clone your own jobs only")
        return self._secrets.open(found.sealed)

    async def stop(self, user: str, name: str, by: str, reason: str = "") -> None:
        await self._change(user, name, JobUpdate((StopRequested(self._clock.now_ms(), by, reason),)))

    async def start(self, user: str, name: str, by: str, reason: str = "") -> None:
        found = await self._store.load(await self._find(user, name))
        if found is not None and not found.job.is_final and not found.job.is_stop_requested:
            does = "waits to run" if found.job.phase in _WAITING else "runs"
            message = f"job {found.full_name} {does} already"
            raise Refused("ConflictJobError", message, f"to run it from its beginning: pai job restart {found.name}")
        held = await check_again(found, self._usage, self.accounts) if found is not None else ()
        try:
            fact = StartRequested(self._clock.now_ms(), by, reason)
            await self._change(user, name, JobUpdate((fact,), quotas=held))
        except BeyondQuota as beyond:
            raise no_room(user, beyond) from beyond

    async def restart(self, user: str, name: str, by: str, reason: str = "") -> None:
        found = await self._store.load(await self._find(user, name))
        if found is None or found.job.is_final:
            await self.start(user, name, by, reason)
            return
        outcome = found.job.outcome
        if found.job.phase in (JobPhase.QUEUED, JobPhase.HELD):
            message = f"job {found.full_name} waits to run already"
            raise Refused("ConflictJobError", message, f"to see what it waits for: pai job why {found.name}")
        if found.job.phase is JobPhase.ENDING and outcome is not None and outcome.verdict is not Verdict.STOPPED:
            raise Unavailable(f"job {found.full_name} is just ending", "restart it in a moment, once it is over")
        await check_owner(found, self.accounts)
        now_ms = self._clock.now_ms()
        facts = (StopRequested(now_ms, by, reason, is_restart=True), StartRequested(now_ms, by, reason))
        remark = f"{by} restarted the job" + (f": {reason}" if reason else "")
        await self._change(user, name, JobUpdate(facts, remark=Remark("RestartRequested", remark)))

    async def kill(self, user: str, name: str, by: str, reason: str = "") -> None:
        leader = await self._leading()
        id_ = await self._find(user, name)
        fact = StopRequested(self._clock.now_ms(), by, reason)
        remark = Remark("KillRequested", f"{by} had its tasks killed at once")
        await self._change(user, name, JobUpdate((fact,), remark=remark))
        found = leader.active.records.get(id_)
        keys = wanted(found.job).kill if found is not None else ()
        # If this server dies first, the next one stops the tasks in the usual way.
        await leader.backend.apply([KillTask(key, 0.0) for key in keys])
        leader.active.killed.update(keys)

    async def set_priority(self, user: str, name: str, priority_class: str, by: str) -> None:
        if priority_class not in PRIORITY_OF:
            message = f"there is no priority class {priority_class!r}"
            raise InvalidParameters(message, f"use one of: {', '.join(PRIORITY_OF)}")

        def change(found: JobRecord) -> JobRecord:
            _refuse_over(found)
            if priority_class == "oppo" and any(w.pinned_cell for w in placement_of(found.spec).roles.values()):
                message = f"job {found.full_name} asks for a pinned cell, which an opportunistic job cannot use"
                raise InvalidParameters(message, "use another priority class")
            return replace(found, priority=PRIORITY_OF[priority_class], priority_class=priority_class)

        remark = Remark("PriorityChanged", f"{by} changed its priority class to {priority_class}", is_warning=False)
        await self._change(user, name, JobUpdate(amend=change, remark=remark))

    async def rescale(self, user: str, name: str, scales: Scales, by: str) -> None:
        found = await self._store.load(await self._find(user, name))
        if found is None:
            return
        after, words = rescaled(found, scales), changes_in_words(found.job, scales)
        if not words:
            return
        if self._usage is not None:
            quotas = quotas_for(found.user, await self._usage.quotas(), found.virtual_cluster)
            check_size(found.user, quotas, after.spec.gpus_total)
        if self.leader is not None:
            check_can_run(self.leader, found, after)
        fact = Rescaled(self._clock.now_ms(), scales)
        remark = Remark("Rescaled", f"{by} changed the number of tasks: {words}", is_warning=False)
        await self._change(user, name, JobUpdate((fact,), amend=lambda job: rescaled(job, scales), remark=remark))

    async def set_rank(self, user: str, name: str, rank: int, by: str) -> None:
        def change(found: JobRecord) -> JobRecord:
            _refuse_over(found)
            return replace(found, rank=rank)

        remark = Remark("RankChanged", f"{by} changed its rank to {rank}", is_warning=False)
        await self._change(user, name, JobUpdate(amend=change, remark=remark))

    async def checkpointed(self, user: str, name: str) -> None:
        now_ms = self._clock.now_ms()

        def change(found: JobRecord) -> JobRecord:
            _refuse_over(found)
            return replace(found, checkpoint_at_ms=now_ms)

        await self._change(user, name, JobUpdate(amend=change))

    async def why(self, job: str) -> tuple[Wait, ...]:
        leader = await self._leading()
        found = leader.active.records.get(job)
        if found is None:
            return ()
        if found.job.phase is JobPhase.HELD:
            return await waits_for(leader, found)
        if found.job.phase is JobPhase.BACKING_OFF:
            return (backing_off(found, self._clock.now_ms()),)
        unsure = asks_backend(leader, found)
        seen = await leader.backend.observe(unsure) if unsure else ()
        return (*waits_of(leader, found.job), *starting(found, seen), *silent(found, seen))

    async def task_use(self, job: str) -> tuple[TaskUse, ...]:
        await self._leading()
        return self.measures.of_job(job)

    def progress(self) -> Mapping[str, TaskUse]:
        return self.measures.progress()

    async def in_the_way(self, job: str) -> tuple[Holding, ...]:
        leader = await self._leading()
        found = leader.active.records.get(job)
        return () if found is None or not gangs.waiting(found.job) else in_the_way(leader, found)

    async def borrowed(self, job: str) -> Amount:
        leader = await self._leading()
        found = leader.active.records.get(job)
        return Amount() if found is None else borrowed_by(leader, found)

    async def _store_new(self, *new: NewJob) -> None:
        leader = self.leader
        try:
            await self._store.add_jobs(new, leader.epoch if leader is not None else None)
        except Unavailable:
            # Perhaps it was stored and only the answer was lost.
            if leader is not None:
                leader.must_resync = True
            raise
        # The leader of a later lease finds the job in the store or in the inbox.
        for one in new:
            if leader is not None and self.leader is leader and one.record.job.id not in leader.active.records:
                adopt(leader, one.record)

    async def _owner_keys(self, by: Submitter, spec: JobSpec) -> tuple[str, ...]:
        """Return the public keys in the profile of a job's owner, if the job lets its owner in."""
        user = await self.accounts.user(by.user) if self.accounts is not None and has_ssh(spec) else None
        return public_keys(user.extension) if user is not None else ()

    def _new_record(self, by: Submitter, spec: JobSpec, owner_keys: tuple[str, ...]) -> JobRecord:
        # The clock of another server, which created the account, may be ahead of ours.
        now_ms = max(self._clock.now_ms(), by.since_ms)
        # Not in the file that its owner reads: a clone may go to another virtual cluster.
        bare, taken = hidden(with_queue(spec, self._queues))
        return JobRecord(
            job=new_job(self._identities.new(), plan_of(bare), now_ms),
            user=by.user,
            name=spec.name,
            virtual_cluster=spec.virtual_cluster,
            priority=priority(spec.extras),
            spec=bare,
            sealed=self._secrets.seal(with_keys(spec, taken, owner_keys)),
            priority_class=asked_class(spec.extras),
            time_limit_ms=time_limit_ms(spec.extras),
            is_private=is_private(spec.extras),
        )

    async def _find(self, user: str, name: str) -> str:
        id_ = await self._store.find(user, name)
        if id_ is None:
            raise Refused("NoJobError", f"{user} has no job named {name!r}", "`pai job list` shows the jobs there are")
        return id_

    async def _change(self, user: str, name: str, update: JobUpdate) -> None:
        await change_job(self._store, self._clock, self.leader, await self._find(user, name), update)


def _refuse_over(found: JobRecord) -> None:
    if found.job.is_final:
        message = f"job {found.full_name} is over"
        raise Refused("FinishedJobError", message, f"start it again first: pai job start {found.name}")

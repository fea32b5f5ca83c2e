"""What people wish for, one function each: submit, stop, start, why, nodes.

A wish is answered once it is durable. On the leading server it then reaches the passes through the desk; on any
other server it reaches the leader through the store's inbox.
"""

from __future__ import annotations

import contextlib

from openpai.lifecycle.model import Fact, JobPhase, StartRequested, StopRequested
from openpai.lifecycle.planning import plan_of
from openpai.lifecycle.stepping import new_job, step
from openpai.orchestrator import gangs
from openpai.orchestrator.hiding import hidden
from openpai.orchestrator.leading import adopt
from openpai.orchestrator.mounting import with_storages
from openpai.orchestrator.office import Office, Secrets
from openpai.orchestrator.recording import RACES_MAX, News, build_change, is_newest, record
from openpai.orchestrator.specs import spec_of
from openpai.ports.clock import Clock, Identities
from openpai.ports.platform import NodeView, NotLeading, Submitted, Submitter
from openpai.ports.storages import StorageStore
from openpai.ports.store import Event, JobRecord, JobStore, LeaseLost, NewJob, Saved
from openpai.protocol.errors import Refused, Unavailable
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER, JobSpec
from openpai.protocol.priorities import asked_class, priority
from openpai.protocol.reading import read_job
from openpai.protocol.writing import dump_masked, dump_spec
from openpai.runtime.plugins import unsupported_plugins
from openpai.scheduler.model import Wait, Why


class Wishes:
    """`ports.platform.Platform`: the same on a server that leads and on one that does not."""

    def __init__(
        self,
        store: JobStore,
        secrets: Secrets,
        clock: Clock,
        identities: Identities,
        *,
        storages: StorageStore | None = None,
    ) -> None:
        self._store = store
        self._secrets = secrets
        self._clock = clock
        self._identities = identities
        self._storages = storages
        self.office: Office | None = None
        """The office while this server leads."""

    async def submit(self, by: Submitter, text: bytes) -> Submitted:
        """Check a job file and remember the job; see `Platform.submit`."""
        user = by.user
        read = read_job(text)
        spec = await with_storages(read.spec, by, self._storages)
        _check_virtual_cluster(user, spec)
        record_ = self._new_record(user, spec)
        warnings = (*read.warnings, *_without_effect(spec))
        if self.office is not None:
            _refuse_impossible(self.office, record_, spec)
        at_ms = record_.job.submitted_at_ms
        event = Event(record_.job.id, at_ms, "Submitted", f"{user} submitted the job", 0)
        new = NewJob(record_, dump_masked(spec), spec.gpus_total, event)
        await self._remember(new)
        return Submitted(record_.job.id, user, spec.name, warnings)

    async def stop(self, user: str, name: str, by: str) -> None:
        """Let a job end; see `Platform.stop`."""
        await self._tell(user, name, StopRequested(self._clock.now_ms(), by))

    async def start(self, user: str, name: str, by: str) -> None:
        """Let a finished job run again; see `Platform.start`."""
        await self._tell(user, name, StartRequested(self._clock.now_ms(), by))

    async def why(self, user: str, name: str) -> tuple[Wait, ...]:
        """Return why a job's tasks wait; see `Platform.why`."""
        id_ = await self._find(user, name)
        if self.office is None:
            raise NotLeading
        found = self.office.desk.records.get(id_)
        if found is None:
            return ()
        if found.job.phase is JobPhase.BACKING_OFF:
            return (_backing_off(found, self._clock.now_ms()),)
        waits = (self.office.scheduler.why(members.gang) for members in gangs.waiting(found.job))
        return tuple(wait for wait in waits if wait is not None)

    async def nodes(self) -> tuple[NodeView, ...]:
        """Return every machine; see `Platform.nodes`."""
        if self.office is None:
            raise NotLeading
        return tuple(_node_views(self.office))

    async def _remember(self, new: NewJob) -> None:
        office = self.office
        try:
            await self._store.add_job(new, office.epoch if office is not None else None)
        except Unavailable:
            # Perhaps it was remembered and only the answer was lost.
            if office is not None:
                office.must_resync = True
            raise
        # Who leads under a later lease finds the job in the store or in the inbox.
        if office is not None and self.office is office:
            adopt(office, new.record)

    def _new_record(self, user: str, spec: JobSpec) -> JobRecord:
        now_ms = self._clock.now_ms()
        bare, taken = hidden(spec)
        return JobRecord(
            job=new_job(self._identities.new(), plan_of(spec), now_ms),
            user=user,
            name=spec.name,
            virtual_cluster=spec.virtual_cluster,
            priority=priority(spec.extras),
            spec_text=dump_spec(bare),
            sealed=self._secrets.seal(taken),
            priority_class=asked_class(spec.extras),
        )

    async def _find(self, user: str, name: str) -> str:
        id_ = await self._store.find(user, name)
        if id_ is None:
            raise Refused("NoJobError", f"{user} has no job named {name!r}", "`pai job list` shows the jobs there are")
        return id_

    async def _tell(self, user: str, name: str, fact: Fact) -> None:
        id_ = await self._find(user, name)
        if self.office is not None:
            with contextlib.suppress(LeaseLost):
                await _tell_leader(self.office, id_, fact)
                return
        for _ in range(RACES_MAX):
            before = await self._store.load(id_)
            if before is None:
                raise Refused("NoJobError", f"{user} has no job named {name!r}")
            stepped = step(before.job, (fact,))
            if stepped.job is before.job:
                return
            change = build_change(before, stepped, {}, self._clock.now_ms())
            if await self._store.save([change], None, notify=True) == (Saved.YES,):
                return
        raise Unavailable(f"job {name} changes too fast to be told")


async def _tell_leader(office: Office, id_: str, fact: Fact) -> None:
    for _ in range(RACES_MAX):
        known = office.desk.records.get(id_)
        if id_ in await record(office, {id_: News((fact,))}):
            return
        # It changed nothing, but the desk may not know yet what another server was told.
        if known is None or await is_newest(office, known):
            return
    raise Unavailable(f"job {id_} changes too fast to be told")


def _check_virtual_cluster(user: str, spec: JobSpec) -> None:
    if spec.virtual_cluster != DEFAULT_VIRTUAL_CLUSTER:
        raise Refused(
            "ForbiddenUserError",
            f"{user} may not use the virtual cluster {spec.virtual_cluster!r}",
            f"leave `defaults.virtualCluster` away or set it to {DEFAULT_VIRTUAL_CLUSTER!r}, the only one there is",
        )


def _refuse_impossible(office: Office, record_: JobRecord, spec: JobSpec) -> None:
    for members in gangs.waiting(record_.job):
        reason = office.scheduler.refusal(gangs.describe(record_, members, spec))
        if reason is not None:
            raise Refused("InvalidProtocolError", reason, "ask for less, or ask an admin which nodes there are")


def _without_effect(spec: JobSpec) -> tuple[str, ...]:
    named = dict.fromkeys(name for role in spec.task_roles for name in unsupported_plugins(spec, role.name))
    return tuple(f"the runtime plugin {name!r} has no effect yet" for name in named)


def _backing_off(found: JobRecord, now_ms: int) -> Wait:
    left_s = max(0, (found.job.retry_at_ms or now_ms) - now_ms) / 1000
    told = f"attempt {found.job.attempt} failed and the job is tried again in {left_s:.0f} s"
    return Wait(f"{found.job.id}/{found.job.attempt}", Why.BACKING_OFF, told, "wait, or stop the job")


def _node_views(office: Office) -> list[NodeView]:
    used: dict[str, list[int]] = {name: [0, 0, 0, 0] for name in office.nodes}
    for found in office.desk.records.values():
        if not found.slots:
            continue
        roles = {role.name: role.resources for role in spec_of(found).task_roles}
        for id_, slot in found.slots.items():
            need = roles[id_.role]
            sums = used.setdefault(slot.node, [0, 0, 0, 0])
            for place, amount in enumerate((need.cpus, need.memory_mb, need.gpus, 1)):
                sums[place] += amount
    return [
        NodeView(
            name=node.name,
            address=node.address,
            is_healthy=node.is_healthy,
            told=node.told,
            gpu_model=node.gpu_model,
            cpus_total=node.cpus,
            cpus_used=used[node.name][0],
            memory_mb_total=node.memory_mb,
            memory_mb_used=used[node.name][1],
            gpus_total=node.gpus,
            gpus_used=used[node.name][2],
            bad_devices=tuple(sorted(node.bad_devices)),
            tasks=used[node.name][3],
        )
        for node in sorted(office.nodes.values(), key=lambda node: node.name)
    ]

"""Jobs that a queue of Kueue admits: a Workload for each, in the namespace of the tasks.

A Workload is asked for while its job is held, and kept until the job is over. Kueue writes into its status whether it
is admitted, and that it is evicted. Its quota counts as used until the platform says in the status that the job has
left; Kueue then admits it again at its old place. What belongs to other users of Kueue has no label of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

import structlog

from openpai.backends.kubernetes.names import JOB_LABEL, PART_LABEL, SCOPE_LABEL, digest, is_dns_label, slug
from openpai.backends.kubernetes.writes import until_answered
from openpai.kube.changes import Changes
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import Kind
from openpai.kube.objects.kueue import VERSIONS, WORKLOADS, Workload
from openpai.kube.reflector import Reflector
from openpai.kube.work_queue import WorkQueue
from openpai.ports.admission import Admission, AdmissionRequest, AdmissionState, TasksAsked
from openpai.ports.clock import Clock
from openpai.protocol.times import kubernetes_time
from openpai.system.supervision import ended, supervise

log: Final = structlog.get_logger(__name__)
_PART: Final = "admission"
LABEL: Final = f"{PART_LABEL}={_PART}"
"""Selects the Workloads of every platform."""
_ASKED: Final = "openpai/asked"
"""What the Workload asks for, except its priority, as a digest: one that asks for something else is replaced."""
_LEFT: Final = "the job has left after its eviction"
_REFUSED_AGAIN_S: Final = 30.0
_GPUS: Final = "nvidia.com/gpu"


class AdmitsByKueue:
    """The part of the backend about admission; every job is admitted where no queue of Kueue is used."""

    _admission: KueueAdmission | None = None

    def request_admission(self, asked: AdmissionRequest) -> None:
        """Begin to ask Kueue for a job that holds nothing; one that was evicted asks again."""
        if self._admission is not None:
            self._admission.request(asked)

    def change_admission(self, asked: AdmissionRequest) -> None:
        """Begin to bring what was asked for up to date, of a job that may hold what it was granted."""
        if self._admission is not None:
            self._admission.change(asked)

    def withdraw_admission(self, job: str) -> None:
        """Begin to give back what Kueue granted to a job that is over."""
        if self._admission is not None:
            self._admission.withdraw(job)

    def admission(self, job: str) -> Admission:
        """Return what is known of a job's admission."""
        return self._admission.state(job) if self._admission is not None else Admission(AdmissionState.ADMITTED)

    async def admission_news(self) -> Collection[str]:
        """Wait for changes since the last call; return the ids of the jobs."""
        if self._admission is None:
            await asyncio.Event().wait()  # until the leader ends
            return ()
        return await self._admission.news()


class KueueAdmission:
    """The Workloads of one platform. Open it before use; an attempt to reach Kueue may fail without end."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        scope: str,
        clock: Clock,
        *,
        tolerations: Sequence[Mapping[str, Any]],
        gpu_resource: Callable[[], str],
    ) -> None:
        """`gpu_resource` returns the resource by which most of the cluster's GPUs are counted; empty without any."""
        self._client = client
        self._namespace = namespace
        self._scope = scope
        self._clock = clock
        self._tolerations = tolerations
        self._gpu_resource = gpu_resource
        self._labels = {SCOPE_LABEL: scope, PART_LABEL: _PART}
        self._kind: Kind[Workload] = WORKLOADS
        self._workloads: Reflector[Workload] | None = None
        self._asked: dict[str, AdmissionRequest] = {}
        self._left: set[str] = set()
        """Jobs that left after an eviction and wait to be admitted again, until their Workload says so."""
        self._troubles: dict[str, str] = {}
        """Why the Workload of a job could not be written."""
        self._news: dict[str, None] = {}
        self._has_news = asyncio.Event()
        self._work = WorkQueue("ask Kueue to admit jobs", self._step)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin to follow the Workloads."""
        self._tasks = [
            supervise("follow Kueue's workloads", self._follow_forever),
            supervise("ask Kueue to admit jobs", self._work.run),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Follow them no longer; they stay."""
        for task in self._tasks:
            await ended(task)
        if self._workloads is not None:
            await self._workloads.close()

    # What the leader asks for.

    def request(self, asked: AdmissionRequest) -> None:
        """Begin to ask for a job that holds nothing; one that was evicted asks again."""
        is_known = self._asked.get(asked.job) == asked
        self._asked[asked.job] = asked
        if self.state(asked.job).state is AdmissionState.EVICTED:
            self._left.add(asked.job)
        elif is_known and asked.job not in self._troubles:
            return
        self._work.add(asked.job)

    def change(self, asked: AdmissionRequest) -> None:
        """Begin to bring what was asked for up to date, of a job that may hold what it was granted."""
        self._asked[asked.job] = asked
        self._work.add(asked.job)

    def withdraw(self, job: str) -> None:
        """Begin to delete the Workload of a job that is over."""
        self._asked.pop(job, None)
        self._left.discard(job)
        self._troubles.pop(job, None)
        self._work.add(job)

    def state(self, job: str) -> Admission:
        """Return what is known of a job's admission."""
        if self._workloads is None or not self._workloads.synced.is_set():
            return Admission(AdmissionState.UNKNOWN, self._troubles.get(job, ""))
        found = self._found(job)
        if found is None or found.is_deleting:
            return Admission(AdmissionState.GONE, self._troubles.get(job, ""))
        if found.is_("Evicted") and found.status.admission is not None:
            return Admission(AdmissionState.EVICTED, found.message("Evicted"))
        if found.is_("Admitted"):
            return Admission(AdmissionState.ADMITTED)
        return Admission(AdmissionState.WAITING, self._troubles.get(job) or found.message("QuotaReserved"))

    async def news(self) -> Collection[str]:
        """Wait for changes since the last call; return the ids of the jobs."""
        await self._has_news.wait()
        self._has_news.clear()
        news, self._news = self._news, {}
        return news

    # Work in the background.

    async def _follow_forever(self) -> None:
        if self._workloads is None:
            self._kind = await self._served()
            labels = ",".join(f"{name}={value}" for name, value in self._labels.items())
            self._workloads = Reflector(self._client, self._kind, self._namespace, labels=labels)
            self._workloads.start()
        changes: Changes[Workload] = self._workloads.subscribe()
        await self._workloads.synced.wait()
        for job in self._asked:
            self._work.add(job)
            self._note(job)  # also those of which nothing is found
        while True:
            for change in await changes.wait():
                job = change.last.metadata.label(JOB_LABEL)
                self._note(job)
                if change.is_deletion or job in self._left:
                    self._work.add(job)

    async def _served(self) -> Kind[Workload]:
        """Return the kind in a version that the cluster serves; wait until it does."""
        while True:
            why = "the cluster has no Kueue"
            for version in VERSIONS:
                try:
                    await self._client.raw("GET", WORKLOADS.at(version).path(self._namespace), limit="1")
                except KubeError as error:
                    why = why if error.is_missing else error.message
                else:
                    return WORKLOADS.at(version)
            for job in self._asked:
                self._trouble(job, why)
            await asyncio.sleep(_REFUSED_AGAIN_S)

    def _found(self, job: str) -> Workload | None:
        return self._workloads.get(self._name(job), self._namespace) if self._workloads is not None else None

    def _name(self, job: str) -> str:
        name = f"pai-{job}-{digest(self._scope, job, length=8)}"
        return name if is_dns_label(name) else f"pai-{slug(job)}-{digest(self._scope, job, length=20)}"

    def _note(self, job: str) -> None:
        self._news[job] = None
        self._has_news.set()

    def _trouble(self, job: str, why: str) -> None:
        if self._troubles.get(job) != why:
            self._troubles[job] = why
            self._note(job)

    async def _step(self, job: str) -> float | None:
        """Bring a job's Workload one step nearer to what is asked; return when to look again, None for its change."""
        if self._workloads is None or not self._workloads.synced.is_set():
            return None  # everything asked for is looked at once it is
        try:
            again_s = await self._reconcile(job)
        except KubeError as error:
            if error.is_conflict or (error.is_missing and self._found(job) is not None):
                return 1.0  # it changed meanwhile
            self._trouble(job, error.message)
            return _REFUSED_AGAIN_S
        if self._troubles.pop(job, None) is not None:
            self._note(job)
        return again_s

    async def _reconcile(self, job: str) -> float | None:
        asked, found = self._asked.get(job), self._found(job)
        if found is not None and found.is_deleting:
            return None
        if found is None:
            if asked is not None:
                await self._create(asked)
            return None
        if asked is None or found.metadata.annotation(_ASKED) != _what(asked) or found.is_("Finished"):
            await self._client.delete(self._kind, found.name, self._namespace, uid=found.uid)
            return None
        if found.spec.priority != asked.priority:
            # The one thing that Kueue lets change while the quota is held: an admitted job stays admitted.
            body = {"metadata": {"uid": found.uid}, "spec": {"priority": asked.priority}}
            found = await self._client.patch(self._kind, found.name, body, self._namespace)
        if job in self._left:
            if self.state(job).state is AdmissionState.EVICTED:
                await self._give_back(found)
            self._left.discard(job)
        return None

    async def _create(self, asked: AdmissionRequest) -> None:
        try:
            await self._client.create(self._kind, self._body(asked), self._namespace)
        except KubeError as error:
            # Its last one may be on its way out, or this one is on its way here.
            if not error.is_there_already:
                raise

    async def _give_back(self, found: Workload) -> None:
        """Say that the job has left, so that its quota is free and it is admitted again at its place."""
        now = kubernetes_time(self._clock.now_ms())
        changed = {
            "QuotaReserved": ("False", "Pending"),
            "Admitted": ("False", "NoReservation"),
            "Requeued": ("True", "Pending"),
        }
        kept = [each.as_json() for each in found.status.conditions if each.type not in changed]
        new = [
            {"type": type_, "status": status, "reason": reason, "message": _LEFT, "lastTransitionTime": now}
            for type_, (status, reason) in changed.items()
        ]
        status = {"admission": None, "conditions": [*kept, *new]}
        body = {"metadata": {"resourceVersion": found.metadata.resource_version}, "status": status}
        await self._client.patch(self._kind, found.name, body, self._namespace, subresource="status")

    def _body(self, asked: AdmissionRequest) -> dict[str, Any]:
        gpus = self._gpu_resource()
        pod_sets = [
            {
                "name": f"{slug(tasks.role)}-{number}",
                "count": tasks.count,
                "template": {"spec": self._pod_spec(tasks, gpus if "/" in gpus else _GPUS)},
            }
            for number, tasks in enumerate(asked.tasks)
            if tasks.count
        ]
        spec = {"active": True, "queueName": asked.queue, "priority": asked.priority, "podSets": pod_sets}
        metadata = {
            "name": self._name(asked.job),
            "labels": {**self._labels, JOB_LABEL: asked.job},
            "annotations": {_ASKED: _what(asked), "openpai/name": asked.name},
        }
        return {"apiVersion": self._kind.api_version, "kind": self._kind.name, "metadata": metadata, "spec": spec}

    def _pod_spec(self, tasks: TasksAsked, gpus: str) -> dict[str, Any]:
        needs = {"cpu": str(tasks.cpus), "memory": f"{tasks.memory_mb}Mi"}
        if tasks.gpus:
            needs[gpus] = str(tasks.gpus)
        container = {"name": "task", "image": "task", "resources": {"requests": needs}}
        return {"containers": [container], "restartPolicy": "Never", "tolerations": list(self._tolerations)}


async def remove_workloads(client: KubeClient, namespace: str, scope: str) -> None:
    """Remove what an earlier server of this platform asked for: no queue of Kueue admits its jobs any more.

    Without Kueue, or without the right to list its Workloads, it does nothing.
    """
    for version in VERSIONS:
        kind, left = WORKLOADS.at(version), list[Workload]()

        async def look(kind: Kind[Workload] = kind, left: list[Workload] = left) -> None:
            left += await client.list(kind, namespace, labels=f"{SCOPE_LABEL}={scope},{LABEL}")

        if await until_answered(look) is not None:
            continue
        for each in left:
            refusal = await until_answered(partial(client.delete, kind, each.name, namespace, uid=each.uid))
            if refusal is not None and not refusal.is_missing:
                log.warning(
                    "a Workload of an earlier start holds quota in Kueue and could not be removed",
                    workload=each.name, error=refusal.message,
                    advice=f"kubectl delete workloads.kueue.x-k8s.io -n {namespace} -l {LABEL}",
                )  # fmt: skip
        return


def _what(asked: AdmissionRequest) -> str:
    return digest(repr(replace(asked, priority=0)), length=32)

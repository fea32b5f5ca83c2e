"""Removes what the pods of a job shared, once there is none left: Secrets and the service; and claims without a pod.

The server that removes the last pod of a job removes them. One that dies in between leaves them; a sweep finds those of
jobs without a pod. It takes only what it found twice, some time apart, because a launch creates them first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from openpai.backends.kubernetes.attempts import PodRegister
from openpai.backends.kubernetes.cluster import Cluster
from openpai.backends.kubernetes.launching import Launcher
from openpai.backends.kubernetes.names import JOB_LABEL, PART_LABEL, SCOPE_LABEL, label_value
from openpai.backends.kubernetes.writes import Writes, until_answered
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.devices import ResourceClaim
from openpai.kube.objects.kinds import RESOURCE_CLAIMS, SECRETS, SERVICES, Kind
from openpai.kube.objects.meta import Resource

SWEEP_EVERY_S: Final = 600.0
GATHERED_S: Final = 1.0
"""How long jobs without pods are gathered. The API server looks at all Secrets for each list, of one job or of many."""
_JOBS_PER_LIST: Final = 100
CLAIMS_EVERY_S: Final = 60.0
"""A claim without a pod holds devices that no other task gets, so it may not stay for long."""
FIRST_SWEEP_S: Final = 60.0
_SHARED: Final = ("files", "env", "registry", "mount", "network")


class Leftovers:
    """Removes shared objects of jobs."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        scope: str,
        register: PodRegister,
        launcher: Launcher,
        cluster: Cluster,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._scope = scope
        self._labels = f"{SCOPE_LABEL}={scope},{PART_LABEL} in ({','.join(_SHARED)})"
        self._cluster = cluster
        self._register = register
        self._launcher = launcher
        self._due_s = asyncio.get_running_loop().time() + FIRST_SWEEP_S
        self._claims_due_s = self._due_s
        self._over: set[str] = set()
        """Jobs without pods whose shared objects are still there."""
        self._found: frozenset[str] = frozenset()
        self._claims_found: frozenset[str] = frozenset()

    def remove_job(self, job: str, writes: Writes) -> None:
        """Remove in a moment what the pods of a job shared, with that of others, unless a new pod comes meanwhile."""
        if not self._over:
            writes.add(self._remove_gathered)
        self._over.add(job)

    async def _remove_gathered(self) -> None:
        await asyncio.sleep(GATHERED_S)
        jobs, self._over = {label_value(job): job for job in sorted(self._over)}, set()
        names = list(jobs)
        for start in range(0, len(names), _JOBS_PER_LIST):
            labels = f"{self._labels},{JOB_LABEL} in ({','.join(names[start : start + _JOBS_PER_LIST])})"
            await self._remove(labels, lambda each: not self._register.has_job(jobs[each.metadata.label(JOB_LABEL)]))

    def sweep_if_due(self, writes: Writes) -> None:
        """Look for objects without pods from time to time, also while nothing is launched."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._due_s:
            self._due_s = now_s + SWEEP_EVERY_S
            writes.add(self._sweep)
        if now_s >= self._claims_due_s:
            self._claims_due_s = now_s + CLAIMS_EVERY_S
            writes.add(self._sweep_claims)

    async def _sweep(self) -> None:
        jobs = {label_value(attempt.key.job) for attempt in self._register}
        before, found = self._found, set[str]()

        def is_left(each: Resource) -> bool:
            if each.metadata.label(JOB_LABEL) in jobs:
                return False
            found.add(each.uid)
            return each.uid in before

        await self._remove(self._labels, is_left)
        self._found = frozenset(found)

    async def _sweep_claims(self) -> None:
        left = {claim.uid: claim for claim in self._cluster.claims or () if self._is_left(claim)}
        again = [claim for uid, claim in left.items() if uid in self._claims_found]
        self._claims_found = frozenset(left)
        for claim in again:
            delete = partial(self._client.delete, RESOURCE_CLAIMS, claim.name, self._namespace, uid=claim.uid)
            await until_answered(delete)

    def _is_left(self, claim: ResourceClaim) -> bool:
        meta, name = claim.metadata, claim.name
        if claim.namespace != self._namespace or meta.label(SCOPE_LABEL) != self._scope:
            return False
        is_known = self._register.named(name) is not None or self._register.is_leaving(name)
        return not is_known and self._cluster.pods.get(name, self._namespace) is None

    async def _remove(self, labels: str, is_left: Callable[[Resource], bool]) -> None:
        kinds: tuple[Kind[Any], ...] = (SECRETS, SERVICES)
        for kind in kinds:
            try:
                # The Secrets of a thousand jobs together are large.
                there = await self._client.list(kind, self._namespace, labels=labels, only_metadata=True)
            except KubeError:
                # The sweep finds them.
                return
            for each in there:
                if is_left(each):
                    self._launcher.forget(each.name)
                    await until_answered(partial(self._client.delete, kind, each.name, self._namespace, uid=each.uid))

"""Removes what the pods of a job shared, once there is none left: Secrets and the service.

The server that removes the last pod of a job removes them. One that dies in between leaves them; a sweep finds those of
jobs without a pod. It takes only what it found twice, some minutes apart, because a launch creates them first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from openpai.backends.kubernetes.attempts import PodRegister
from openpai.backends.kubernetes.launching import Launcher
from openpai.backends.kubernetes.names import JOB_LABEL, PART_LABEL, SCOPE_LABEL, label_value
from openpai.backends.kubernetes.writes import Writes, until_answered
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import SECRETS, SERVICES, Kind
from openpai.kube.objects.meta import Resource

SWEEP_EVERY_S: Final = 600.0
FIRST_SWEEP_S: Final = 60.0
_SHARED: Final = ("files", "env", "registry", "mount", "network")


class Leftovers:
    """Removes shared objects of jobs."""

    def __init__(
        self, client: KubeClient, namespace: str, scope: str, register: PodRegister, launcher: Launcher
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._labels = f"{SCOPE_LABEL}={scope},{PART_LABEL} in ({','.join(_SHARED)})"
        self._register = register
        self._launcher = launcher
        self._due_s = asyncio.get_running_loop().time() + FIRST_SWEEP_S
        self._found: frozenset[str] = frozenset()

    async def remove_job(self, job: str) -> None:
        """Remove what the pods of a job shared, unless a new one has come meanwhile."""
        labels = f"{self._labels},{JOB_LABEL}={label_value(job)}"
        await self._remove(labels, lambda found: not self._register.has_job(job))

    def sweep_if_due(self, writes: Writes) -> None:
        """Look for the objects of jobs without pods from time to time; only the server that leads calls this."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._due_s:
            self._due_s = now_s + SWEEP_EVERY_S
            writes.add(self._sweep)

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

    async def _remove(self, labels: str, is_left: Callable[[Resource], bool]) -> None:
        kinds: tuple[Kind[Any], ...] = (SECRETS, SERVICES)
        for kind in kinds:
            try:
                there = await self._client.list(kind, self._namespace, labels=labels)
            except KubeError:
                # The sweep finds them.
                return
            for each in there:
                if is_left(each):
                    self._launcher.forget(each.name)
                    await until_answered(partial(self._client.delete, kind, each.name, self._namespace, uid=each.uid))

"""Removes the pods of forgotten attempts, and what nothing else needs any more."""

from __future__ import annotations

from functools import partial
from typing import Final

import structlog

from openpai.backends.kubernetes.attempts import PodAttempt, PodRegister
from openpai.backends.kubernetes.claiming import Claims
from openpai.backends.kubernetes.deleting import Deletions
from openpai.backends.kubernetes.leftovers import Leftovers
from openpai.backends.kubernetes.log_shipping import LogShipper
from openpai.backends.kubernetes.memory import Memory
from openpai.backends.kubernetes.watching import LOG_PATIENCE_S
from openpai.backends.kubernetes.writes import Writes, until_answered
from openpai.system.pauses import Precedence
from openpai.system.supervision import Background

log: Final = structlog.get_logger(__name__)
_PATIENCE_S: Final = 10.0
"""How long closing waits for what is under way."""


class Removals:
    """Removes pods in the background."""

    def __init__(
        self,
        register: PodRegister,
        logs: LogShipper | None,
        memory: Memory,
        deletions: Deletions,
        claims: Claims,
        leftovers: Leftovers,
        precedence: Precedence,
    ) -> None:
        self._register = register
        self._logs = logs
        self._memory = memory
        self._deletions = deletions
        self._claims = claims
        self._leftovers = leftovers
        self._writes = Writes("remove pods", deletions.removing, precedence)
        self._leaving = Background()

    async def close(self) -> None:
        """Finish what is under way if that takes a moment only; the next server finds the pods and logs of the rest."""
        await self._leaving.drain(_PATIENCE_S)
        await self._leaving.close()
        await self._writes.drain(_PATIENCE_S)
        await self._writes.close()

    def remove(self, attempt: PodAttempt) -> None:
        """Remove the pod of an attempt once its log is here, and with the last one of a job what its pods shared."""
        if self._logs is None or self._logs.is_complete(attempt.key):
            self._writes.add(partial(self._remove, attempt))
        else:
            self._leaving.start("the log of a pod that is over", self._remove_with_log(self._logs, attempt))

    def sweep_if_due(self) -> None:
        """Look from time to time for what an earlier server left."""
        self._leftovers.sweep_if_due(self._writes)

    async def _remove_with_log(self, logs: LogShipper, attempt: PodAttempt) -> None:
        """Remove a pod once its log is here, which goes with the pod."""
        # At this moment the pods of what takes its place are created.
        if not await logs.finished(attempt.key, LOG_PATIENCE_S, hurries=False):
            log.warning("the log of a task is not complete", pod=attempt.name)
        self._writes.add(partial(self._remove, attempt))

    async def _remove(self, attempt: PodAttempt) -> None:
        if self._logs is not None:
            self._logs.forget(attempt.key)
        try:
            # The grant outlives its pod.
            if attempt.devices and (error := await until_answered(self._memory.save)) is not None:
                log.error("the newest grants of devices are not saved", pod=attempt.name, error=str(error))
            if attempt.uid:
                await self._deletions.let_go(attempt.name, attempt.uid)
            # A fence too may have one: its launch was given up between claim and pod.
            await self._claims.remove(attempt.name)
        finally:
            self._register.removed(attempt)
        if not self._register.has_job(attempt.key.job):
            self._leftovers.remove_job(attempt.key.job, self._writes)

"""Ends pods, and removes those whose end is recorded. Every deletion names the UID, so no later pod is hit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import structlog

from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.backends.kubernetes.names import FINALIZER, NOTICE_ANNOTATION
from openpai.backends.kubernetes.pods import CONTAINER, grace_seconds
from openpai.backends.kubernetes.seals import Seals
from openpai.backends.kubernetes.writes import REMOVING_LEAST, REMOVING_MOST, Pace, Writes, until_answered
from openpai.kube.client import STRATEGIC_PATCH, KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import PODS
from openpai.kube.objects.pods import Pod
from openpai.lifecycle.model import ExitReport
from openpai.runtime.notice import notice_text
from openpai.system.supervision import Background

log: Final = structlog.get_logger(__name__)
NOTICE_S: Final = 1.0
"""A kubelet writes a changed annotation into the pod's volume within half a second."""
_INSIST_AFTER_S: Final = 2.0
_INSIST_TRIES: Final = 5
_CONFLICT_TRIES: Final = 5


class Deletions:
    """Deletes pods in the background."""

    def __init__(self, client: KubeClient, seals: Seals, namespace: str, writes: Writes) -> None:
        self._client = client
        self._seals = seals
        self._namespace = namespace
        self._writes = writes
        self._insisting = Background()
        self.removing = Pace(REMOVING_LEAST, REMOVING_MOST)
        """The pace of `let_go`."""
        self._noticed: dict[str, asyncio.TimerHandle] = {}
        """By pod, the timer that deletes it."""

    async def close(self) -> None:
        """Stop what is under way."""
        for timer in self._noticed.values():
            timer.cancel()
        await self._insisting.close()

    def end(self, attempt: PodAttempt, grace_s: float, *, noticed_at_ms: int | None = None) -> None:
        """Delete the pod of an attempt: its node sends SIGTERM, and SIGKILL after the grace period.

        With `noticed_at_ms`, the pod is annotated first with why and until when, and its node has a moment to pass
        that on to the task.
        """
        before, now = attempt.pod_grace_s, grace_seconds(grace_s)
        attempt.pod_grace_s = min(now, before or now)
        notice = attempt.notice
        if notice and noticed_at_ms is not None and before is None and now > NOTICE_S:
            text = notice_text(notice.reason, notice.message, grace_s, noticed_at_ms)
            self._writes.add(partial(self._annotate, attempt, text))
        else:
            self._writes.add(partial(self._delete, attempt))
        if before is not None:
            self._insisting.start("end a pod early", self._insist(attempt))

    def end_stranger(self, pod: Pod) -> None:
        """Delete a pod of ours whose attempt is over: a launch that was believed lost."""
        grace_s = grace_seconds(0.0)
        call = partial(self._client.delete, PODS, pod.name, self._namespace, uid=pod.uid, grace_s=grace_s)
        self._writes.add(_no_result(partial(until_answered, call)))

    async def let_go(self, name: str, uid: str) -> None:
        """Delete a pod whose end is recorded, and remove our finalizer from it.

        In this order the pod is gone with the second request. In the other the API server writes it once more, and
        every watch hears of that.
        """
        # Which manager owns which field is of no use to a pod that goes, and takes the API server half of the change.
        body = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER], "managedFields": [{}]}}
        patch = partial(self._client.patch, PODS, name, body, self._namespace, how=STRATEGIC_PATCH, only_metadata=True)
        delete = partial(self._client.delete, PODS, name, self._namespace, uid=uid, grace_s=0)
        loop = asyncio.get_running_loop()
        refusal: KubeError | None = None
        for _ in range(_CONFLICT_TRIES):
            began_s = loop.time()
            refusal = await until_answered(delete) or await until_answered(_no_result(patch))
            if refusal is None:
                self.removing.note(loop.time() - began_s)
                return
            # Another pod has the name now, or only another change came at the same moment.
            if refusal.is_missing or not await self._is_there(name, uid):
                return
            if not refusal.is_conflict:
                break
        if refusal is not None:
            log.warning("a pod that is over cannot be removed", pod=name, error=refusal.message)

    async def _is_there(self, name: str, uid: str) -> bool:
        found: list[Pod | None] = []

        async def find() -> None:
            found.append(await self._client.find(PODS, name, self._namespace))

        await until_answered(find)
        return bool(found) and found[0] is not None and found[0].uid == uid

    async def _annotate(self, attempt: PodAttempt, notice: str) -> None:
        """Write a notice to a pod, and delete it a moment later; one that cannot be annotated is deleted at once."""
        body = {"metadata": {"uid": attempt.uid, "annotations": {NOTICE_ANNOTATION: notice.strip()}}}
        try:
            await self._client.patch(PODS, attempt.name, body, self._namespace)
        except KubeError:
            await self._delete(attempt)
            return
        self._noticed[attempt.name] = asyncio.get_running_loop().call_later(NOTICE_S, self._delete_later, attempt)

    def _delete_later(self, attempt: PodAttempt) -> None:
        self._noticed.pop(attempt.name, None)
        self._writes.add(partial(self._delete, attempt))

    async def _delete(self, attempt: PodAttempt) -> None:
        """Delete a pod, and repeat that while the API server does not answer."""
        if not attempt.uid or attempt.exit is not None:
            return

        if attempt.cut_off is not None and not attempt.is_deleted:
            await self._write_cut_off(attempt, attempt.cut_off)

        async def delete() -> None:
            # The shortest of all that were asked for: of two requests in flight, the later one may arrive first.
            grace_s = attempt.pod_grace_s
            await self._client.delete(PODS, attempt.name, self._namespace, uid=attempt.uid, grace_s=grace_s)

        error: KubeError | None = None
        for _ in range(_CONFLICT_TRIES):
            error = await until_answered(delete, lambda: attempt.exit is not None)
            if error is None or not error.is_conflict or not await self._is_there(attempt.name, attempt.uid):
                break
        if error is not None and not (error.is_missing or error.is_conflict):
            log.error("a pod cannot be deleted, and runs on", pod=attempt.name, error=error.message)

    async def _write_cut_off(self, attempt: PodAttempt, report: ExitReport) -> None:
        """Write on the pod why it goes: a server that takes over meanwhile would see only that it was deleted."""
        body = {"metadata": {"uid": attempt.uid, "annotations": self._seals.cut_off(attempt.uid, report)}}

        async def write() -> None:
            await self._client.patch(PODS, attempt.name, body, self._namespace)

        # If the API server refuses that, the pod goes all the same.
        await until_answered(write, lambda: attempt.exit is not None)

    async def _insist(self, attempt: PodAttempt) -> None:
        """Let the wrapper itself end a task whose grace period was shortened: kubelets wait for the first one."""
        for _ in range(_INSIST_TRIES):
            await asyncio.sleep(_INSIST_AFTER_S)
            if attempt.exit is not None or attempt.is_ending:
                return
            command = ("/bin/sh", "-c", "kill -USR1 1")
            with contextlib.suppress(KubeError):
                session = await self._client.exec(attempt.name, self._namespace, command, container=CONTAINER)
                async with session:
                    await session.collect()


def _no_result(call: partial[Coroutine[Any, Any, Any]]) -> Any:
    async def called() -> None:
        await call()

    return called

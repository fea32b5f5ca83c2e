"""Carries out what the scheduling says: waits for pods to be seen, blocks where configured, and binds.

Everything runs on one event loop, so decisions never overlap. Only what must wait for the network is awaited, outside
of decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, Protocol

import structlog

from openpai.extender.objects import Pod
from openpai.extender.scheduling import Answer, Blocked, Decided, Extender, Waiting
from openpai.protocol.errors import PaiError, Refused
from openpai.system.supervision import background

SEEN_WITHIN_S: Final = 2.0
"""How long a question about a pod waits for the pod to be seen. HiveD refuses at once, and kube-scheduler backs off."""
ASKED_WITHIN_S: Final = 2.0
"""How long after filter kube-scheduler asks about preemption, if it does."""
log: Final = structlog.get_logger(__name__)


class Binder(Protocol):
    """Writes to the API server."""

    async def bind(self, binding: dict[str, Any]) -> None:
        """Create a Binding at the API server; raise a PaiError if it refuses or does not answer."""
        ...

    async def delete(self, pod: Pod) -> None:
        """Delete this pod, and no later one of its name, with its grace period."""
        ...


class Service:
    """The extender of one cluster."""

    def __init__(self, extender: Extender, binder: Binder, now_ms: Callable[[], int], block_ms: int = 0) -> None:
        self.extender = extender
        self._binder = binder
        self._now_ms = now_ms
        self._block_ms = block_ms
        self._turn = asyncio.Lock()
        self._awaited: dict[str, asyncio.Event] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._unasked: set[str] = set()
        """Pods for which it will be looked whether kube-scheduler asked about preemption."""

    def see_pod(self, pod: Pod) -> None:
        """Record a live pod, and answer the questions that wait for it."""
        self.extender.see_pod(pod)
        if (event := self._awaited.get(pod.uid)) is not None:
            event.set()

    async def filter(self, uid: str, suggested: Collection[str]) -> Answer:
        """Return where a pod goes or why it waits. Binds it where kube-scheduler may not."""
        await self._seen(uid)
        async with self._turn:
            answer = self.extender.filter(uid, suggested, self._now_ms())
            if isinstance(answer, Decided) and answer.must_force:
                self._start("force bind", self._force(uid, answer.node))
            if isinstance(answer, Blocked) and uid not in self._unasked:
                self._unasked.add(uid)
                self._start("preempt", self._preempt_unasked(uid, suggested))
            if isinstance(answer, Waiting) and self._block_ms:
                # Keeps younger pods from being decided while this one is about to be asked about again.
                await asyncio.sleep(self._block_ms / 1000)
            return answer

    async def preempt(self, uid: str, suggested: Collection[str]) -> Blocked | Waiting:
        """Return which pods must leave for a pod."""
        await self._seen(uid)
        async with self._turn:
            return self.extender.preempt(uid, suggested, self._now_ms())

    async def bind(self, uid: str, node: str) -> None:
        """Bind a pod to the node that was decided. Does nothing if it is bound there already."""
        binding = self.extender.binding(uid, node)
        if binding is None:
            return
        try:
            await self._binder.bind(binding)
        except PaiError:
            record = self.extender.pods.get(uid)
            if record is None or record.pod.node != node:
                raise

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = background(name, work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _preempt_unasked(self, uid: str, suggested: Collection[str]) -> None:
        """Preempt for a pod, unless kube-scheduler asks about it in the same cycle in which it asked filter."""
        await asyncio.sleep(ASKED_WITHIN_S)
        self._unasked.discard(uid)
        async with self._turn:
            try:
                victims = self.extender.preempt_unasked(uid, suggested, self._now_ms())
            except Refused:
                return  # filter says why
        for pod in victims:
            try:
                await self._binder.delete(pod)
                log.info("preempted without kube-scheduler", pod=pod.key, preemptor=uid)
            except PaiError as error:
                log.warning("a pod cannot be preempted", pod=pod.key, reason=error.message)

    async def _force(self, uid: str, node: str) -> None:
        try:
            await self.bind(uid, node)
            log.info("bound without kube-scheduler", pod=uid, node=node)
        except PaiError as error:
            log.warning("a forced binding failed; kube-scheduler asks again", pod=uid, node=node, reason=error.message)

    async def _seen(self, uid: str) -> None:
        """Wait until a pod is known, for a short time at most."""
        if not uid:
            raise Refused("InvalidParametersError", "the pod has no uid", "send the pod as kube-scheduler does")
        if uid in self.extender.pods:
            return
        event = self._awaited.setdefault(uid, asyncio.Event())
        try:
            async with asyncio.timeout(SEEN_WITHIN_S):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._awaited.pop(uid, None)

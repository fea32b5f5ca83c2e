"""Carries out what the scheduling says: waits for pods to be seen, blocks where configured, and binds.

Everything runs on one event loop, so decisions never overlap. Only what must wait for the network is awaited, outside
of decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from itertools import islice, takewhile
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
WAKES_AFTER_S: Final = 1.0
"""How long after a change kube-scheduler may take to ask again about the pods that wait."""
WOKEN_AT_ONCE: Final = 50
log: Final = structlog.get_logger(__name__)


class Binder(Protocol):
    """Writes to the API server."""

    async def bind(self, binding: dict[str, Any]) -> None:
        """Create a Binding at the API server; raise a PaiError if it refuses or does not answer."""
        ...

    async def delete(self, pod: Pod) -> None:
        """Delete this pod, and no later one of its name, with its grace period."""
        ...

    async def wake(self, pod: Pod) -> None:
        """Have kube-scheduler ask about a waiting pod."""
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
        self._waiting: dict[str, int] = {}
        """The pods that were last answered to wait, each with the number of the answer, the oldest first."""
        self._answers = 0
        self._changed_after = 0
        """The number of the last answer before something changed that may let a pod run."""
        self._is_waking = False

    def see_pod(self, pod: Pod) -> None:
        """Record a live pod, and answer the questions that wait for it."""
        self.extender.see_pod(pod)
        if (event := self._awaited.get(pod.uid)) is not None:
            event.set()

    def lose_pod(self, uid: str) -> None:
        """Record that a pod is over or gone."""
        has_cells = (record := self.extender.pods.get(uid)) is not None and record.member is not None
        self._waiting.pop(uid, None)
        self.extender.lose_pod(uid)
        if has_cells:
            self.changed()

    def see_nodes(self, nodes: Mapping[str, bool | None]) -> None:
        """Record which nodes are healthy; None for one that is gone."""
        before = self.extender.healthy_nodes
        self.extender.see_nodes(nodes)
        if not self.extender.healthy_nodes <= before:
            self.changed()

    def changed(self) -> None:
        """Have waiting pods asked about again that kube-scheduler asked about before a change could be seen here.

        It asks when it sees the change itself, which may be earlier, and otherwise only minutes later.
        """
        self._changed_after = self._answers
        if self._waiting and not self._is_waking:
            self._is_waking = True
            self._start("wake waiting pods", self._wake())

    async def _wake(self) -> None:
        try:
            while True:
                await asyncio.sleep(WAKES_AFTER_S)
                late = takewhile(lambda waiting: waiting[1] <= self._changed_after, self._waiting.items())
                uids = [uid for uid, _ in islice(late, WOKEN_AT_ONCE)]
                if not uids:
                    return
                for uid in uids:
                    # Woken once for each answer: if it is asked about, it is listed again.
                    self._waiting.pop(uid, None)
                    if (record := self.extender.pods.get(uid)) is not None and not record.pod.node:
                        await self._wake_pod(record.pod)
        finally:
            self._is_waking = False

    async def _wake_pod(self, pod: Pod) -> None:
        try:
            await self._binder.wake(pod)
        except PaiError as error:
            log.warning("kube-scheduler cannot be made to ask about a pod again", pod=pod.key, reason=error.message)

    async def filter(self, uid: str, suggested: Collection[str]) -> Answer:
        """Return where a pod goes or why it waits. Binds it where kube-scheduler may not."""
        await self._seen(uid)
        async with self._turn:
            self._waiting.pop(uid, None)
            answer = self.extender.filter(uid, suggested, self._now_ms())
            self._answers += 1
            if not isinstance(answer, Decided):
                self._waiting[uid] = self._answers
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

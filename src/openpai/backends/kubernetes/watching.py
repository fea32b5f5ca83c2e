"""Keeps the register in line with the pods that the API server shows.

Every change of a pod arrives from a cache that survives lost connections. A pod counts as an attempt's only under our
seal, and only the one with the UID that was seen first. Beside the changes, a pass looks every second at what makes no
event: pods that do not start, nodes that do not answer, and pods that stay although they were deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from heapq import nsmallest
from sys import intern
from typing import Final, Protocol

import structlog

from openpai.backends.host.register import KILLED_BEFORE_START
from openpai.backends.kubernetes.attempts import PodAttempt, PodRegister
from openpai.backends.kubernetes.log_shipping import LogShipper
from openpai.backends.kubernetes.memory import Grants
from openpai.backends.kubernetes.names import SCOPE_LABEL
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.backends.kubernetes.starting import EVENTS_AFTER_S, changes_after_s, progress
from openpai.backends.kubernetes.verdicts import is_deleted_while_running, lost, started_at_ms, verdict
from openpai.kube.changes import Change
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import EVENTS
from openpai.kube.objects.pods import Pod
from openpai.kube.objects.rest import Event
from openpai.kube.reflector import Reflector
from openpai.lifecycle.diagnosis import needs_log
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import TaskStep
from openpai.ports.clock import Clock
from openpai.system.pauses import let_others_go_first
from openpai.system.supervision import Background

log: Final = structlog.get_logger(__name__)
LOOK_EVERY_S: Final = 1.0
_EVENTS_EVERY_S: Final = 4.0
_EVENTS_AT_ONCE: Final = 8
_EVENTS_WHEN_BUSY: Final = 1
"""A request for events costs the API server as much as half a pod."""
_LOOKS_PER_TURN: Final = 200
LOG_PATIENCE_S: Final = 10.0
"""How long the end of a task waits for the end of its log."""
STUCK_S: Final = 30.0
"""How much longer than its grace period a deleted pod may take before that is an event."""


class NodeStates(Protocol):
    """What is known of the nodes that tasks run on."""

    def silent(self) -> Collection[str]:
        """Return the nodes that do not answer."""
        ...

    def silence(self, node: str) -> str:
        """Return since when a silent node has not answered, in words."""
        ...

    def is_certainly_gone(self, node: str) -> bool:
        """Return whether nothing can run on a node any more: it was removed, or taken out of service."""
        ...

    def is_given_up(self, node: str) -> bool:
        """Return whether a silent node was waited for long enough."""
        ...


class Watcher:
    """Looks at pods and records what became of attempts."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        register: PodRegister,
        seals: Seals,
        grants: Grants,
        nodes: NodeStates,
        clock: Clock,
        *,
        logs: LogShipper | None,
        removes: Callable[[Pod], None],
        shows_devices: Callable[[PodAttempt, Pod], None],
        is_busy: Callable[[], bool],
    ) -> None:
        """`removes` deletes a pod of ours that no attempt waits for.

        `shows_devices` is called with a pod whose task has begun. `is_busy` returns whether pods wait to be created.
        """
        self._client = client
        self._namespace = namespace
        self._register = register
        self._seals = seals
        self._grants = grants
        self._nodes = nodes
        self._clock = clock
        self._logs = logs
        self._removes = removes
        self._shows_devices = shows_devices
        self._is_busy = is_busy
        self._ending = Background()
        self._pods: Reflector[Pod] | None = None
        self._events: dict[str, tuple[float, Event | None]] = {}
        self._strange: set[str] = set()
        self._leaving: set[str] = set()
        """The UIDs of pods that are being removed: old news of them may arrive after they are gone."""

    def is_ours(self, pod: Pod) -> bool:
        """Return whether this platform made a pod."""
        attempt = self._register.named(pod.name)
        if attempt is not None and attempt.uid == pod.uid:
            return True
        return pod.metadata.label(SCOPE_LABEL) == self._seals.scope and self._seals.identity(pod) is not None

    def adopt_all(self, pods: Reflector[Pod]) -> list[tuple[PodAttempt, Pod]]:
        """Adopt the pods that earlier servers left, and return them with their attempts; `changed` looks at each."""
        self._pods = pods
        found = [(self._adopted(pod), pod) for pod in pods if self._has_scope(pod)]
        return [(attempt, pod) for attempt, pod in found if attempt is not None]

    def changed(self, change: Change[Pod]) -> None:
        """Record what follows from a change of a pod."""
        pod = change.last
        if not self._has_scope(pod):
            return
        try:
            attempt = self._register.named(pod.name)
            if change.is_deletion:
                self._gone(attempt, pod)
            elif attempt is not None:
                self.look(attempt, pod)
            elif not self._register.is_leaving(pod.name):
                attempt = None if pod.uid in self._leaving else self._adopted(pod)
                if attempt is not None:
                    self.look(attempt, pod)
        except Exception:
            # One strange pod must not leave all the others unwatched.
            log.exception("a pod could not be checked", pod=pod.name)

    def look(self, attempt: PodAttempt, pod: Pod, known: Identity | None = None) -> None:
        """Record whether an attempt has begun or ended. `known` is what the pod is, if its seal need not be opened."""
        if not self._is_of(attempt, pod, known):
            return
        attempt.is_deleted = attempt.is_deleted or pod.is_deleting
        if attempt.exit is not None:
            if not attempt.is_fence and not pod.has_ended and not pod.is_deleting:
                self._removes(pod)
            return
        if attempt.is_fence:
            identity = self._seals.identity(pod)
            fence = identity.fence if identity is not None else None
            self._register.end(attempt, fence or KILLED_BEFORE_START)
            return
        if known is not None and not pod.is_deleting:
            # It was created a moment ago, and what its node makes of it comes as a change.
            return
        began = started_at_ms(pod)
        if began is not None:
            self._shows_devices(attempt, pod)
        if began is not None and self._logs is not None:
            self._logs.ship(attempt.key, attempt.name)
        report = self._end_of(attempt, pod)
        if report is not None:
            attempt.started_at_ms = attempt.started_at_ms or began
            self._end(attempt, report)
        elif began is not None and attempt.started_at_ms is None:
            self._events.pop(attempt.name, None)
            self._register.started(attempt, began)
        elif began is None:
            self._explain_start(attempt, pod)

    async def look_forever(self) -> None:
        """Look periodically at what changes without an event."""
        slow: list[PodAttempt] = []
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            pods = self._pods
            # While the API server is away, what is known is old.
            if pods is None or pods.trouble is not None:
                continue
            await self._read_events(slow)
            slow = []
            silent = self._nodes.silent()
            # Thousands of attempts share some hundred nodes, and must not keep the loop from everything else.
            gone: dict[str, bool] = {"": False}
            now_s = asyncio.get_running_loop().time()
            for number, attempt in enumerate(self._register, start=1):
                if number % _LOOKS_PER_TURN == 0:
                    await let_others_go_first()
                if attempt.exit is not None or not attempt.uid or attempt.is_fence:
                    continue
                if attempt.is_starting and now_s - attempt.waits_since_s > EVENTS_AFTER_S:
                    slow.append(attempt)
                if attempt.node not in gone:
                    gone[attempt.node] = self._nodes.is_certainly_gone(attempt.node)
                # Each change of a pod is looked at as it comes.
                is_settled = attempt.started_at_ms is not None or now_s < attempt.look_at_s
                is_quiet = is_settled and not attempt.is_silent and not attempt.is_deleted
                if not is_quiet or gone[attempt.node] or attempt.node in silent:
                    pod = pods.get(attempt.name, self._namespace)
                    if pod is not None and pod.uid == attempt.uid:
                        self._look_again(attempt, pod, is_silent=attempt.node in silent, is_gone=gone[attempt.node])

    def _look_again(self, attempt: PodAttempt, pod: Pod, *, is_silent: bool, is_gone: bool) -> None:
        if attempt.started_at_ms is None:
            self.look(attempt, pod)
        if attempt.exit is not None or not attempt.node:
            return
        if is_gone:
            gone = f"its node {attempt.node} was removed from the cluster or taken out of service"
            self._register.end(attempt, lost(gone, ExitReason.NODE_LOST))
        elif is_silent and not attempt.is_unique and self._nodes.is_given_up(attempt.node):
            message = f"its node {attempt.node} does not answer: {self._nodes.silence(attempt.node)}"
            self._register.end(attempt, lost(message, ExitReason.NODE_LOST))
        elif is_silent is not attempt.is_silent:
            attempt.is_silent = is_silent
            attempt.look_at_s = 0.0
            step = TaskStep.NODE_SILENT if is_silent else TaskStep.NONE
            self._register.progressed(attempt, _waits_for(attempt.node) if is_silent else "", step)
        elif pod.metadata.deletion_timestamp is not None and not is_silent and not attempt.is_stuck:
            late_s = self._clock.now_ms() / 1000 - pod.metadata.deletion_timestamp.timestamp()
            if late_s > STUCK_S:
                attempt.is_stuck = True
                message = f"its pod {pod.name} was to be gone, and node {attempt.node} has not reported its end"
                self._register.progressed(attempt, message, TaskStep.STUCK_TERMINATING)

    def _is_of(self, attempt: PodAttempt, pod: Pod, known: Identity | None = None) -> bool:
        """Return whether a pod is the attempt's; the first under our seal is."""
        if attempt.uid:
            return attempt.uid == pod.uid
        identity = known or self._identity(pod)
        if identity is None or identity.key != attempt.key:
            return False
        self._take(attempt, pod, identity)
        return True

    def removes_pod(self, uid: str) -> None:
        """Adopt no more what is heard of a pod that is being removed."""
        self._leaving.add(uid)

    def _has_scope(self, pod: Pod) -> bool:
        return pod.namespace == self._namespace and pod.metadata.label(SCOPE_LABEL) == self._seals.scope

    def _adopted(self, pod: Pod) -> PodAttempt | None:
        """Register a pod as an attempt; None if it is none that is unknown."""
        try:
            identity = self._identity(pod)
            if identity is None or identity.key in self._register:
                return None
            attempt = PodAttempt(identity.key, pod.name, identity.grant, identity.devices)
            self._take(attempt, pod, identity)
        except Exception:
            # As in `changed`.
            log.exception("a pod could not be checked", pod=pod.name)
            return None
        self._register.add(attempt)
        return attempt

    def _take(self, attempt: PodAttempt, pod: Pod, identity: Identity) -> None:
        attempt.uid, attempt.node, attempt.is_fence = intern(pod.uid), identity.node, identity.fence is not None
        attempt.is_unique = identity.is_unique
        if pod.is_deleting and attempt.cut_off is None:
            # An earlier server deleted it, and wrote why. A pod that is not deleted yet is looked at as any other.
            attempt.cut_off = self._seals.cut_off_of(pod)
        attempt.waits_since_s = asyncio.get_running_loop().time()
        self._grants.heard(identity)

    def _identity(self, pod: Pod) -> Identity | None:
        identity = self._seals.identity(pod)
        if identity is None and pod.uid not in self._strange:
            self._strange.add(pod.uid)
            log.warning("a pod has this platform's label and not its seal, and is not believed", pod=pod.name)
        return identity

    def _end_of(self, attempt: PodAttempt, pod: Pod) -> ExitReport | None:
        was_killed = attempt.kill_requested.is_set()
        attempt.was_cut_short = attempt.was_cut_short or is_deleted_while_running(pod)
        report = verdict(pod, was_killed=was_killed, was_cut_short=attempt.was_cut_short)
        if report is None and pod.is_deleting and not pod.spec.node_name:
            # No node has it, and none will get it.
            report = KILLED_BEFORE_START if was_killed else lost("its pod was deleted before it ran")
        return attempt.cut_off if report is not None and attempt.cut_off is not None else report

    def _end(self, attempt: PodAttempt, report: ExitReport) -> None:
        """Record the end of an attempt; where the log shows why it failed, once the log is here."""
        if self._logs is None or attempt.started_at_ms is None:
            self._register.end(attempt, report)
        elif not attempt.is_ending:
            attempt.is_ending = True
            self._logs.ended(attempt.key)
            if not needs_log(report):
                self._register.end(attempt, report)
                return
            self._ending.start("end of a pod", self._end_with_log(self._logs, attempt, report))

    async def _end_with_log(self, logs: LogShipper, attempt: PodAttempt, report: ExitReport) -> None:
        if not await logs.finished(attempt.key, LOG_PATIENCE_S):
            log.warning("the log of a task is not complete", pod=attempt.name)
        self._register.end(attempt, report)

    async def close(self) -> None:
        """Stop what is under way."""
        await self._ending.close()

    def _gone(self, attempt: PodAttempt | None, pod: Pod) -> None:
        """Record that a pod is gone, although it was not to go before its end was recorded."""
        self._events.pop(pod.name, None)
        self._strange.discard(pod.uid)
        self._leaving.discard(pod.uid)
        if attempt is None or attempt.uid != pod.uid or attempt.exit is not None:
            return
        attempt.started_at_ms = attempt.started_at_ms or started_at_ms(pod)
        report = self._end_of(attempt, pod) or attempt.cut_off
        if report is None and attempt.kill_requested.is_set():
            report = KILLED_BEFORE_START if attempt.started_at_ms is None else ExitReport(137, message="killed")
        self._register.end(attempt, report or lost("its pod was removed from the cluster by force"))

    def _explain_start(self, attempt: PodAttempt, pod: Pod) -> None:
        waited_s = asyncio.get_running_loop().time() - attempt.waits_since_s
        if attempt.cut_off is not None or pod.is_deleting or attempt.is_silent:
            return
        attempt.look_at_s = attempt.waits_since_s + changes_after_s(waited_s)
        _, event = self._events.get(attempt.name, (0.0, None))
        found = progress(pod, waited_s, event)
        if found.exit is not None:
            attempt.cut_off = replace(found.exit, ended_at_ms=self._clock.now_ms())
            self._register.give_up(attempt)
        elif (found.message, found.step) != (attempt.message, attempt.step):
            self._register.progressed(attempt, found.message, found.step)

    async def _read_events(self, starting: Sequence[PodAttempt]) -> None:
        """Read the events of some of the pods that have been starting for long."""
        now_s = asyncio.get_running_loop().time()
        slow = [
            attempt
            for attempt in starting
            if attempt.is_starting and now_s - self._events.get(attempt.name, (0.0, None))[0] > _EVENTS_EVERY_S
        ]
        at_once = _EVENTS_WHEN_BUSY if self._is_busy() else _EVENTS_AT_ONCE
        longest_ago = nsmallest(at_once, slow, key=lambda attempt: self._events.get(attempt.name, (0.0, None))[0])
        await asyncio.gather(*(self._read_event(attempt) for attempt in longest_ago))

    async def _read_event(self, attempt: PodAttempt) -> None:
        _, before = self._events.get(attempt.name, (0.0, None))
        try:
            found = await self._client.list(EVENTS, self._namespace, fields=f"involvedObject.uid={attempt.uid}")
        except KubeError:
            found = []
        self._events[attempt.name] = (asyncio.get_running_loop().time(), max(found, key=_when, default=before))
        attempt.look_at_s = 0.0


def _when(event: Event) -> float:
    at = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    return at.timestamp() if at is not None else 0.0


def _waits_for(node: str) -> str:
    advice = f"kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    return f"its node {node} does not answer, and the task may still run there; if the node is off: {advice}"

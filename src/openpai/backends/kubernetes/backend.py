"""Runs task attempts as pods of a Kubernetes cluster.

An attempt is a pod with a name of its own, created on the node that the scheduler chose. The API server holds the
state: a pod stays, under a finalizer, until its end is recorded, so an attempt is neither lost nor run twice, whatever
dies in between. What a pod claims to be counts only under the platform's seal.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from sys import intern
from typing import Any, Final

import structlog

from openpai.backends.host.shells import RunsShells
from openpai.backends.kubernetes.admission import AdmitsByKueue, KueueAdmission, remove_workloads
from openpai.backends.kubernetes.attempts import PodAttempt, PodRegister
from openpai.backends.kubernetes.cached_pods import PodKeeper
from openpai.backends.kubernetes.claiming import Claims, waits_for_binding
from openpai.backends.kubernetes.cluster import Cluster
from openpai.backends.kubernetes.deleting import Deletions
from openpai.backends.kubernetes.epochs import announce
from openpai.backends.kubernetes.fetching import WorkFetcher
from openpai.backends.kubernetes.launching import Launcher, Shared
from openpai.backends.kubernetes.leftovers import Leftovers
from openpai.backends.kubernetes.log_shipping import LogShipper
from openpai.backends.kubernetes.measuring import PodMeasuring
from openpai.backends.kubernetes.memory import Grants, Memory
from openpai.backends.kubernetes.names import NodeNames, pod_name
from openpai.backends.kubernetes.nodes import NodeTable
from openpai.backends.kubernetes.options import KubernetesOptions
from openpai.backends.kubernetes.pods import CONTAINER, PORTS_MAX
from openpai.backends.kubernetes.received import ReceivedDevices
from openpai.backends.kubernetes.removing import Removals
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.backends.kubernetes.shells import PodShells
from openpai.backends.kubernetes.tainting import Taints
from openpai.backends.kubernetes.watching import Watcher
from openpai.backends.kubernetes.writes import CREATING, ENDING, Writes
from openpai.kube.changes import Change
from openpai.kube.client import KubeClient
from openpai.kube.config import ClusterAccess
from openpai.kube.errors import KubeError
from openpai.kube.objects.devices import ResourceClaim
from openpai.kube.objects.kinds import PODS
from openpai.kube.objects.pods import Pod
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Action, LaunchTask, NodeSeen, TaskSeen
from openpai.ports.clock import Clock
from openpai.ports.task_usage import TaskSample
from openpai.protocol.errors import Unavailable
from openpai.runtime.inspecting import ProcessSummary
from openpai.system.pauses import Precedence
from openpai.system.supervision import ended, supervise

log: Final = structlog.get_logger(__name__)
_SAVE_EVERY_S: Final = 5.0
_ACTIONS_PER_TURN: Final = 32
_OPEN_PATIENCE_S: Final = 60.0
_PRECEDENCE_S: Final = 0.05
"""How long what can wait gives way to a decision: as long as a decision takes at the worst."""


class KubernetesBackend(RunsShells[PodAttempt], AdmitsByKueue):
    """The backend whose tasks are pods."""

    _register: PodRegister

    def __init__(
        self,
        access: ClusterAccess,
        secret: bytes,
        clock: Clock,
        options: KubernetesOptions | None = None,
        logs_root: Path | None = None,
        kept_root: Path | None = None,
    ) -> None:
        """`secret` is the platform's own: servers with the same one share their tasks. None: logs are not shipped.

        What tasks leave is fetched into `kept_root`, if the options say so.
        """
        self._logs_root = logs_root
        self._kept_root = kept_root
        self._access = access
        self._clock = clock
        self._options = options or KubernetesOptions()
        self._namespace = self._options.namespace or access.namespace
        self._seals = Seals(secret, self._namespace)
        self._precedence = Precedence(_PRECEDENCE_S)
        self._creating = Writes("create pods", CREATING, self._precedence)
        self._ending = Writes("end pods", ENDING)
        self._grants = Grants()
        self._logs: LogShipper | None = None
        self._fetcher: WorkFetcher | None = None
        self._taints: Taints | None = None
        self._opened = contextlib.AsyncExitStack()
        self._epoch = 0

    async def reach(self) -> None:
        """Raise Unavailable if the cluster does not answer, or refuses this platform."""
        async with KubeClient(self._access) as client:
            try:
                async with asyncio.timeout(_OPEN_PATIENCE_S):
                    await client.list(PODS, self._namespace, labels="openpai/none")
            except (KubeError, TimeoutError) as error:
                raise self._unavailable(error) from error

    def lead_in(self, epoch: int) -> None:
        """Act as the leader of this epoch from the next `open` on."""
        self._epoch = epoch

    async def open(self) -> None:
        """Adopt what an earlier server left. Raise Unavailable if the API server does not answer."""
        async with contextlib.AsyncExitStack() as opening:
            self._client = await opening.enter_async_context(KubeClient(self._access))
            self._shells = PodShells(self._client, self._namespace, is_on_host_network=self._options.pods.host_network)
            opening.push_async_callback(self._shells.close)
            self._register = PodRegister(self, self._grants, NodeNames(), self._clock)
            self._memory = Memory(self._client, self._namespace, self._seals, self._grants)
            try:
                async with asyncio.timeout(_OPEN_PATIENCE_S):
                    await announce(self._client, self._namespace, self._seals.scope, self._epoch)
                    await self._memory.load()
                    self._cluster = self._make_cluster()
                    opening.push_async_callback(self._cluster.close)
                    await self._cluster.open()
                    # What an earlier server was about to do: it writes a pod's grant, and then the pod goes. Read again
                    # after the pods, a grant is found in one place or the other.
                    await self._memory.load()
            except (KubeError, TimeoutError) as error:
                raise self._unavailable(error) from error
            if (rules := self._cluster.taint_rules) is not None:
                self._taints = Taints(self._client, rules, self._namespace, self._seals.scope, self._epoch)
            if self._logs_root is not None:
                self._logs = LogShipper(self._pod_log, self._logs_root, precedence=self._precedence)
                opening.push_async_callback(self._logs.close)
            self._deletions = Deletions(self._client, self._seals, self._namespace, self._ending)
            opening.push_async_callback(self._deletions.close)
            self._received = ReceivedDevices(self._client, self._namespace, self._cluster.table)
            opening.push_async_callback(self._received.close)
            if self._kept_root is not None and (fetch_mb := self._options.pods.fetch_mb_max):
                self._fetcher = WorkFetcher(
                    self._client, self._namespace, self._kept_root, fetch_mb << 20, self._register.progressed
                )
                await self._fetcher.open()
                opening.push_async_callback(self._fetcher.close)
            self._measuring = PodMeasuring(self._client, self._namespace, self._clock, self._options.pods)
            opening.push_async_callback(self._measuring.close)
            self._watcher = self._make_watcher()
            opening.push_async_callback(self._watcher.close)
            self._launcher = self._make_launcher()
            opening.push_async_callback(self._launcher.close)
            leftovers = Leftovers(
                self._client, self._namespace, self._seals.scope, self._register, self._launcher, self._cluster
            )
            self._removals = Removals(
                self._register, self._logs, self._memory, self._deletions, self._claims, leftovers, self._precedence
            )
            self._adopt()
            if self._options.has_queues:
                admission = KueueAdmission(
                    self._client, self._namespace, self._seals.scope, self._clock,
                    tolerations=self._options.pods.tolerations, gpu_resource=self._cluster.table.gpu_resource,
                )  # fmt: skip
                self._admission = await opening.enter_async_context(admission)
            else:
                remove = partial(remove_workloads, self._client, self._namespace, self._seals.scope)
                opening.push_async_callback(ended, supervise("remove Workloads of an earlier start", remove))
            for name, loop in (
                ("look at pods", self._watcher.look_forever),
                ("save what is known of nodes", self._save_forever),
            ):
                opening.push_async_callback(ended, supervise(name, loop))
            for writes in (self._creating, self._ending):
                opening.push_async_callback(writes.close)
            opening.callback(self._register.close)
            opening.push_async_callback(self._removals.close)
            self._opened = opening.pop_all()

    async def close(self) -> None:
        """Release everything except the tasks."""
        await self._opened.aclose()

    async def nodes(self) -> tuple[NodeSeen, ...]:
        """Return the nodes; none takes tasks while the API server does not answer."""
        seen = await self._cluster.seen()
        trouble = self._cluster.trouble
        if not trouble:
            return seen
        return tuple(replace(node, is_healthy=False, message=trouble) for node in seen)

    def note_growth(self, grown: set[AttemptKey]) -> None:
        """Add the attempts whose logs here grow from now on, until `close`."""
        if self._logs is not None:
            self._logs.note_growth(grown)

    async def mark_bad(self, bad: Mapping[str, Mapping[int, str]]) -> None:
        """Keep pods of others away from these devices of drivers, where the cluster has rules for that."""
        if self._taints is None:
            return
        await self._taints.sync(self._cluster.table.named(bad))

    async def apply(self, actions: Sequence[Action]) -> None:
        """Begin to carry out `actions`; an action that fails is reported as news."""
        for number, action in enumerate(actions, start=1):
            self._register.apply(action, self._start)
            attempt = self._register.get(action.key)
            if attempt is not None and attempt.is_starting:
                # The register stops what runs, and this pod may take long to.
                self._register.stop_if_requested(attempt)
            if number % _ACTIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        self._precedence.release()

    async def observe(self, among: Collection[AttemptKey] | None = None) -> tuple[TaskSeen, ...]:
        """Return every attempt that starts, runs, or is not forgotten."""
        return await self._register.observe(among)

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait for attempts that began or ended and return them as they are now."""
        seen = await self._register.news()
        if any(task.exit is not None for task in seen):
            # What they had is given to others next: no creation, removal or log comes before that.
            self._precedence.claim()
        return seen

    async def measure(self) -> tuple[TaskSample, ...]:
        """Return the newest sample of every running task attempt; one that cannot be measured now is left out."""
        return await self._measuring.measure(self._register)

    def measure_first(self, jobs: Collection[str]) -> None:
        """Measure the tasks of these jobs before those of others, where not all can be measured at once."""
        self._measuring.measure_first(jobs)

    async def keep_stacks(self, keys: Sequence[AttemptKey]) -> Mapping[AttemptKey, ProcessSummary]:
        """Write what the processes of these tasks do to their runtime logs; return it of each in a few words."""
        return await self._measuring.keep_stacks([self._register.get(key) for key in keys], self._logs)

    # The methods of `Runner`.

    def new_attempt(self, key: AttemptKey, grant: int = 0, devices: tuple[int, ...] = ()) -> PodAttempt:
        """Return the record of a new attempt."""
        return PodAttempt(key, intern(pod_name(self._seals.scope, key)), grant, devices)

    def reason_to_refuse(self, launch: LaunchTask) -> ExitReport | None:
        """Return a report if the node is gone, or no pod can give the task what it asks for."""
        if not self._cluster.has(launch.node):
            message = f"node {launch.node} was removed from the cluster before the task could start"
            return ExitReport(1, ExitReason.NODE_LOST, message)
        options = self._options.pods
        if launch.infiniband and not options.infiniband:
            message = "the job asks for InfiniBand, which needs the server's option --allow-infiniband"
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, message)
        if len(launch.ports) > PORTS_MAX and not options.host_network:
            message = f"a task asks for {len(launch.ports)} ports, and a pod may have at most {PORTS_MAX} of its node"
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, message)
        return None

    def fence(self, attempt: PodAttempt, report: ExitReport) -> None:
        """Take the attempt's name, so that no delayed launch can begin it, then record its end."""
        self._ending.add(partial(self._launcher.fence, attempt, report))

    def terminate(self, attempt: PodAttempt) -> None:
        """Delete the pod; its node sends SIGTERM, and SIGKILL after the grace period."""
        self._deletions.end(attempt, attempt.grace_s, noticed_at_ms=self._clock.now_ms())
        if self._fetcher is not None and attempt.started_at_ms is not None:
            # The node may not look any more whether a pod that is deleted is ready.
            self._fetcher.fetch(attempt, patience_s=attempt.grace_s)

    def destroy(self, attempt: PodAttempt) -> None:
        """Delete the pod with the shortest grace period."""
        self._deletions.end(attempt, 0.0)

    def ended(self, attempt: PodAttempt, report: ExitReport) -> None:
        """Keep nothing: the pod shows how it ended until it is removed. What went with it is reported."""
        if self._fetcher is not None:
            self._fetcher.ended(attempt, report)
        self._cluster.table.hold(attempt.node, attempt.uid, ())
        self._received.forget(attempt)

    def remove(self, attempt: PodAttempt) -> None:
        """Remove the pod of a forgotten attempt, and with the last one of a job attempt what its pods shared."""
        if attempt.uid:
            self._watcher.removes_pod(attempt.uid)
        self._removals.remove(attempt)

    # Work in the background.

    def _start(self, attempt: PodAttempt, action: LaunchTask) -> None:
        attempt.node = action.node
        self._launcher.expect(action)
        self._creating.add(partial(self._launcher.launch, attempt, action))

    def _found(self, attempt: PodAttempt, pod: Pod, known: Identity | None) -> None:
        self._watcher.look(attempt, pod, known)
        if attempt.exit is None and attempt.devices:
            self._cluster.table.hold(attempt.node, attempt.uid, attempt.devices)

    def _began(self, attempt: PodAttempt, pod: Pod) -> None:
        self._received.look(attempt, pod)
        if self._fetcher is not None:
            self._fetcher.look(attempt, pod)

    def _adopt(self) -> None:
        """Go on with the pods that an earlier server left."""
        adopted = self._watcher.adopt_all(self._cluster.pods)
        # What pods take of their nodes comes first: a look at a pod works out its node, once for all of its pods.
        for attempt, _ in adopted:
            self._cluster.table.hold(attempt.node, attempt.uid, attempt.devices)
        self._cluster.follow_pods()
        with self._logs.adopting() if self._logs is not None else contextlib.nullcontext():
            for _, pod in adopted:
                self._watcher.changed(Change(None, pod, pod))
        for attempt, pod in adopted:
            if attempt.exit is None and attempt.devices and not attempt.is_fence and waits_for_binding(pod):
                self._creating.add(partial(self._launcher.resume, attempt, pod))

    async def _save_forever(self) -> None:
        while True:
            await asyncio.sleep(_SAVE_EVERY_S)
            self._launcher.rest(is_busy=self._creating.is_busy)
            self._removals.sweep_if_due()
            await self._memory.save_if_due(self._cluster.table.unsaved(), is_busy=self._creating.has_waiting)

    # Parts.

    def _make_cluster(self) -> Cluster:
        table = NodeTable(self._is_ours, self._options.nodes, self._options.devices, self._memory.devices)
        return Cluster(
            self._client, table, keeper=PodKeeper(self._namespace, self._seals.scope), changed=self._pod_changed,
            gives_up_after_s=self._options.gives_up_after_s,
        )  # fmt: skip

    def _make_watcher(self) -> Watcher:
        return Watcher(
            self._client, self._namespace, self._register, self._seals, self._grants, self._cluster, self._clock,
            logs=self._logs, removes=self._deletions.end_stranger, shows_devices=self._began,
            is_busy=lambda: self._creating.has_waiting,
        )  # fmt: skip

    def _make_launcher(self) -> Launcher:
        self._claims = Claims(
            self._client, self._namespace, self._seals.scope, self._options.devices.classes, self._cluster.claims
        )
        shared = Shared(
            self._client, self._namespace, replace(self._options.pods, epoch=self._epoch), self._seals,
            self._cluster.request, self._claims, self._cluster.drivers,
        )  # fmt: skip
        return Launcher(shared, self._register, self._found, self._creating.aside)

    def _pod_log(
        self, pod: str, *, follow: bool, since: datetime | None, limit_bytes: int | None = None
    ) -> AsyncGenerator[bytes]:
        return self._client.logs(
            pod, self._namespace, container=CONTAINER, follow=follow, since=since, timestamps=True,
            limit_bytes=limit_bytes,
        )  # fmt: skip

    def _pod_changed(self, change: Any) -> None:
        self._watcher.changed(change)

    def _is_ours(self, found: Pod | ResourceClaim) -> bool:
        if found.namespace != self._namespace:
            return False
        if isinstance(found, Pod):
            attempt = self._register.named(found.name)
            if attempt is not None and attempt.uid == found.uid:
                return True
            return self._seals.identity(found) is not None
        if self._register.named(found.name) is not None:
            return True
        pod = self._cluster.pods.get(found.name, self._namespace)
        return pod is not None and self._seals.identity(pod) is not None

    def _unavailable(self, error: Exception) -> Unavailable:
        message = error.message if isinstance(error, KubeError) else "it does not answer"
        advice = "check --kubeconfig and --kube-context, or ask `kubectl get pods` with them"
        if isinstance(error, KubeError) and error.is_missing:
            advice = f"kubectl create namespace {self._namespace}, or name another one with --kube-namespace"
        elif isinstance(error, KubeError) and error.http == 403:
            advice = f"`pai cluster check --kube-namespace {self._namespace}` says what is missing"
        return Unavailable(f"the Kubernetes cluster at {self._access.server} cannot be used: {message}", advice)

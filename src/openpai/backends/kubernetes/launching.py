"""Creates the pod of a task attempt with what it needs, or a fence in its place.

Every step may be repeated after a server died in the middle, and after an answer that got lost: names follow from the
attempt and from the content, so what is there already is recognised.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from openpai.backends.host.register import KILLED_BEFORE_START
from openpai.backends.kubernetes.attempts import PodAttempt, PodRegister
from openpai.backends.kubernetes.bundles import Bundle, Bundles
from openpai.backends.kubernetes.claiming import Claims
from openpai.backends.kubernetes.devices import DeviceRequest
from openpai.backends.kubernetes.pod_bodies import PodBodies, PodBody
from openpai.backends.kubernetes.pods import Parts, PodOptions, fence_pod, variables_of_job
from openpai.backends.kubernetes.preparing import Preparer
from openpai.backends.kubernetes.refusals import refusal_of
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.backends.kubernetes.volumes import PodVolumes, pod_volumes
from openpai.backends.kubernetes.writes import until_answered
from openpai.kube.client import KubeClient
from openpai.kube.connection import backoff_s
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import PODS
from openpai.kube.objects.pods import Pod
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import LaunchTask
from openpai.protocol.errors import PaiError

log: Final = structlog.get_logger(__name__)
_QUOTA_PAUSE_MAX_S: Final = 30.0
_NOT_READ: Final = 415
_NO_VOLUMES: Final = PodVolumes()


@dataclass(frozen=True, slots=True)
class Shared:
    """What the launches of this backend have in common."""

    client: KubeClient
    namespace: str
    options: PodOptions
    seals: Seals
    request: Callable[[str, tuple[int, ...]], DeviceRequest]
    """Returns what a pod needs for devices of a node; raises LookupError if one is not there now."""
    claims: Claims
    drivers: Callable[[], Collection[str]]
    """Returns the CSI drivers of the cluster."""


class Launcher:
    """Creates pods."""

    def __init__(
        self,
        shared: Shared,
        register: PodRegister,
        found: Callable[[PodAttempt, Pod, Identity | None], None],
        aside: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`found` is called with the pod of an attempt once it exists, and with what it is if that is certain.

        `aside` lets others go first.
        """
        self._aside = aside
        self._shared = shared
        self._register = register
        self._found = found
        of_job = partial(variables_of_job, options=shared.options)
        self._bundles = Bundles(shared.seals.scope, shared.seals.fingerprint, of_job)
        self._bodies = PodBodies(shared.options, shared.seals)
        self._preparer = Preparer(shared.client, shared.namespace, shared.seals.scope, self._referred)

    async def close(self) -> None:
        """Stop what is under way beside the launches."""
        await self._preparer.close()

    def expect(self, action: LaunchTask) -> None:
        """Prepare for a launch that waits for its turn."""
        self._preparer.expect(action)

    def rest(self, *, is_busy: bool) -> None:
        """Keep nothing that only launches need, unless some wait for their turn or are under way."""
        if not is_busy:
            self._bundles.clear()
            self._bodies.clear()

    def forget(self, name: str) -> None:
        """Note that an object that pods share is being removed."""
        self._preparer.forget(name)

    async def launch(self, attempt: PodAttempt, action: LaunchTask) -> None:
        """Create the pod of an attempt, or end the attempt."""
        self._preparer.begins(action)
        try:
            report = await self._launch(attempt, action)
        except Exception as error:
            if not isinstance(error, PaiError):
                log.exception("a launch failed for an unforeseen reason", attempt=action.key.path())
            report = ExitReport(1, ExitReason.LAUNCH_FAILED, f"its pod could not be created: {_text(error)}")
        if report is not None:
            await self.fence(attempt, report, action.node, action.image)

    async def fence(self, attempt: PodAttempt, report: ExitReport, node: str = "", image: str = "") -> None:
        """Take the name of an attempt that is not to begin, then end it; one that has begun is looked at instead."""
        identity = Identity(attempt.key, attempt.grant, node or attempt.node, attempt.devices)
        fence = fence_pod(identity, image, report, self._shared.seals, self._shared.options.epoch)
        body = PodBody.of(fence, replace(identity, fence=report))
        while attempt.exit is None:
            pod, refusal, known = await self._create(attempt, body)
            if pod is not None:
                self._found(attempt, pod, known)
                # A launch of it got through before; then it has to end like one that is killed.
                if attempt.exit is None and not attempt.is_fence:
                    attempt.cut_off = report
                    self._register.give_up(attempt)
                return
            if refusal is not None:
                # What refuses a pod that asks for nothing refuses a delayed launch, too.
                self._register.end(attempt, report)
                return

    async def resume(self, attempt: PodAttempt, pod: Pod) -> None:
        """Go on with a launch that ended with an earlier server, before the pod was bound; or end the attempt."""
        try:
            request = self._shared.request(attempt.node, attempt.devices)
            await self._shared.claims.allocate(attempt.node, pod, request)
        except (LookupError, PaiError) as error:
            if attempt.exit is None:
                message = f"its pod could not get its GPUs: {_text(error)}"
                attempt.cut_off = ExitReport(1, ExitReason.LAUNCH_FAILED, message)
                self._register.give_up(attempt)

    async def _launch(self, attempt: PodAttempt, action: LaunchTask) -> ExitReport | None:
        try:
            bundle, volumes = self._referred(action)
            request = self._shared.request(action.node, action.devices)
        except LookupError as error:
            return ExitReport(1, ExitReason.LAUNCH_FAILED, f"its GPUs cannot be used: {_text(error)}")
        except (ValueError, PaiError) as error:
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, f"its pod cannot be made as asked: {_text(error)}")
        return await self._create_task(attempt, action, Parts(bundle, request, volumes))

    async def _create_task(self, attempt: PodAttempt, action: LaunchTask, parts: Parts) -> ExitReport | None:
        began_s = asyncio.get_running_loop().time()
        tries = 0
        while not attempt.kill_requested.is_set():
            is_done, error = await self._try_to_create(attempt, action, parts)
            if is_done:
                return None
            if error is None:
                continue
            refusal = refusal_of(error, asyncio.get_running_loop().time() - began_s)
            if refusal.exit is not None:
                return refusal.exit
            self._register.progressed(attempt, refusal.message, refusal.step)
            await self._pause(attempt, backoff_s(tries, _QUOTA_PAUSE_MAX_S))
            tries += 1
        return KILLED_BEFORE_START

    async def _try_to_create(
        self, attempt: PodAttempt, action: LaunchTask, parts: Parts
    ) -> tuple[bool, KubeError | None]:
        """Return whether the pod is there, or why the API server refuses it or what it refers to."""
        shared, request = self._shared, parts.devices
        refusal = await self._preparer.prepare(action, parts.bundle, parts.storages)
        if refusal is not None or attempt.kill_requested.is_set():
            return False, refusal
        try:
            claims = await shared.claims.claim(action, attempt.name, request)
        except KubeError as error:
            return False, error
        whole = replace(parts, claims=claims) if claims else parts
        body, is_bound = self._bodies.of(action, whole), not request.claim
        pod, refusal, known = await self._create(attempt, body, is_bound=is_bound)
        if refusal is not None and refusal.http == _NOT_READ and body.is_binary:
            # Something before the API server takes JSON only.
            self._bodies.only_json = True
            pod, refusal, known = await self._create(attempt, self._bodies.of(action, whole), is_bound=is_bound)
        if pod is None:
            return False, refusal
        await shared.claims.allocate(action.node, pod, request)
        self._found(attempt, pod, known)
        self._register.stop_if_requested(attempt)
        return True, None

    async def _pause(self, attempt: PodAttempt, pause_s: float) -> None:
        with self._aside(), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await attempt.kill_requested.wait()

    async def _create(
        self, attempt: PodAttempt, body: PodBody, *, is_bound: bool = True
    ) -> tuple[Pod | None, KubeError | None, Identity | None]:
        """Return the attempt's pod, new or found, or why the API server refuses it; neither if that is unclear.

        Of a new pod that the platform need not bind only the metadata is known. Last is what a new pod is.
        """
        created: list[Pod] = []
        shared = self._shared

        async def call() -> None:
            created.append(await shared.client.create(PODS, body.content, shared.namespace, only_metadata=is_bound))

        error = await until_answered(call)
        if error is None:
            return created[0], None, body.identity_of(created[0])
        if not error.is_there_already:
            return None, error, None
        return *await self._existing(attempt, error), None

    async def _existing(self, attempt: PodAttempt, error: KubeError) -> tuple[Pod | None, KubeError | None]:
        """Return the pod that has the attempt's name already, if it is the attempt's."""
        pods: list[Pod | None] = []

        async def call() -> None:
            pods.append(await self._shared.client.find(PODS, attempt.name, self._shared.namespace))

        if refusal := await until_answered(call):
            return None, refusal
        pod = pods[0]
        if pod is None:
            return None, None
        return (pod, None) if self._shared.seals.identity(pod) is not None else (None, error)

    def _referred(self, action: LaunchTask) -> tuple[Bundle, PodVolumes]:
        """Return what the pod of a launch refers to. Raises ValueError and PaiError."""
        return self._bundles.of(action), self._volumes(action)

    def _volumes(self, action: LaunchTask) -> PodVolumes:
        if not action.mounts:
            return _NO_VOLUMES
        content = f"{action.key.job} {action.key.job_attempt} {[(mount, mount.options) for mount in action.mounts]}"
        prefix = f"pai-mount-{self._shared.seals.fingerprint(content.encode())}"
        return pod_volumes(action.mounts, prefix, self._shared.drivers())


def _text(error: Exception) -> str:
    return error.sentence if isinstance(error, PaiError) else str(error) or type(error).__name__

"""Creates, allocates and removes the ResourceClaims of tasks on nodes with dynamic resource allocation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from openpai.backends.kubernetes.bundles import job_labels
from openpai.backends.kubernetes.claims import CLAIM_NAME, SCHEDULER, claim_body, status_patch
from openpai.backends.kubernetes.devices import DeviceRequest
from openpai.backends.kubernetes.names import PART_LABEL
from openpai.backends.kubernetes.writes import until_answered
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.devices import ResourceClaim
from openpai.kube.objects.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS
from openpai.kube.objects.pods import Pod
from openpai.kube.reflector import Reflector
from openpai.ports.backend import LaunchTask


class Claims:
    """Gives pods the devices that the scheduler chose."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        scope: str,
        classes: Mapping[str, str],
        known: Reflector[ResourceClaim] | None,
    ) -> None:
        """`classes` maps drivers to their DeviceClasses; `known` has the claims, where the cluster serves any."""
        self._client = client
        self._namespace = namespace
        self._scope = scope
        self._classes = classes
        self._known = known
        self._made: set[str] = set()
        """Those that this server created, or may have, and has not removed: the watch may not have shown them yet."""
        self._config: dict[str, Sequence[Mapping[str, Any]]] = {}

    async def claim(self, launch: LaunchTask, name: str, request: DeviceRequest) -> Sequence[Mapping[str, str]]:
        """Create the claim that a pod names, and return it as the pod does. Raises KubeError and Refused."""
        if not request.claim:
            return ()
        labels = {**job_labels(self._scope, launch.key), PART_LABEL: "devices"}
        body = claim_body(name, labels, request.claim, self._classes)
        self._made.add(name)

        async def create() -> None:
            try:
                await self._client.create(RESOURCE_CLAIMS, body, self._namespace)
            except KubeError as error:
                if not error.is_there_already:
                    raise

        if refusal := await until_answered(create):
            raise refusal
        return ({"name": CLAIM_NAME, "resourceClaimName": name},)

    async def allocate(self, node: str, pod: Pod, request: DeviceRequest) -> None:
        """Give the claim of a pod its devices, then bind the pod to its node if nothing did yet. Raises KubeError."""
        if not request.claim:
            return
        config = {driver: await self._config_of(driver) for driver in {device.driver for device in request.claim}}
        patch = status_patch(request.claim, node, pod.name, pod.uid, config)

        async def write() -> None:
            await self._client.patch(RESOURCE_CLAIMS, pod.name, patch, self._namespace, subresource="status")

        async def bind() -> None:
            await self._client.bind(pod.name, self._namespace, node, uid=pod.uid)

        if refusal := await until_answered(write):
            raise refusal
        if not waits_for_binding(pod):
            return
        refusal = await until_answered(bind)
        # A binding whose answer was lost is refused when it is repeated.
        if refusal is not None and not (refusal.is_conflict and await self._is_bound(pod, node)):
            raise refusal

    async def _is_bound(self, pod: Pod, node: str) -> bool:
        found = await self._client.find(PODS, pod.name, self._namespace)
        return found is not None and found.uid == pod.uid and found.spec.node_name == node

    async def remove(self, name: str) -> None:
        """Remove the claim of a task that is over, if there is one.

        Most tasks have none, and a request for each would cost the API server as much as half a pod. One that a server
        created just before it died may be missed; the sweep finds it.
        """
        if name in self._made or (self._known is not None and self._known.get(name, self._namespace) is not None):
            await until_answered(partial(self._delete, name))
            self._made.discard(name)

    async def _delete(self, name: str) -> None:
        try:
            await self._client.delete(RESOURCE_CLAIMS, name, self._namespace)
        except KubeError as error:
            if not error.is_missing:
                raise

    async def _config_of(self, driver: str) -> Sequence[Mapping[str, Any]]:
        if driver not in self._config:
            found = await self._client.get(DEVICE_CLASSES, self._classes.get(driver, driver))
            self._config[driver] = tuple(found.spec.get("config") or ())
        return self._config[driver]


def waits_for_binding(pod: Pod) -> bool:
    """Return whether a pod has a claim, and no node before the platform binds it."""
    return not pod.spec.node_name and pod.spec.scheduler_name == SCHEDULER

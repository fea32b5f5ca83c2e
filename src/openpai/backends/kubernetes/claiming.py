"""Creates, allocates and removes the ResourceClaims of tasks on nodes with dynamic resource allocation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openpai.backends.kubernetes.bundles import job_labels
from openpai.backends.kubernetes.claims import CLAIM_NAME, claim_body, status_patch
from openpai.backends.kubernetes.devices import DeviceRequest
from openpai.backends.kubernetes.names import PART_LABEL
from openpai.backends.kubernetes.writes import until_answered
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS
from openpai.kube.objects.pods import Pod
from openpai.ports.backend import LaunchTask


class Claims:
    """Gives pods the devices that the scheduler chose."""

    def __init__(self, client: KubeClient, namespace: str, scope: str, classes: Mapping[str, str]) -> None:
        """`classes` maps drivers to their DeviceClasses."""
        self._client = client
        self._namespace = namespace
        self._scope = scope
        self._classes = classes
        self._config: dict[str, Sequence[Mapping[str, Any]]] = {}

    async def claim(self, launch: LaunchTask, name: str, request: DeviceRequest) -> Sequence[Mapping[str, str]]:
        """Create the claim that a pod names, and return it as the pod does. Raises KubeError and Refused."""
        if not request.claim:
            return ()
        labels = {**job_labels(self._scope, launch.key), PART_LABEL: "devices"}
        body = claim_body(name, labels, request.claim, self._classes)

        async def create() -> None:
            try:
                await self._client.create(RESOURCE_CLAIMS, body, self._namespace)
            except KubeError as error:
                if not error.is_there_already:
                    raise

        if refusal := await until_answered(create):
            raise refusal
        return ({"name": CLAIM_NAME, "resourceClaimName": name},)

    async def allocate(self, launch: LaunchTask, pod: Pod, request: DeviceRequest) -> None:
        """Give the claim of a pod its devices. Raises KubeError."""
        if not request.claim:
            return
        config = {driver: await self._config_of(driver) for driver in {device.driver for device in request.claim}}
        patch = status_patch(request.claim, launch.node, pod.name, pod.uid, config)

        async def write() -> None:
            await self._client.patch(RESOURCE_CLAIMS, pod.name, patch, self._namespace, subresource="status")

        if refusal := await until_answered(write):
            raise refusal

    async def remove(self, name: str) -> None:
        """Remove the claim of a task that is over. Raises KubeError."""
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

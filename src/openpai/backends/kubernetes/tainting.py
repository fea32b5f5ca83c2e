"""Keeps every scheduler of the cluster away from devices that are marked as bad, by DeviceTaintRules.

Only devices of drivers can be named in a rule. Where the cluster does not serve rules, or the platform may not write
them, a bad device is avoided by the platform alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog

from openpai.backends.kubernetes.claims import taint_rule
from openpai.backends.kubernetes.devices import Found
from openpai.backends.kubernetes.epochs import check
from openpai.backends.kubernetes.names import EPOCH_LABEL, PART_LABEL, SCOPE_LABEL, digest
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.devices import DeviceTaintRule
from openpai.kube.objects.kinds import Kind

log: Final = structlog.get_logger(__name__)
_PART: Final = "bad-device"
_NO_DRIVER: Final = "none.openpai"


class Taints:
    """The rules of one platform."""

    def __init__(self, client: KubeClient, kind: Kind[DeviceTaintRule], namespace: str, scope: str, epoch: int) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        self._scope = scope
        self._epoch = epoch
        self._labels = {SCOPE_LABEL: scope, PART_LABEL: _PART}
        self._written: dict[str, tuple[dict[str, Any] | None, str]] | None = None
        """By name, each rule as this server wrote it, None if another did or for no device yet, and its version."""
        self._is_refused = False

    async def sync(self, bad: Mapping[tuple[str, str], tuple[Found, str]]) -> None:
        """Write a rule for each of these devices, by node and identity, with the reason; remove all other rules.

        Raises LeaseLost if another server leads, whose rules then stay as they are.
        """
        if self._is_refused:
            return
        wanted = {
            f"pai-{digest(self._labels[SCOPE_LABEL], *place, length=20)}": (device, reason)
            for place, (device, reason) in bad.items()
            if device.driver
        }
        try:
            await self._write(wanted)
        except KubeError as error:
            self._written = None
            self._is_refused = error.http == 403
            log.warning("a bad device cannot be kept from other schedulers", error=error.message)

    async def _write(self, wanted: Mapping[str, tuple[Found, str]]) -> None:
        if self._written is None:
            # A leader touches every rule in its first pass, so that no version that an earlier one read is the newest.
            labels = ",".join(f"{name}={value}" for name, value in self._labels.items())
            found = await self._client.list(self._kind, labels=labels)
            self._written = {rule.name: (None, rule.metadata.resource_version) for rule in found}
        labelled = {**self._labels, EPOCH_LABEL: str(self._epoch)}
        bodies = {
            name: taint_rule(name, labelled, device, reason, self._kind.api_version)
            for name, (device, reason) in wanted.items()
        }
        written = self._written
        if bodies == {name: body for name, (body, _) in written.items()}:
            return
        # A server that was paused may believe that it leads, and that its devices are the bad ones. A rule is made for
        # no device, and changed only from a version that this server read or wrote: the check is between the two.
        for name in sorted(bodies.keys() - written.keys()):
            written[name] = (None, await self._create(bodies[name]))
        await check(self._client, self._namespace, self._scope, self._epoch)
        for name, body in bodies.items():
            was, version = written[name]
            if was != body:
                changed = {"metadata": {"labels": labelled, "resourceVersion": version}, "spec": body["spec"]}
                rule = await self._client.patch(self._kind, name, changed)
                written[name] = (body, rule.metadata.resource_version)
        for name in sorted(written.keys() - bodies.keys()):
            try:
                await self._client.delete(self._kind, name, resource_version=written[name][1])
            except KubeError as error:
                if not error.is_missing:
                    raise
            del written[name]

    async def _create(self, body: Mapping[str, Any]) -> str:
        """Create a rule that is about no device yet, and return its version."""
        nothing = {"driver": _NO_DRIVER, "pool": "none", "device": "none"}
        rule = await self._client.create(self._kind, {**body, "spec": {**body["spec"], "deviceSelector": nothing}})
        return rule.metadata.resource_version

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


class Taints:
    """The rules of one platform."""

    def __init__(self, client: KubeClient, kind: Kind[DeviceTaintRule], namespace: str, scope: str, epoch: int) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        self._scope = scope
        self._epoch = epoch
        self._labels = {SCOPE_LABEL: scope, PART_LABEL: _PART}
        self._written: dict[str, Any] | None = None
        self._is_refused = False

    async def sync(self, bad: Mapping[tuple[str, str], tuple[Found, str]]) -> None:
        """Write a rule for each of these devices, by node and identity, with the reason; remove all other rules.

        Raises LeaseLost if another server leads.
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
            labels = ",".join(f"{name}={value}" for name, value in self._labels.items())
            self._written = {rule.name: None for rule in await self._client.list(self._kind, labels=labels)}
        labelled = {**self._labels, EPOCH_LABEL: str(self._epoch)}
        bodies = {
            name: taint_rule(name, labelled, device, reason, self._kind.api_version)
            for name, (device, reason) in wanted.items()
        }
        if bodies != self._written:
            # A server that was paused may believe that it leads, and that its devices are the bad ones.
            await check(self._client, self._namespace, self._scope, self._epoch)
        for name, body in bodies.items():
            if self._written.get(name) == body:
                continue
            if name in self._written:
                changed = {"metadata": {"labels": labelled}, "spec": body["spec"]}
                await self._client.patch(self._kind, name, changed)
            else:
                await self._client.create(self._kind, body)
            self._written[name] = body
        for name in sorted(self._written.keys() - wanted.keys()):
            try:
                await self._client.delete(self._kind, name)
            except KubeError as error:
                if not error.is_missing:
                    raise
            del self._written[name]

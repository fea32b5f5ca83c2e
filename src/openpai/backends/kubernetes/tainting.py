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
from openpai.backends.kubernetes.names import PART_LABEL, SCOPE_LABEL, digest
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.devices import DeviceTaintRule
from openpai.kube.objects.kinds import Kind

log: Final = structlog.get_logger(__name__)
_PART: Final = "bad-device"


class Taints:
    """The rules of one platform."""

    def __init__(self, client: KubeClient, kind: Kind[DeviceTaintRule], scope: str) -> None:
        self._client = client
        self._kind = kind
        self._labels = {SCOPE_LABEL: scope, PART_LABEL: _PART}
        self._written: dict[str, Any] | None = None
        self._is_refused = False

    async def sync(self, bad: Mapping[tuple[str, str], tuple[Found, str]]) -> None:
        """Write a rule for each of these devices, by node and identity, with the reason; remove all other rules."""
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
        for name, (device, reason) in wanted.items():
            body = taint_rule(name, self._labels, device, reason, self._kind.api_version)
            if self._written.get(name) == body:
                continue
            if name in self._written:
                await self._client.patch(self._kind, name, {"spec": body["spec"]})
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

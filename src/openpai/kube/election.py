"""Leads among several processes by a Lease of the cluster, as Kubernetes' own components do.

Clocks of machines are not compared: a lease is over for a process that watched it for its whole duration without a
change. The holder counts from before its last renewal, and gives up earlier than any other may take over.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any, Final

from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import LEASES
from openpai.kube.objects.nodes import Lease

LEASE_S: Final = 15
RENEW_EVERY_S: Final = 2.0
_HOLDS_S: Final = 10.0
"""How long after a renewal the holder acts: the rest is for what it has under way."""
_CALL_PATIENCE_S: Final = 5.0


class Election:
    """The part of one process in an election."""

    def __init__(self, client: KubeClient, namespace: str, name: str, identity: str) -> None:
        """`identity` differs from that of every other process."""
        self.holder = ""
        """The last known holder of the lease."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._held_until_s = 0.0
        self._seen: tuple[str, float] = ("", 0.0)
        """The version of the lease that was seen last, and since when it is the same."""

    @property
    def is_held(self) -> bool:
        """Return whether this process may act: never while another one may."""
        return asyncio.get_running_loop().time() < self._held_until_s

    async def acquire(self) -> None:
        """Return once this process holds the lease."""
        while not await self._try():  # noqa: ASYNC110  # no event says that a lease is over
            await asyncio.sleep(RENEW_EVERY_S)

    async def keep(self) -> None:
        """Renew the lease; return once it is lost."""
        while self.is_held:
            await asyncio.sleep(RENEW_EVERY_S)
            if not await self._try():
                left_s = self._held_until_s - asyncio.get_running_loop().time()
                await asyncio.sleep(min(max(left_s, 0.0), RENEW_EVERY_S))

    async def release(self) -> None:
        """Give up the lease, so that another process need not wait for its end."""
        was_held, self._held_until_s = self.is_held, 0.0
        if was_held:
            with contextlib.suppress(KubeError, TimeoutError):
                async with asyncio.timeout(_CALL_PATIENCE_S):
                    lease = await self._client.find(LEASES, self._name, self._namespace)
                    if lease is not None and lease.spec.holder_identity == self._identity:
                        await self._write(lease, "")

    async def _try(self) -> bool:
        """Take or renew the lease if it is free or ours; return whether that was done."""
        began_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(_CALL_PATIENCE_S):
                lease = await self._client.find(LEASES, self._name, self._namespace)
                if lease is not None and not self._is_free(lease, began_s):
                    self._held_until_s = 0.0
                    return False
                await self._write(lease, self._identity)
        except (KubeError, TimeoutError):
            # Another process was faster, or the API server does not answer.
            return False
        self.holder = self._identity
        self._held_until_s = began_s + _HOLDS_S
        return True

    def _is_free(self, lease: Lease, now_s: float) -> bool:
        self.holder = lease.spec.holder_identity or ""
        if self.holder in ("", self._identity):
            return True
        version = lease.metadata.resource_version
        if self._seen[0] != version:
            self._seen = (version, now_s)
        return now_s - self._seen[1] > (lease.spec.lease_duration_seconds or LEASE_S)

    async def _write(self, lease: Lease | None, holder: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {"holderIdentity": holder, "leaseDurationSeconds": LEASE_S, "renewTime": now}
        metadata = {"name": self._name}
        if lease is None:
            spec |= {"acquireTime": now, "leaseTransitions": 0}
            await self._client.create(LEASES, {"metadata": metadata, "spec": spec}, self._namespace)
            return
        is_same, acquired = lease.spec.holder_identity == holder, lease.spec.acquire_time
        spec["leaseTransitions"] = (lease.spec.lease_transitions or 0) + (not is_same)
        spec["acquireTime"] = acquired.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if is_same and acquired else now
        # Refused if the lease changed meanwhile.
        metadata["resourceVersion"] = lease.metadata.resource_version
        await self._client.replace(LEASES, self._name, {"metadata": metadata, "spec": spec}, self._namespace)

"""One command of `pai cluster` at a time changes a release: a Lease in the cluster, renewed while the command runs.

A command that was killed renews it no more. Clocks of machines are not compared: the next command watches the lease for
its duration and takes it over if it was not renewed.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from openpai.app.cluster.target import Target
from openpai.cli.output import aside
from openpai.protocol.errors import Unavailable

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient

LEASE_S: Final = 12
_RENEW_S: Final = 4.0


@contextlib.asynccontextmanager
async def alone(client: KubeClient, target: Target) -> AsyncIterator[None]:
    """Hold the right to change a release. Raises Unavailable while another command has it."""
    from openpai.kube.errors import KubeError
    from openpai.kube.objects.kinds import LEASES

    name = f"{target.name}-command"
    holder = f"{getpass.getuser()}@{socket.gethostname()}, process {os.getpid()}"
    body = {"metadata": {"name": name}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": LEASE_S,
                                                 "leaseTransitions": 0}}  # fmt: skip
    try:
        lease: Any = await client.create(LEASES, body, target.namespace)
    except KubeError as error:
        if not error.is_there_already:
            raise
        await _wait_for_the_end(client, target, name)
        lease = await client.create(LEASES, body, target.namespace)
    renewing = asyncio.create_task(_renew(client, name, target.namespace))
    try:
        yield
    finally:
        renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewing
        with contextlib.suppress(KubeError):
            await client.delete(LEASES, name, target.namespace, uid=lease.metadata.uid)


async def _wait_for_the_end(client: KubeClient, target: Target, name: str) -> None:
    """Return once an old lease is gone; raise Unavailable if it is renewed."""
    from openpai.kube.objects.kinds import LEASES

    first = await client.find(LEASES, name, target.namespace)
    if first is None:
        return
    holder = first.spec.holder_identity or "another command"
    aside(f"{holder} changed this release last; waiting {LEASE_S} s to see whether it still does")
    await asyncio.sleep(LEASE_S)
    now = await client.find(LEASES, name, target.namespace)
    if now is None:
        return
    if now.metadata.resource_version != first.metadata.resource_version:
        raise Unavailable(f"{holder} is changing release {target.release}", "wait for its end, and try again")
    await client.delete(LEASES, name, target.namespace, resource_version=now.metadata.resource_version)


async def _renew(client: KubeClient, name: str, namespace: str) -> None:
    from openpai.kube.errors import KubeError
    from openpai.kube.objects.kinds import LEASES

    count = 0
    while True:
        await asyncio.sleep(_RENEW_S)
        count += 1
        with contextlib.suppress(KubeError):
            await client.patch(LEASES, name, {"spec": {"leaseTransitions": count}}, namespace)

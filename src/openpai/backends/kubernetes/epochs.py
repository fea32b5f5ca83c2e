"""The epoch of the leader, as the API server knows it.

Every pod names the epoch under which it was created. The newest epoch is in a ConfigMap that a new leader writes before
it does anything else, and an admission policy, which the Helm chart installs, refuses pods of earlier ones: so a
server that was paused and wakes up starts nothing any more, whatever it still believes.
"""

from __future__ import annotations

from openpai.backends.kubernetes.names import PART_LABEL, SCOPE_LABEL
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import CONFIG_MAPS
from openpai.ports.store import LeaseLost

PART = "leader"


async def check(client: KubeClient, namespace: str, scope: str, epoch: int) -> None:
    """Raise LeaseLost if the cluster knows a newer leader, and KubeError."""
    found = await client.find(CONFIG_MAPS, f"pai-leader-{scope}", namespace)
    known = int(found.data["epoch"]) if found else 0
    if known > epoch:
        raise LeaseLost(f"epoch {epoch} is over, the cluster knows {known}")


async def announce(client: KubeClient, namespace: str, scope: str, epoch: int) -> None:
    """Record a new leader's epoch. Raises LeaseLost if a newer one is known, and KubeError."""
    name = f"pai-leader-{scope}"
    while True:
        found = await client.find(CONFIG_MAPS, name, namespace)
        known = int(found.data["epoch"]) if found else 0
        if known > epoch:
            raise LeaseLost(f"epoch {epoch} is over, the cluster knows {known}")
        metadata = {"name": name, "labels": {SCOPE_LABEL: scope, PART_LABEL: PART}}
        body = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.name, "data": {"epoch": str(epoch)}}
        try:
            if found is None:
                await client.create(CONFIG_MAPS, {**body, "metadata": metadata}, namespace)
            elif known < epoch:
                seen = {**metadata, "resourceVersion": found.metadata.resource_version}
                await client.replace(CONFIG_MAPS, name, {**body, "metadata": seen}, namespace)
        except KubeError as error:
            if error.is_conflict or error.is_there_already:
                continue
            raise
        return

"""What the backend must remember beyond pods and servers: the newest grant of each device, and the order of devices.

A live pod shows its own grant under its seal. When it is removed, its grant is written here first. The place is a few
ConfigMaps, each for a part of the nodes; only what changed is written, many nodes at once, and each entry is sealed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from sys import intern
from typing import Any, Final

from openpai.backends.host.grants import NewestGrants
from openpai.backends.kubernetes.devices import Remembered
from openpai.backends.kubernetes.names import PART_LABEL, SCOPE_LABEL, digest
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import CONFIG_MAPS
from openpai.kube.objects.rest import ConfigMap

SHARDS: Final = 32
PASSED_MAX: Final = 12
"""How often in a row saving lets the creation of pods go first."""
_PART: Final = "memory"


class Grants(NewestGrants):
    """The newest grants in memory, and which of them are not written yet."""

    def __init__(self) -> None:
        super().__init__()
        self._of: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self.unsaved: set[str] = set()
        """Nodes with grants that are not written."""

    def heard(self, identity: Identity) -> None:
        """Record the grant of a pod that is there. A fence has no node, and its grant is in use nowhere."""
        if identity.fence is not None:
            return
        fresh = [device for device in identity.devices if self._newest_of(identity.node, device) < identity.grant]
        if fresh:
            self._record(identity.node, fresh, identity.grant)
            self._newest.update({(identity.node, device): identity.grant for device in fresh})

    def of_node(self, node: str) -> Mapping[int, int]:
        """Return the newest grants of a node's devices."""
        return self._of.get(node, {})

    def put(self, node: str, newest: Mapping[int, int]) -> None:
        """Take over what an earlier server wrote."""
        for device, grant in newest.items():
            self._newest[node, device] = self._of[node][device] = max(grant, self._newest_of(node, device))

    def _record(self, node: str, devices: Sequence[int], grant: int) -> None:
        self._of[node].update(dict.fromkeys(devices, grant))
        self.unsaved.add(node)


class Memory:
    """Reads and writes what is remembered of nodes."""

    def __init__(self, client: KubeClient, namespace: str, seals: Seals, grants: Grants) -> None:
        self.grants = grants
        self.devices: dict[str, tuple[Remembered, ...]] = {}
        self._client = client
        self._namespace = namespace
        self._seals = seals
        self._writing = asyncio.Lock()
        self._passed = 0
        self._versions: dict[str, str] = {}
        """The version of each ConfigMap that this server read or wrote last."""

    async def load(self) -> None:
        """Read everything that is not known yet. Raises KubeError."""
        labels = f"{SCOPE_LABEL}={self._seals.scope},{PART_LABEL}={_PART}"
        for found in await self._client.list(CONFIG_MAPS, self._namespace, labels=labels):
            if self._versions.get(found.name) != found.metadata.resource_version:
                self._read(found)

    async def save(self) -> None:
        """Write what changed; returns once it is written, by this call or another. Raises KubeError."""
        async with self._writing:
            nodes, self.grants.unsaved = self.grants.unsaved, set()
            left = set(nodes)
            try:
                for shard, some in self._by_shard(nodes).items():
                    await self._write(shard, some)
                    left.difference_update(some)
            finally:
                self.grants.unsaved |= left

    async def save_if_due(self, devices: Mapping[str, tuple[Remembered, ...]], *, is_busy: bool) -> None:
        """Write what changed, and the order of the devices of nodes; what can be learnt again waits for new pods.

        Pods show their own grants, and a grant is written before its pod goes. A device that is only counted has no
        order to lose.
        """
        self.remember(devices)
        self._passed += 1
        has_order = any(was.identity for some in devices.values() for was in some)
        if is_busy and not has_order and self._passed < PASSED_MAX:
            return
        # What failed is due again.
        self._passed = PASSED_MAX
        with contextlib.suppress(KubeError):
            await self.save()
            self._passed = 0

    def remember(self, devices: Mapping[str, tuple[Remembered, ...]]) -> None:
        """Note the order of the devices of nodes, for the next `save`."""
        self.devices.update(devices)
        self.grants.unsaved.update(devices)

    def _by_shard(self, nodes: Iterable[str]) -> dict[str, list[str]]:
        shards: dict[str, list[str]] = defaultdict(list)
        for node in sorted(nodes):
            number = int(digest(node, length=8), 16) % SHARDS
            shards[f"pai-nodes-{self._seals.scope}-{number}"].append(node)
        return shards

    def _entry(self, node: str) -> str:
        devices = [[was.identity, was.slot, was.source] for was in self.devices.get(node, ())]
        fields = {"grants": dict(self.grants.of_node(node)), "devices": devices}
        return self._seals.close(f"memory {node}", json.dumps(fields))

    def _read(self, found: ConfigMap, ours: Iterable[str] = ()) -> None:
        """Take over what is stored, except for the order of the devices of `ours`."""
        self._versions[found.name] = found.metadata.resource_version
        for node, text in found.data.items():
            entry = self._seals.open(f"memory {node}", text)
            if entry is None:
                continue
            fields = json.loads(entry)
            self.grants.put(node, {int(device): grant for device, grant in fields["grants"].items()})
            if node not in ours:
                self.devices[node] = tuple(
                    Remembered(identity, intern(slot), intern(source)) for identity, slot, source in fields["devices"]
                )

    async def _write(self, name: str, nodes: Sequence[str]) -> None:
        """Write entries of one ConfigMap; other nodes' entries stay as they are.

        A write that was believed lost may arrive late, as may one of a server that was paused. Each names the version
        that it follows, so that none takes the place of a newer one.
        """
        while True:
            data = {node: self._entry(node) for node in nodes}
            version = self._versions.get(name)
            try:
                if version is None:
                    made = await self._client.create(CONFIG_MAPS, self._body(name, data), self._namespace)
                else:
                    # Who owns which node's entry is of no use, and costs the API server more than the entries.
                    change = {"metadata": {"resourceVersion": version, "managedFields": [{}]}, "data": data}
                    made = await self._client.patch(CONFIG_MAPS, name, change, self._namespace, only_metadata=True)
            except KubeError as error:
                if not (error.is_there_already or error.is_conflict or error.is_missing):
                    raise
                self._versions.pop(name, None)
                found = await self._client.find(CONFIG_MAPS, name, self._namespace)
                if found is None and version is None:
                    # Not the ConfigMap but its namespace is missing.
                    raise
                if found is not None:
                    self._read(found, nodes)
            else:
                self._versions[name] = made.metadata.resource_version
                return

    def _body(self, name: str, data: Mapping[str, str]) -> dict[str, Any]:
        labels = {SCOPE_LABEL: self._seals.scope, PART_LABEL: _PART}
        return {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.name,
            "metadata": {"name": name, "labels": labels},
            "data": data,
        }

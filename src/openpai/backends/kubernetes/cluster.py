"""Follows the nodes of a cluster and everything that their state depends on, and keeps a `NodeTable` up to date.

Kinds that a cluster does not serve, or that the platform may not read, are left out: their part of the state is unknown
then, which is logged once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from openpai.backends.kubernetes.cached_pods import PodKeeper
from openpai.backends.kubernetes.claims import RULE_VERSIONS
from openpai.backends.kubernetes.devices import DeviceRequest, device_request
from openpai.backends.kubernetes.leases import NAMESPACE
from openpai.backends.kubernetes.nodes import NodeTable
from openpai.kube.changes import Change
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from openpai.kube.objects.kinds import (
    CSI_DRIVERS,
    DEVICE_TAINT_RULES,
    LEASES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Kind,
    T,
)
from openpai.kube.objects.nodes import Lease, Node
from openpai.kube.objects.pods import Pod
from openpai.kube.reflector import Reflector
from openpai.ports.backend import NodeSeen
from openpai.system.pauses import let_others_go_first
from openpai.system.supervision import supervise

log: Final = structlog.get_logger(__name__)
_PROBE_EVERY_S: Final = 1.0
NODES_AT_ONCE: Final = 200
"""So many nodes are looked at before others go on."""
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
GONE_AFTER_S: Final = 20.0
"""How long a Node object must have been missing before its tasks count as ended."""


class Cluster:
    """The nodes, and the pods of all namespaces."""

    def __init__(
        self,
        client: KubeClient,
        table: NodeTable,
        *,
        pods_in: str = "",
        keeper: PodKeeper | None = None,
        changed: Callable[[Change[Pod]], None],
        gives_up_after_s: float,
    ) -> None:
        """`pods_in` is a namespace for a platform that may not read the others' pods.

        Without a `keeper` all of each pod is kept. 0 s: silence proves nothing.
        """
        self.table = table
        keep, read = (keeper.kept, keeper.read) if keeper is not None else (None, None)
        self.pods = Reflector(client, PODS, pods_in, keep=keep, read=read)
        self.taint_rules: Kind[DeviceTaintRule] | None = None
        """DeviceTaintRules in the version that the cluster serves."""
        self._client = client
        self._changed = changed
        self._gives_up_after_s = gives_up_after_s
        self._nodes = Reflector(client, NODES)
        self._leases = Reflector(client, LEASES, NAMESPACE)
        self._missing: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._others: list[Reflector[Any]] = []
        self._drivers: Reflector[Any] | None = None
        self.claims: Reflector[ResourceClaim] | None = None
        """The claims for devices; None where the cluster serves none."""

    async def open(self) -> None:
        """Follow everything, and return once nodes and pods are known. Raises KubeError."""
        followed: list[tuple[Reflector[Any], Callable[[Change[Any]], None]]] = [
            (self._nodes, self._node_changed),
            (self._leases, self._lease_changed),
        ]
        # The largest lists are on their way while the server is asked what else it serves.
        self._others = [reflector for reflector, _ in followed]
        for first in (self.pods, *self._others):
            first.start()
        handlers: Mapping[Kind[Any], Callable[[Change[Any]], None]] = {
            CSI_DRIVERS: _nothing,
            RESOURCE_SLICES: self._slice_changed,
            RESOURCE_CLAIMS: self._claim_changed,
            DEVICE_TAINT_RULES: self._rule_changed,
        }
        for kind, handler in handlers.items():
            versions = RULE_VERSIONS if kind is DEVICE_TAINT_RULES else (kind.api_version,)
            served = await self._served(kind, versions)
            if served is not None:
                reflector = Reflector(self._client, served)
                followed.append((reflector, handler))
                self._drivers = reflector if kind is CSI_DRIVERS else self._drivers
                self.claims = reflector if kind is RESOURCE_CLAIMS else self.claims
                self.taint_rules = served if kind is DEVICE_TAINT_RULES else self.taint_rules
        self._others = [reflector for reflector, _ in followed]
        for reflector in self._others:
            reflector.start()
        for reflector in [*self._others, self.pods]:
            await reflector.synced.wait()
        for reflector, handler in followed:
            for found in list(reflector):
                handler(Change(None, found, found))
            self._follow(reflector, handler)
        self._tasks.append(supervise("probe of the API server", self._probe_forever))

    def follow_pods(self) -> None:
        """Pass changes of pods on from now on, once those that are there were adopted."""
        # An adopted pod is ours, which is then known without opening its seal.
        for pod in self.pods:
            self.table.put_pod(pod)
        self._follow(self.pods, self._pod_changed)

    async def close(self) -> None:
        """Stop to follow."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for reflector in [*self._others, self.pods]:
            await reflector.close()

    @property
    def trouble(self) -> str:
        """Return why the state of the cluster is not known now; empty if it is."""
        for reflector in (self.pods, self._nodes):
            if reflector.trouble is not None:
                return reflector.trouble.message
        return ""

    async def seen(self) -> tuple[NodeSeen, ...]:
        """Return the nodes, each as it is when it is looked at: between parts of a thousand others go on."""
        names, seen = self.table.names(), list[NodeSeen]()
        for start in range(0, len(names), NODES_AT_ONCE):
            if start:
                await let_others_go_first()
            seen += self.table.seen(names[start : start + NODES_AT_ONCE])
        return tuple(seen)

    def has(self, node: str) -> bool:
        """Return whether a node is there."""
        return self._nodes.get(node) is not None

    def drivers(self) -> frozenset[str]:
        """Return the CSI drivers of the cluster, as far as the platform may know them."""
        return frozenset(driver.name for driver in self._drivers or ())

    # What the watcher asks about nodes.

    def silent(self) -> frozenset[str]:
        """Return the nodes that do not answer."""
        return self.table.dead()

    def silence(self, node: str) -> str:
        """Return since when a silent node has not answered, in words."""
        silent_s = self.table.leases.silent_s(node)
        return f"its kubelet was last heard of {silent_s:.0f} s ago" if silent_s else "its kubelet does not report"

    def is_certainly_gone(self, node: str) -> bool:
        """Return whether nothing can run on a node any more: it was removed, or taken out of service."""
        found = self._nodes.get(node)
        now_s = asyncio.get_running_loop().time()
        if found is not None:
            self._missing.pop(node, None)
            return any(taint.key == _OUT_OF_SERVICE for taint in found.spec.taints)
        return now_s - self._missing.setdefault(node, now_s) > GONE_AFTER_S

    def is_given_up(self, node: str) -> bool:
        """Return whether a silent node was waited for long enough."""
        return 0 < self._gives_up_after_s <= self.table.leases.silent_s(node)

    # What the launcher asks about devices.

    def request(self, node: str, devices: tuple[int, ...]) -> DeviceRequest:
        """Return what a pod needs for devices of a node. Raises LookupError if one is not there now."""
        return device_request(self.table.devices(node), devices)

    def _follow(self, reflector: Reflector[T], handler: Callable[[Change[T]], None]) -> None:
        changes = reflector.subscribe(from_now=True)

        async def follow() -> None:
            async for change in changes:
                try:
                    handler(change)
                except Exception:
                    log.exception("an object could not be read", kind=reflector.kind.plural, name=change.last.name)

        self._tasks.append(supervise(f"changes of {reflector.kind.plural}", follow))

    async def _served(self, kind: Kind[Any], versions: Sequence[str]) -> Kind[Any] | None:
        """Return the kind in the first of these versions that the platform may read; None for none."""
        for version in versions:
            try:
                await self._client.raw("GET", kind.at(version).path(), limit="1")
            except KubeError as error:
                if error.http not in (403, 404):
                    raise
            else:
                return kind.at(version)
        log.info("the cluster does not offer a kind of objects", kind=kind.plural)
        return None

    async def _probe_forever(self) -> None:
        """Keep the time during which Leases can arrive: an API server that is away proves no node dead."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_PROBE_EVERY_S)
            leases = self._leases
            if leases.trouble is None and leases.age_s < _PROBE_EVERY_S * 2:
                self.table.leases.contact(loop.time())
            elif self.table.leases.is_probe_due(loop.time()):
                with contextlib.suppress(KubeError):
                    await self._client.raw("GET", "/version")
                    if leases.trouble is None:
                        self.table.leases.contact(loop.time())

    def _pod_changed(self, change: Change[Pod]) -> None:
        self._changed(change)
        if change.is_deletion:
            self.table.drop_pod(change.last.uid)
        else:
            self.table.put_pod(change.last)

    def _node_changed(self, change: Change[Node]) -> None:
        if change.is_deletion:
            self.table.drop_node(change.last.name)
        else:
            self.table.put_node(change.last)

    def _lease_changed(self, change: Change[Lease]) -> None:
        if change.is_deletion:
            self.table.leases.forget(change.last.name)
        else:
            self.table.leases.renewed(change.last, asyncio.get_running_loop().time(), time.time())

    def _slice_changed(self, change: Change[ResourceSlice]) -> None:
        if change.is_deletion:
            self.table.drop_slice(change.last.name)
        else:
            self.table.put_slice(change.last)

    def _claim_changed(self, change: Change[ResourceClaim]) -> None:
        if change.is_deletion:
            self.table.drop_claim(change.last.uid)
        else:
            self.table.put_claim(change.last)

    def _rule_changed(self, change: Change[DeviceTaintRule]) -> None:
        if change.is_deletion:
            self.table.drop_taint_rule(change.last.name)
        else:
            self.table.put_taint_rule(change.last)


def _nothing(_: Change[Any]) -> None:
    """Do nothing with a change: what is asked for is in the cache."""

"""Commands of administrators about virtual clusters: which there are, and what is promised to them.

Only the leader's scheduler knows them. Any other server answers with NotLeading, which names the leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from openpai.orchestrator.fairness import interruptible_of, learn_limits
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.node_sync import absent_nodes, seen_nodes, sync_nodes
from openpai.orchestrator.promise_preview import jobs_of, preview
from openpai.orchestrator.queueing import QueueCommands
from openpai.ports.cluster_settings import CLUSTER, ORDERS
from openpai.ports.platform import ClusterConfig, PromisePreview
from openpai.protocol.errors import BadConfiguration, Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER
from openpai.scheduler.config.arrangement import Guarantees, check, guarantees_in, promised_text, stored
from openpai.scheduler.config.editing import no_virtual_cluster, with_promise
from openpai.scheduler.interface import Amount, Inspection, VcView


class VirtualClusterCommands(QueueCommands):
    """The part of `ports.platform.Platform` about virtual clusters and the scheduler."""

    _names: tuple[int, frozenset[str]] = -1, frozenset()
    """The version of the setting that was read last, and the virtual clusters in it."""

    _interruptible: tuple[tuple[int, ...], frozenset[str]] = (), frozenset()
    """The versions of the settings that were read last, and the virtual clusters that are interruptible in them."""

    async def _known_clusters(self) -> frozenset[str]:
        if self.leader is not None:
            return self.leader.sharing.arrangement.virtual_clusters | {DEFAULT_VIRTUAL_CLUSTER}
        setting = await self._settings.setting(CLUSTER)
        version = setting.version if setting is not None else 0
        if self._names[0] != version:
            wanted = guarantees_in(setting.body if setting is not None else None)
            self._names = version, wanted.virtual_clusters
        return self._names[1]

    async def interruptible_clusters(self) -> frozenset[str]:
        if self.leader is not None:
            return self.leader.sharing.interruptible
        settings = await self._settings.settings(CLUSTER, ORDERS)
        cluster, orders = settings.get(CLUSTER), settings.get(ORDERS)
        versions = tuple(0 if each is None else each.version for each in (cluster, orders))
        if self._interruptible[0] != versions:
            config = guarantees_in(cluster.body).config if cluster is not None else None
            self._interruptible = versions, interruptible_of(orders, config.virtual_clusters if config else {})
        return self._interruptible[1]

    async def virtual_clusters(self) -> tuple[VcView, ...]:
        leader = await self._leading()
        may = leader.sharing.interruptible
        return tuple([replace(each, is_interruptible=each.name in may) for each in leader.scheduler.virtual_clusters()])

    async def sku_types(self, virtual_cluster: str | None = None) -> Mapping[str, Amount]:
        leader = await self._leading()
        if virtual_cluster is not None and virtual_cluster not in await self._known_clusters():
            raise no_virtual_cluster(virtual_cluster)
        return leader.scheduler.sku_types(virtual_cluster)

    async def cluster_config(self) -> ClusterConfig:
        return _config(await self._leading())

    async def configure(
        self, *, promises: str | None, hived: str | None, version: int | None, by: str
    ) -> ClusterConfig:
        if (promises is None) == (hived is None):
            message = "a configuration is either promises or a whole configuration in HiveD's format"
            raise BadConfiguration(message, "give one of the two")
        wanted = guarantees_in({"promises": promises, "hived": hived})
        async with self._as_leader() as leader:
            return await _configure(leader, wanted, version, by)

    async def promise(self, virtual_cluster: str, promise: str | None, by: str) -> ClusterConfig:
        async with self._as_leader() as leader:
            wanted, version = await _with_promise(leader, virtual_cluster, promise)
            return await _configure(leader, wanted, version, by)

    async def preview_promise(self, virtual_cluster: str, change: str | None) -> PromisePreview:
        leader = await self._leading()
        wanted, _ = await _with_promise(leader, virtual_cluster, change)
        return await preview(leader, wanted)

    async def inspect(self) -> Inspection:
        return (await self._leading()).scheduler.inspect()

    async def scheduler_snapshot(self) -> Mapping[str, Any]:
        return (await self._leading()).scheduler.snapshot()

    async def limits_changed(self) -> None:
        """Read limits again; see `Platform.limits_changed`. A leader elsewhere reads them at its next pass."""
        leader = self.leader
        if leader is not None:
            async with leader.sharing.sync:
                await learn_limits(leader)


async def _with_promise(leader: Leader, virtual_cluster: str, promise: str | None) -> tuple[Guarantees, int]:
    """Return the guarantees with a changed promise, and the version that it is a change of; refuse what cannot be."""
    if virtual_cluster == DEFAULT_VIRTUAL_CLUSTER:
        message = "`default` has what no other virtual cluster is promised"
        raise Refused("ReadOnlyVcError", message, "promise the other virtual clusters more or less")
    setting = await leader.settings.setting(CLUSTER)
    wanted = with_promise(guarantees_in(setting.body if setting is not None else None), virtual_cluster, promise)
    if promise is None:
        _refuse_in_use(leader, virtual_cluster)
    return wanted, setting.version if setting is not None else 0


async def _configure(leader: Leader, wanted: Guarantees, version: int | None, by: str) -> ClusterConfig:
    nodes = [*seen_nodes(leader.nodes.values()), *absent_nodes(leader.sharing.notes.values(), leader.nodes)]
    check(wanted, nodes)
    now_ms = leader.clock.now_ms()
    await leader.settings.set_setting(CLUSTER, stored(wanted), by=by, at_ms=now_ms, version=version, epoch=leader.epoch)
    before = leader.sharing.arrangement
    await sync_nodes(leader)
    config = _config(leader)
    return config if leader.sharing.arrangement is not before else replace(config, demoted=())


def _refuse_in_use(leader: Leader, virtual_cluster: str) -> None:
    jobs = [found.full_name for found in leader.active.records.values() if found.virtual_cluster == virtual_cluster]
    if jobs:
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        message = f"virtual cluster {virtual_cluster!r} is in use by {jobs[0]}{more}"
        raise Refused("RemoveRunningVcError", message, "wait for them to end, or stop them")


def _config(leader: Leader) -> ClusterConfig:
    setting = leader.sharing.setting
    arrangement = leader.sharing.arrangement
    return ClusterConfig(
        promises=promised_text(setting.body if setting is not None else None),
        hived=arrangement.text,
        version=setting.version if setting is not None else 0,
        problems=arrangement.problems,
        demoted=jobs_of(leader, arrangement.demoted),
    )

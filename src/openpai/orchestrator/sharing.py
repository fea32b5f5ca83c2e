"""Commands of administrators about the cluster: nodes drained or given back, and what virtual clusters are promised.

Only the server that leads knows the nodes, so only it carries these commands out; any other server names the leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from openpai.orchestrator import gangs
from openpai.orchestrator.draining import set_deadline
from openpai.orchestrator.fairness import learn_limits
from openpai.orchestrator.holding import held_on
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.node_sync import absent_nodes, look_at_nodes, seen_nodes
from openpai.orchestrator.node_views import node_views
from openpai.ports.clock import Clock
from openpai.ports.platform import ClusterConfig, Holding, NodeChange, NodeView, NotLeading
from openpai.ports.settings import CLUSTER, NodeNote, SettingsStore
from openpai.ports.store import LEASE_MS, JobStore
from openpai.protocol.errors import Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER
from openpai.scheduler.config.arrangement import check, names_in
from openpai.scheduler.config.editing import no_virtual_cluster, with_promise
from openpai.scheduler.config.promises import promised_text
from openpai.scheduler.interface import Amount, VcView


class SharingCommands:
    """The part of `ports.platform.Platform` that is about nodes and virtual clusters."""

    def __init__(self, store: JobStore, settings: SettingsStore, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self.leader: Leader | None = None
        """The office while this server leads."""
        self._names = -1, frozenset[str]()
        """The virtual clusters, and the version of the setting they were read from."""

    async def _leading(self) -> Leader:
        """Return the office; raise NotLeading, with the place where it is, on any other server."""
        if self.leader is None:
            raise NotLeading(await self._store.leader_url(LEASE_MS))
        return self.leader

    async def _known_clusters(self) -> frozenset[str]:
        if self.leader is not None:
            return self.leader.sharing.arrangement.virtual_clusters | {DEFAULT_VIRTUAL_CLUSTER}
        setting = await self._settings.setting(CLUSTER)
        version = setting.version if setting is not None else 0
        if self._names[0] != version:
            self._names = version, names_in(setting.body if setting is not None else None)
        return self._names[1]

    async def nodes(self) -> tuple[NodeView, ...]:
        """Return every machine; see `Platform.nodes`."""
        return node_views(await self._leading())

    async def change_node(self, name: str, change: NodeChange, by: str) -> NodeView:
        """Drain a node, give it back, or mark devices of it; see `Platform.change_node`."""
        leader = await self._leading()
        note = await self._note(leader, name)
        # It is shown as a part of one line.
        reason = " ".join(change.reason.split())
        changes: dict[str, Any] = {"changed_by": by}
        if change.is_drained is not None:
            changes |= {"is_drained": change.is_drained, "reason": reason}
        if change.bad_devices is not None:
            node = leader.nodes.get(name)
            _refuse_unknown(name, change.bad_devices, note.gpus if node is None else node.gpus)
            changes |= {"bad_devices": change.bad_devices, "bad_because": reason if change.bad_devices else ""}
        await self._settings.set_node_notes((replace(note, **changes),))
        if change.is_drained is not None:
            now_ms = self._clock.now_ms()
            at_ms = None if change.deadline_s is None else now_ms + change.deadline_s * 1000
            await set_deadline(self._settings, name, at_ms if change.is_drained else None, by=by, now_ms=now_ms)
        await look_at_nodes(leader)
        return next(view for view in node_views(leader) if view.name == name)

    async def node_holdings(self, name: str) -> tuple[Holding, ...]:
        """Return what jobs hold on a node; see `Platform.node_holdings`."""
        leader = await self._leading()
        await self._note(leader, name)
        return held_on(leader, name)

    async def forget_node(self, name: str, by: str) -> None:
        """Forget a node that is gone for good; see `Platform.forget_node`."""
        leader = await self._leading()
        await self._note(leader, name)
        if name in leader.nodes:
            message = f"node {name!r} is there, and would be remembered again at once"
            raise Refused("InvalidParametersError", message, "drain it to keep new tasks off it")
        await self._settings.forget_nodes((name,))
        await look_at_nodes(leader)

    async def _note(self, leader: Leader, name: str) -> NodeNote:
        # Read it again: a change of a moment ago must not be lost.
        notes = {note.name: note for note in await self._settings.node_notes()}
        if name not in notes and name not in leader.nodes:
            raise Refused("NoNodeError", f"there is no node {name!r}", "`pai node list` shows the nodes there are")
        return notes.get(name) or NodeNote(name)

    async def virtual_clusters(self) -> tuple[VcView, ...]:
        """Return every virtual cluster; see `Platform.virtual_clusters`."""
        return (await self._leading()).scheduler.virtual_clusters()

    async def sku_types(self, virtual_cluster: str | None = None) -> Mapping[str, Amount]:
        """Return what devices bring along; see `Platform.sku_types`."""
        leader = await self._leading()
        if virtual_cluster is not None and virtual_cluster not in await self._known_clusters():
            raise no_virtual_cluster(virtual_cluster)
        return leader.scheduler.sku_types(virtual_cluster)

    async def cluster_config(self) -> ClusterConfig:
        """Return what was promised to whom; see `Platform.cluster_config`."""
        return _config(await self._leading())

    async def configure(
        self, *, promises: str | None, hived: str | None, version: int | None, by: str
    ) -> ClusterConfig:
        """Promise something else from now on; see `Platform.configure`."""
        if (promises is None) == (hived is None):
            message = "a configuration is either promises or a whole configuration in HiveD's format"
            raise Refused("BadConfigurationError", message, "give one of the two")
        body = {"promises": promises} if promises is not None else {"hived": hived}
        return await self._configure(await self._leading(), body, version, by)

    async def promise(self, virtual_cluster: str, promise: str | None, by: str) -> ClusterConfig:
        """Promise one virtual cluster something else; see `Platform.promise`."""
        leader = await self._leading()
        if virtual_cluster == DEFAULT_VIRTUAL_CLUSTER:
            message = "`default` has whatever is promised to nobody else"
            raise Refused("ReadOnlyVcError", message, "promise the other virtual clusters more or less")
        setting = await self._settings.setting(CLUSTER)
        body = with_promise(setting.body if setting is not None else None, virtual_cluster, promise)
        if promise is None:
            _refuse_in_use(leader, virtual_cluster)
        return await self._configure(leader, body, setting.version if setting is not None else 0, by)

    async def _configure(self, leader: Leader, body: dict[str, Any], version: int | None, by: str) -> ClusterConfig:
        machines = [
            *seen_nodes(leader.nodes.values()),
            *absent_nodes(leader.sharing.notes.values(), leader.nodes),
        ]
        check(body, machines)
        await self._settings.set_setting(CLUSTER, body, by=by, at_ms=self._clock.now_ms(), version=version)
        was = leader.sharing.arrangement
        await look_at_nodes(leader)
        config = _config(leader)
        return config if leader.sharing.arrangement is not was else replace(config, demoted=())

    async def inspect(self) -> Mapping[str, Any]:
        """Return cells and gangs in HiveD's own shapes; see `Platform.inspect`."""
        return (await self._leading()).scheduler.inspect()

    async def scheduler_snapshot(self) -> Mapping[str, Any]:
        """Return the scheduler's whole state; see `Platform.scheduler_snapshot`."""
        return (await self._leading()).scheduler.snapshot()

    async def limits_changed(self) -> None:
        """Learn that limits changed; see `Platform.limits_changed`. A leader elsewhere looks for itself soon."""
        leader = self.leader
        if leader is not None:
            async with leader.sharing.turn:
                await learn_limits(leader)


def _refuse_unknown(name: str, devices: frozenset[int], gpus: int) -> None:
    unknown = sorted(device for device in devices if device >= gpus)
    if unknown:
        message = f"node {name!r} has no GPU {', '.join(map(str, unknown))}"
        raise Refused("InvalidParametersError", message, f"its GPUs are 0 to {gpus - 1}" if gpus else "it has no GPUs")


def _refuse_in_use(leader: Leader, virtual_cluster: str) -> None:
    jobs = [found.full_name for found in leader.active.records.values() if found.virtual_cluster == virtual_cluster]
    if jobs:
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        message = f"virtual cluster {virtual_cluster!r} is in use by {jobs[0]}{more}"
        raise Refused("RemoveRunningVcError", message, "wait for them to end, or stop them")


def _config(leader: Leader) -> ClusterConfig:
    setting = leader.sharing.setting
    arrangement = leader.sharing.arrangement
    jobs = (leader.active.records.get(gangs.job_of(gang)) for gang in arrangement.demoted)
    return ClusterConfig(
        promises=(promised_text(setting.body) if setting.body.get("hived") is None else None) if setting else "",
        hived=arrangement.text,
        version=setting.version if setting is not None else 0,
        problems=arrangement.problems,
        demoted=tuple(dict.fromkeys(found.full_name for found in jobs if found is not None)),
    )

"""Commands of administrators about nodes, and how nodes are shown: what there is, what is in use, and by which jobs.

Only the leader knows the nodes. Any other server answers with NotLeading, which names the leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from openpai.orchestrator.drain_deadlines import set_deadline
from openpai.orchestrator.holdings import held_on
from openpai.orchestrator.leader import Leader, LeaderCommands
from openpai.orchestrator.lemons import save_lemons
from openpai.orchestrator.node_sync import sync_nodes
from openpai.ports.backend import NodeSeen
from openpai.ports.cluster_settings import NodeNote
from openpai.ports.platform import Holding, NodeChange, NodeView
from openpai.ports.store import JobRecord
from openpai.protocol.errors import InvalidParameters, Refused

AWAY = "the backend does not report it; what is promised on it counts as bad"


class NodeCommands(LeaderCommands):
    """The part of `ports.platform.Platform` about nodes."""

    async def nodes(self) -> tuple[NodeView, ...]:
        return tuple(node_views(await self._leading()))

    async def change_node(self, name: str, change: NodeChange, by: str) -> NodeView:
        async with self._as_leader() as leader:
            note = replace(await _note(leader, name), changed_by=by)
            # It is shown as a part of one line.
            reason = " ".join(change.reason.split())
            if change.bad_devices is not None:
                node = leader.nodes.get(name)
                _refuse_unknown(name, change.bad_devices, note.gpus if node is None else node.gpus)
                bad_because = reason if change.bad_devices else ""
                note = replace(note, bad_devices=change.bad_devices, bad_because=bad_because)
            if change.is_drained is not None:
                note = replace(note, is_drained=change.is_drained, reason=reason)
            await leader.settings.set_node_notes((note,), leader.epoch)
            if change.is_drained is False or change.bad_devices is not None:
                leader.lemons.forget(name)
                now_ms = leader.clock.now_ms()
                await save_lemons(leader.lemons, leader.settings, now_ms, leader.epoch, leader.usage)
            if change.is_drained is not None:
                await set_deadline(leader, name, change.deadline_s if change.is_drained else None, by)
            await sync_nodes(leader)
            return next(view for view in node_views(leader) if view.name == name)

    async def node_holdings(self, name: str) -> tuple[Holding, ...]:
        leader = await self._leading()
        await _note(leader, name)
        return held_on(leader, name)

    async def forget_node(self, name: str, by: str) -> None:
        async with self._as_leader() as leader:
            await _note(leader, name)
            if name in leader.nodes:
                message = f"the backend still reports node {name!r}, so it would come back at once"
                raise InvalidParameters(message, "drain it to keep new tasks off it")
            await leader.settings.forget_nodes((name,), leader.epoch)
            await sync_nodes(leader)


async def _note(leader: Leader, name: str) -> NodeNote:
    # Read it from the store: a change of a moment ago must not be lost.
    notes = {note.name: note for note in await leader.settings.node_notes()}
    if name not in notes and name not in leader.nodes:
        raise Refused("NoNodeError", f"there is no node {name!r}", "`pai node list` shows the nodes there are")
    return notes.get(name) or NodeNote(name)


def _refuse_unknown(name: str, devices: frozenset[int], gpus: int) -> None:
    unknown = sorted(device for device in devices if device >= gpus)
    if unknown:
        message = f"node {name!r} has no GPU {', '.join(map(str, unknown))}"
        raise InvalidParameters(message, f"its GPUs are 0 to {gpus - 1}" if gpus else "it has no GPUs")


@dataclass(slots=True)
class Used:
    """What jobs hold of a node."""

    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    tasks: int = 0
    virtual_clusters: set[str] = field(default_factory=set)


def node_views(leader: Leader, used: Mapping[str, Used] | None = None) -> Iterator[NodeView]:
    """Yield every node by name, with the nodes that are away.

    `used` is what jobs hold of each, where that was added up with pauses.
    """
    if used is None:
        used = {}
        for record in leader.active.records.values():
            add_used(used, record)
    temperatures = _temperatures(leader)
    notes = leader.sharing.notes
    away = {name: _away(note) for name, note in notes.items() if name not in leader.nodes}
    nodes = {**leader.nodes, **away}
    for name, node in sorted(nodes.items()):
        yield _view(
            node,
            notes.get(name) or NodeNote(name),
            used.get(name) or Used(),
            temperatures.get(name, {}),
            leader.sharing.deadlines.get(name),
            leader.lemons.score_of(name, leader.clock.now_ms()),
        )


def _away(note: NodeNote) -> NodeSeen:
    return NodeSeen(
        note.name, "", note.cpus, note.memory_mb, note.gpus, is_healthy=False, gpu_model=note.gpu_model, message=AWAY
    )


def add_used(used: dict[str, Used], record: JobRecord) -> None:
    """Add what a job holds to what is used of its nodes."""
    if not record.slots:
        return
    roles = {role.name: role.resources for role in record.spec.task_roles}
    for id_, slot in record.slots.items():
        need = roles[id_.role]
        sums = used.get(slot.node)
        if sums is None:
            sums = used[slot.node] = Used()
        sums.cpus += need.cpus
        sums.memory_mb += need.memory_mb
        sums.gpus += need.gpus
        sums.tasks += 1
        sums.virtual_clusters.add(record.virtual_cluster)


def _temperatures(leader: Leader) -> dict[str, dict[int, float]]:
    """Return the temperatures of the GPUs of nodes that tasks measured."""
    found: dict[str, dict[int, float]] = {}
    for key, use in (leader.measures.newest() if leader.measures is not None else {}).items():
        measured = {one.index: one.temperature_c for one in use.sample.devices if one.temperature_c is not None}
        record = leader.active.records.get(key.job) if measured else None
        if record is not None and (held := record.slots.get(key.task)) is not None:
            found.setdefault(held.node, {}).update(measured)
    return found


def _view(
    node: NodeSeen,
    note: NodeNote,
    used: Used,
    temperatures_c: Mapping[int, float],
    deadline_ms: int | None,
    blamed: tuple[float, int],
) -> NodeView:
    return NodeView(
        name=node.name,
        address=node.address,
        is_healthy=node.is_healthy,
        message=node.message,
        gpu_model=node.gpu_model,
        cpus_total=node.cpus,
        cpus_used=used.cpus,
        memory_mb_total=node.memory_mb,
        memory_mb_used=used.memory_mb,
        gpus_total=node.gpus,
        gpus_used=used.gpus,
        bad_devices=tuple(sorted(node.bad_devices | note.bad_devices)),
        tasks=used.tasks,
        is_drained=note.is_drained,
        drained_because=note.reason if note.is_drained else "",
        virtual_clusters=tuple(sorted(used.virtual_clusters)),
        bad_because=note.bad_because,
        deadline_ms=deadline_ms,
        changed_by=note.changed_by,
        lemon_score=round(blamed[0], 2),
        lemon_users=blamed[1],
        checks=node.checks,
        temperatures_c=temperatures_c,
    )

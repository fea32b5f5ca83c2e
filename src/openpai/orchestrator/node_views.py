"""What people see of the machines: how much there is, how much is in use, and by whom."""

from __future__ import annotations

from dataclasses import dataclass, field

from openpai.orchestrator.leader import Leader
from openpai.ports.backend import NodeSeen
from openpai.ports.platform import NodeView
from openpai.ports.settings import NodeNote

AWAY = "nobody sees it; what is promised on it counts as bad"


@dataclass(slots=True)
class _Used:
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0
    tasks: int = 0
    virtual_clusters: set[str] = field(default_factory=set)


def node_views(leader: Leader) -> tuple[NodeView, ...]:
    """Return every machine by name, those that are remembered and away included."""
    used = _used(leader)
    notes = leader.sharing.notes
    away = {name: _away(note) for name, note in notes.items() if name not in leader.nodes}
    machines = {**leader.nodes, **away}
    return tuple(
        _view(node, notes.get(name) or NodeNote(name), used.get(name) or _Used(), leader.sharing.deadlines.get(name))
        for name, node in sorted(machines.items())
    )


def _away(note: NodeNote) -> NodeSeen:
    return NodeSeen(
        note.name, "", note.cpus, note.memory_mb, note.gpus, is_healthy=False, gpu_model=note.gpu_model, message=AWAY
    )


def _used(leader: Leader) -> dict[str, _Used]:
    used: dict[str, _Used] = {}
    for found in leader.active.records.values():
        if not found.slots:
            continue
        roles = {role.name: role.resources for role in found.spec.task_roles}
        for id_, slot in found.slots.items():
            need = roles[id_.role]
            sums = used.setdefault(slot.node, _Used())
            sums.cpus += need.cpus
            sums.memory_mb += need.memory_mb
            sums.gpus += need.gpus
            sums.tasks += 1
            sums.virtual_clusters.add(found.virtual_cluster)
    return used


def _view(node: NodeSeen, note: NodeNote, used: _Used, deadline_ms: int | None) -> NodeView:
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
    )

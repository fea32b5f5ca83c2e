"""The pass that reads nodes, the notes about them, promises and limits, and passes changes on to the scheduler.

It reads everything each time, so it does not matter which server wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import structlog

from openpai.orchestrator.drain_deadlines import deadlines
from openpai.orchestrator.exit_specs import use_rules
from openpai.orchestrator.fairness import LIMITS, read_limits, use_limits
from openpai.orchestrator.job_storages import directories
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.marks import follow_marks
from openpai.ports.backend import ChecksStorages, MarksDevices, NodeSeen
from openpai.ports.cluster_settings import CLUSTER, DRAINS, EXIT_SPECS, LEMONS, NodeNote
from openpai.protocol.admission import queues_of_nobody
from openpai.protocol.errors import Refused
from openpai.scheduler.config.arrangement import Arrangement, Guarantees, arrange, guarantees_in
from openpai.scheduler.config.planning import Nodes
from openpai.scheduler.model import Node

log: Final = structlog.get_logger(__name__)
_NO_NOTE: Final = NodeNote("")


async def sync_nodes(leader: Leader) -> None:
    """Report to the scheduler which nodes, promises and limits changed."""
    sharing = leader.sharing
    async with sharing.sync:
        if isinstance(leader.backend, ChecksStorages) and leader.storages is not None:
            leader.backend.expect_storages(directories(await leader.storages.storages()))
        seen = {node.name: node for node in await leader.backend.nodes()}
        notes = await follow_marks(leader, seen, await _notes(leader, seen))
        limits = await read_limits(leader)
        settings = await leader.settings.settings(CLUSTER, DRAINS, EXIT_SPECS, LEMONS, *LIMITS)
        # Without a pause until all of them are used: what others read meanwhile would be newer.
        sharing.setting = settings.get(CLUSTER)
        _update_nodes(leader, seen, notes)
        sharing.deadlines = deadlines(settings.get(DRAINS), notes)
        if sharing.deadlines:
            leader.nudges.timers.set()
        _update_promises(leader)
        use_limits(leader, limits, settings)
        use_rules(leader, settings.get(EXIT_SPECS))
        leader.lemons.learn(settings.get(LEMONS))
        if isinstance(leader.backend, MarksDevices):
            bad = [note for note in notes.values() if note.bad_devices]
            await leader.backend.mark_bad(
                {note.name: dict.fromkeys(sorted(note.bad_devices), note.bad_because) for note in bad}
            )


async def forget_unneeded(leader: Leader) -> None:
    """Forget nodes that are away, that no promise needs and that no administrator drained or marked."""
    sharing = leader.sharing
    gone = tuple(
        note.name
        for note in sharing.notes.values()
        if note.name not in leader.nodes
        and note.name not in sharing.arrangement.needed
        and not note.is_drained
        and not note.bad_devices
    )
    if gone:
        await leader.settings.forget_nodes(gone, leader.epoch)
        sharing.notes = {name: note for name, note in sharing.notes.items() if name not in gone}
        log.info("forgot nodes that are gone and that no promise needs", nodes=", ".join(gone))


async def _notes(leader: Leader, seen: Mapping[str, NodeSeen]) -> dict[str, NodeNote]:
    """Return the note about each node, after storing the sizes of those that are there."""
    notes = {note.name: note for note in await leader.settings.node_notes()}
    sizes = {name: _sized(notes.get(name, NodeNote(name)), node) for name, node in seen.items()}
    learnt = tuple(note for name, note in sorted(sizes.items()) if notes.get(name) != note)
    if learnt:
        await leader.settings.learn_nodes(learnt, leader.epoch)
    return {**notes, **sizes}


def _sized(note: NodeNote, node: NodeSeen) -> NodeNote:
    if (note.cpus, note.memory_mb, note.gpus, note.gpu_model) == (node.cpus, node.memory_mb, node.gpus, node.gpu_model):
        return note
    return replace(note, cpus=node.cpus, memory_mb=node.memory_mb, gpus=node.gpus, gpu_model=node.gpu_model)


def _update_nodes(leader: Leader, seen: Mapping[str, NodeSeen], notes: dict[str, NodeNote]) -> None:
    before, notes_before = leader.nodes, leader.sharing.notes
    for name in sorted(before.keys() - seen.keys()):
        leader.scheduler.remove_node(name)
    for name, node in seen.items():
        was, note = before.get(name), notes.get(name)
        # As tuples, which do not compare what is the same object: of a thousand nodes hardly one has changed.
        if (was, note) == (node, notes_before.get(name)):
            continue
        now = capacity(node, note)
        if was is None or capacity(was, notes_before.get(name)) != now:
            leader.scheduler.set_node(now)
            leader.nudges.work.set()
    leader.nodes = dict(seen)
    leader.sharing.notes = notes


def capacity(node: NodeSeen, note: NodeNote | None) -> Node:
    """Return what the scheduler may use of a node: a drained one takes no new tasks, marked devices are bad."""
    note = note or _NO_NOTE
    return Node(
        name=node.name,
        cpus=node.cpus,
        memory_mb=node.memory_mb,
        gpus=node.gpus,
        is_schedulable=node.is_healthy and not note.is_drained,
        bad_devices=node.bad_devices | note.bad_devices,
        gpu_model=node.gpu_model,
        message="; ".join(_problems(node, note)),
    )


def _problems(node: NodeSeen, note: NodeNote) -> Iterator[str]:
    """Yield why not all of a node may be used."""
    if node.message or not node.is_healthy:
        yield node.message or "not healthy"
    if note.is_drained:
        yield f"drained: {note.reason}" if note.reason else "drained"
    bad = sorted(node.bad_devices | note.bad_devices)
    if bad:
        message = f"bad GPUs {', '.join(map(str, bad))}"
        yield f"{message}: {note.bad_because}" if note.bad_because else message


def seen_nodes(nodes: Iterable[NodeSeen]) -> Nodes:
    """Return the nodes that the backend reports, by name, for planning."""
    found = sorted(nodes, key=lambda node: node.name)
    return [(Node(node.name, node.cpus, node.memory_mb, node.gpus), node.gpu_model) for node in found]


def absent_nodes(notes: Iterable[NodeNote], present: Mapping[str, NodeSeen]) -> Nodes:
    """Return the nodes that are noted but not reported, by name, for planning."""
    found = sorted((note for note in notes if note.name not in present), key=lambda note: note.name)
    return [(Node(note.name, note.cpus, note.memory_mb, note.gpus), note.gpu_model) for note in found]


def _update_promises(leader: Leader) -> None:
    sharing = leader.sharing
    version = sharing.setting.version if sharing.setting is not None else 0
    # Nodes and notes that have not changed are the same objects, and are compared quickly.
    looked_at = (version, tuple(leader.nodes.values()), tuple(sharing.notes.values()))
    if looked_at == sharing.looked_at:
        return
    seen = seen_nodes(leader.nodes.values())
    absent = absent_nodes(sharing.notes.values(), leader.nodes)
    made_from = (version, seen, absent)
    if made_from == sharing.made_from:
        sharing.looked_at = looked_at
        return
    arranged = _arranged(leader, seen, absent)
    sharing.looked_at, sharing.made_from = looked_at, made_from
    if arranged.problems != sharing.arrangement.problems:
        for problem in arranged.problems:
            log.warning("the configuration of the virtual clusters has a problem", problem=problem)
    if arranged.config is not None and arranged.config != sharing.arrangement.config:
        demoted = tuple(leader.scheduler.reconfigure(arranged.config).demoted)
        arranged = replace(arranged, demoted=demoted)
        log.info("the virtual clusters changed", virtual_clusters=", ".join(sorted(arranged.virtual_clusters)))
        leader.nudges.work.set()
    sharing.arrangement = arranged


def _arranged(leader: Leader, seen: Nodes, absent: Nodes) -> Arrangement:
    setting = leader.sharing.setting
    try:
        wanted = guarantees_in(setting.body if setting is not None else None)
        return with_queues(leader, wanted, arrange(wanted, seen, absent))
    except Refused as error:
        # An earlier version may have accepted it. Jobs must run all the same.
        problem = f"the stored configuration cannot be read, so `default` has everything: {error.message}"
        return replace(arrange(Guarantees(), seen, absent), problems=(problem,))


def with_queues(leader: Leader, wanted: Guarantees, arranged: Arrangement) -> Arrangement:
    """Return an arrangement that also says which virtual clusters have a queue of the cluster and do not exist."""
    # Not refused: a virtual cluster may be added after the server's start, and removed before its next one.
    problems = queues_of_nobody(leader.queues, wanted.virtual_clusters)
    return replace(arranged, problems=(*arranged.problems, *problems)) if problems else arranged

"""Takes up gangs that run already: after a restart, from records, or under a new configuration.

Nobody is stopped for it. A gang whose devices, type or virtual cluster are no longer there, or whose promise was cut,
runs on without a guarantee; a device the configuration no longer knows is left out of the books.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from openpai.protocol.errors import Refused
from openpai.scheduler.hived.box import Box
from openpai.scheduler.hived.cluster import Cluster
from openpai.scheduler.hived.config import HivedConfig
from openpai.scheduler.hived.dooming import settle_doomed
from openpai.scheduler.hived.journal import Journal, Part, Right
from openpai.scheduler.hived.model import OPPORTUNISTIC, SOUND, GangRecord, GangRequest, NodeHealth, State
from openpai.scheduler.hived.rights import cell_around, endow
from openpai.scheduler.hived.view import View
from openpai.scheduler.model import Spot


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """What a new configuration meant for the gangs there were."""

    kept: tuple[str, ...]
    """Run on as before."""
    demoted: tuple[str, ...]
    """Run on, but without the guarantee they had."""
    waiting: tuple[str, ...]
    """Were waiting for others to leave; nothing is reserved for them any more."""


def restore(
    cluster: Cluster,
    request: GangRequest,
    spots: Sequence[Spot | None],
    since_ms: int | None = None,
    cell_types: Sequence[str | None] = (),
) -> bool:
    """Take up a gang that runs at `spots` (None for members that are over); return whether it has its guarantee.

    `cell_types` names, by member, the type of the promised cell it was served from, where that is known. Raises
    Refused if a device is taken by another gang.
    """
    parts = [_find_part(cluster, request, spot) for spot in spots]
    for part in parts:
        if part is not None and part.mask & (part.box.claimed | part.box.squat):
            others = ", ".join(sorted(part.box.gangs_on(part.mask)))
            told = f"devices of node {part.box.name!r} that gang {request.id!r} is said to run on are used by {others}"
            raise Refused("ConflictJobError", told, "restore each gang once, and none that has ended")
    journal = Journal()
    for part in parts:
        if part is not None:
            part.box.chain.squat(request.id, part.box, part.mask)
    record = GangRecord(request, parts, since_ms=since_ms, spots=tuple(spots))
    cluster.remember(record)
    if request.priority == OPPORTUNISTIC:
        return True
    for member, part in enumerate(parts):
        if part is not None:
            view = _view_for(cluster, request, part.box)
            named = cell_types[member] if member < len(cell_types) else None
            if view is not None:
                record.lost[member] = Right(view, *_hint(view, part, named), 0)
    known = [member for member, part in enumerate(parts) if part is not None]
    if known and len(record.lost) == len(known) and endow(cluster.gangs, journal, request.id):
        return True
    cluster.demote(record, "")
    return False


def _view_for(cluster: Cluster, request: GangRequest, box: Box) -> View | None:
    if request.pinned_cell is not None:
        view = cluster.pins.get((request.virtual_cluster, request.pinned_cell))
        return view if view is not None and view.chain is box.chain else None
    return cluster.views.get(request.virtual_cluster, {}).get(box.chain.spec.name)


def _hint(view: View, part: Part, named: str | None) -> tuple[int, int]:
    types = view.chain.spec.types
    level = types.index(named) + 1 if named in types else view.chain.node_level
    return level, cell_around(view.chain, part, level) or 0


def _find_part(cluster: Cluster, request: GangRequest, spot: Spot | None) -> Part | None:
    """Return the devices of a spot that the configuration knows, None if it knows none of them."""
    if spot is None:
        return None
    boxes = cluster.boxes.get(spot.node, ())
    of_its_type = [box for box in boxes if request.leaf_type in (None, box.chain.spec.leaf_type)]
    # Where the type has another name now the devices are the same: left out of the books they would be given twice.
    return _largest_part(of_its_type, spot) or _largest_part(boxes, spot)


def _largest_part(boxes: Sequence[Box], spot: Spot) -> Part | None:
    best: Part | None = None
    for box in boxes:
        mask = box.mask_of(spot.devices)
        if mask and (best is None or mask.bit_count() > best.mask.bit_count()):
            best = Part(box, mask)
    return best


def moved_to(config: HivedConfig, old: Cluster) -> tuple[Cluster, Reconfigured]:
    """Return the same gangs in the same places under another configuration, and what became of them."""
    new = Cluster(config)
    set_health(new, old.unhealthy)
    running = [record for record in old.gangs.values() if record.state is not State.PREEMPTING]
    running.sort(key=lambda record: (-record.request.priority, record.since_ms or 0, record.request.id))
    kept: list[str] = []
    demoted: list[str] = []
    for record in running:
        gang = record.request.id
        had = record.lazily_preempted_by is None
        types = [type_served(record, member) for member in range(len(record.parts))]
        has = restore(new, _as_placed(record), record.spots, record.since_ms, types)
        new.gangs[gang].checkpoint_ms = record.checkpoint_ms
        (demoted if had and not has else kept).append(gang)
    waiting = [record.request.id for record in old.gangs.values() if record.state is State.PREEMPTING]
    for chain in new.chains.values():
        settle_doomed(chain)
    return new, Reconfigured(tuple(sorted(kept)), tuple(sorted(demoted)), tuple(sorted(waiting)))


def _as_placed(record: GangRecord) -> GangRequest:
    """Return what a gang would ask for to get the type of device it has: its numbers alone may mean several."""
    kinds = (part.box.chain.spec.leaf_type for part in record.parts if part is not None)
    return replace(record.request, leaf_type=next(kinds, record.request.leaf_type))


def type_served(record: GangRecord, member: int) -> str | None:
    """Return the type of the promised cell that serves a member, None if none does."""
    part = record.parts[member]
    if part is None:
        return None
    right = part.right or record.lost.get(member)
    return right.view.chain.spec.types[right.level - 1] if right is not None else None


def set_health(cluster: Cluster, nodes: Mapping[str, NodeHealth]) -> None:
    """Learn how nodes are."""
    changed = set()
    for name, health in nodes.items():
        if health == SOUND:
            cluster.unhealthy.pop(name, None)
        else:
            cluster.unhealthy[name] = health
        for box in cluster.boxes.get(name, ()):
            mask = health.mask(box)
            if mask != box.bad:
                box.chain.set_bad(box, mask)
                changed.add(box.chain.spec.name)
    for chain in sorted(changed):
        settle_doomed(cluster.chains[chain])
    if changed:
        cluster.note_all_freed()

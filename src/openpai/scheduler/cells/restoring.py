"""Adds gangs that run already: after a restart, or under a new configuration.

It stops no gang. A gang whose devices, type or virtual cluster no longer exist, or whose promise was reduced, runs on
without a guarantee; a device that the configuration no longer has is not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from openpai.protocol.errors import Refused
from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import Guarantee, NodeCell, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.feasibility import restore_fault
from openpai.scheduler.cells.guarantees import cell_around, grant, seniority, settle_guarantees
from openpai.scheduler.cells.journal import Journal, Part
from openpai.scheduler.cells.model import OPPORTUNISTIC, SOUND, GangRecord, GangRequest, NodeHealth, State
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.model import Spot

NO_GUARANTEE: Final = ""
"""In place of a cell type: the member ran without a guarantee."""


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The effect of a new configuration on the existing gangs."""

    kept: tuple[str, ...]
    """They run on as before."""
    demoted: tuple[str, ...]
    """They run on without the guarantee they had."""
    waiting: tuple[str, ...]
    """They waited for their victims to leave; nothing is reserved for them any more."""


def restore(
    cluster: Cluster,
    request: GangRequest,
    spots: Sequence[Spot | None],
    since_ms: int | None = None,
    cell_types: Sequence[str | None] = (),
) -> bool:
    """Add a gang that runs at `spots` (None for members that are over); return whether it has its guarantee.

    `cell_types` names, by member, the type of the promised cell that served it, where that is known; NO_GUARANTEE if it
    ran without a guarantee. Raises Refused, changing nothing, if the spots cannot be those of the gang or another gang
    has one of the devices.
    """
    check_spots(request, spots)
    parts = [_find_part(cluster, request, spot) for spot in spots]
    for part in parts:
        if part is not None and part.mask & (part.node_cell.claimed | part.node_cell.opportunistic):
            node = part.node_cell
            others = ", ".join(sorted(node.gangs_on(part.mask)))
            message = f"devices of node {node.name!r} that gang {request.id!r} is said to run on are used by {others}"
            raise Refused("ConflictJobError", message, "restore each gang once, and none that has ended")
    record = take_up(cluster, GangRecord(request, parts, since_ms=since_ms, spots=tuple(spots)), cell_types)
    return grant_guarantee(cluster, record, is_sure=NO_GUARANTEE not in cell_types)


def check_spots(request: GangRequest, spots: Sequence[Spot | None]) -> None:
    """Raise Refused if a gang cannot be running at these spots."""
    if (message := restore_fault(request, spots)) is not None:
        raise Refused("InvalidParametersError", message, "restore every gang as it was placed")


def changed(cluster: Cluster, request: GangRequest) -> GangRecord:
    """Return the gang that a request changes; raise Refused if it does not run, or could not run as it is to be."""
    record = cluster.gangs.get(request.id)
    if record is None:
        message = f"gang {request.id!r} does not run, so nothing of it can be changed"
        raise Refused("InvalidParametersError", message, "name a gang that runs")
    check_spots(request, record.spots)
    return record


def take_up(cluster: Cluster, record: GangRecord, cell_types: Sequence[str | None]) -> GangRecord:
    """Record a gang where it runs, at first without its guarantee."""
    request = record.request
    for part in record.parts:
        if part is not None:
            mutations.run_opportunistic(request.id, part.node_cell, part.mask)
    cluster.remember(record)
    cluster.rebound.add(request.id)
    if request.priority == OPPORTUNISTIC:
        return record
    for member, part in enumerate(record.parts):
        if part is not None:
            share = _share_for(cluster, request, part.node_cell)
            if share is None:
                record.lost.clear()
                break
            named = cell_types[member] if member < len(cell_types) else None
            record.lost[member] = Guarantee(share, *_hint(share, part, named), 0)
    cluster.demote(record, "")
    return record


def grant_guarantee(cluster: Cluster, record: GangRecord, *, is_sure: bool) -> bool:
    """Return to a restored gang its guarantee if `is_sure` that it had one; return whether it has one."""
    if record.request.priority == OPPORTUNISTIC:
        return True
    journal = Journal()
    if is_sure and record.lost and grant(cluster.gangs, journal, record.request.id):
        cluster.promote(record)
        cluster.rebound |= journal.touched()
    return record.lazily_preempted_by is None


def _share_for(cluster: Cluster, request: GangRequest, node_cell: NodeCell) -> VcShare | None:
    if request.pinned_cell is not None:
        share = cluster.pins.get((request.virtual_cluster, request.pinned_cell))
        return share if share is not None and share.chain is node_cell.chain else None
    return cluster.shares.get(request.virtual_cluster, {}).get(node_cell.chain.spec.name)


def _hint(share: VcShare, part: Part, named: str | None) -> tuple[int, int]:
    """Return the level that serves a part and its cell there: the named one, or the lowest that was promised."""
    types = share.chain.spec.types
    if named in types:
        level = types.index(named) + 1
        cell = cell_around(share.chain, part, level)
        if cell is not None:
            return level, cell
    for level in range(1, share.chain.top + 1):
        cell = cell_around(share.chain, part, level)
        if share.promised[level - 1] and cell is not None:
            return level, cell
    return share.chain.node_level, part.node_cell.index


def _find_part(cluster: Cluster, request: GangRequest, spot: Spot | None) -> Part | None:
    """Return the devices of a spot that the configuration has, None if it has none of them."""
    if spot is None:
        return None
    node_cells: Sequence[NodeCell] = cluster.node_cells.get(spot.node, ())
    if request.pinned_cell is not None:
        # A pinned cell decides the type of device, whatever type was asked for.
        pin = cluster.pins.get((request.virtual_cluster, request.pinned_cell))
        pinned = [node_cell for node_cell in node_cells if pin is not None and node_cell.chain is pin.chain]
        found = _largest_part(pinned, spot)
        if found is not None:
            return found
    of_its_type = [node_cell for node_cell in node_cells if request.leaf_type in (None, node_cell.chain.spec.leaf_type)]
    found = _largest_part(of_its_type, spot)
    if found is not None or any(chain.spec.leaf_type == request.leaf_type for chain in cluster.chains.values()):
        return found
    # The type was renamed and the devices are the same: without a record they would be given twice.
    return _largest_part(node_cells, spot)


def _largest_part(node_cells: Sequence[NodeCell], spot: Spot) -> Part | None:
    best: Part | None = None
    for node_cell in node_cells:
        mask = node_cell.mask_of(spot.devices)
        if mask and (best is None or mask.bit_count() > best.mask.bit_count()):
            best = Part(node_cell, mask)
    return best


def moved_to(config: HivedConfig, old: Cluster) -> tuple[Cluster, Reconfigured]:
    """Return a cluster with another configuration and the same gangs in the same places, and its effect on them."""
    new = Cluster(config)
    set_health(new, old.unhealthy)
    running = [record for record in old.gangs.values() if record.state is not State.PREEMPTING]
    # Gangs with a guarantee go first, so that the same promises serve the same gangs again.
    running.sort(key=lambda record: (not _had_guarantee(record), seniority(record)))
    taken = [(record, _moved(new, old, record)) for record in running]
    for before, after in taken:
        grant_guarantee(new, after, is_sure=_had_guarantee(before))
    settle_guarantees(new)
    demoted = sorted(
        before.request.id
        for before, after in taken
        if _had_guarantee(before) and before.request.priority >= 0 and after.lazily_preempted_by is not None
    )
    kept = sorted({before.request.id for before, _ in taken} - set(demoted))
    waiting = sorted(record.request.id for record in old.gangs.values() if record.state is State.PREEMPTING)
    return new, Reconfigured(tuple(kept), tuple(demoted), tuple(waiting))


def _had_guarantee(record: GangRecord) -> bool:
    return record.lazily_preempted_by is None and not record.lost


def _moved(new: Cluster, old: Cluster, record: GangRecord) -> GangRecord:
    """Record a gang under another configuration."""
    parts: list[Part | None] = []
    for part, spot in zip(record.parts, record.spots, strict=True):
        found = _part_in(new, old, part, spot, record.request)
        # Two gangs may have had what is one device now: the later one is not recorded.
        is_taken = found is not None and found.mask & (found.node_cell.claimed | found.node_cell.opportunistic)
        parts.append(None if is_taken else found)
    _drop_doubles(parts)
    types = [type_served(record, member) for member in range(len(record.parts))]
    request = of_its_type(record.request, parts)
    moved = GangRecord(request, parts, since_ms=record.since_ms, checkpoint_ms=record.checkpoint_ms, spots=record.spots)
    return take_up(new, moved, types)


def of_its_type(request: GangRequest, parts: Sequence[Part | None]) -> GangRequest:
    """Return a request for the type of device that a gang has: the numbers of its devices alone may mean several."""
    kinds = (part.node_cell.chain.spec.leaf_type for part in parts if part is not None)
    return replace(request, leaf_type=next(kinds, request.leaf_type))


def _drop_doubles(parts: list[Part | None]) -> None:
    seen: dict[int, int] = {}
    for member, part in enumerate(parts):
        if part is not None:
            key = id(part.node_cell)
            if seen.get(key, 0) & part.mask:
                parts[member] = None
            else:
                seen[key] = seen.get(key, 0) | part.mask


def _part_in(new: Cluster, old: Cluster, part: Part | None, spot: Spot | None, request: GangRequest) -> Part | None:
    """Return where a part of a gang is under another configuration, None if its devices no longer exist."""
    if spot is None:
        return None
    if part is None:
        found = _find_part(new, request, spot)
        is_free = found is not None and not found.mask & (found.node_cell.claimed | found.node_cell.opportunistic)
        return found if is_free else None
    kind = part.node_cell.chain.spec.leaf_type
    node_cells = new.node_cells.get(spot.node, ())
    same = _largest_part([node_cell for node_cell in node_cells if node_cell.chain.spec.leaf_type == kind], spot)
    if same is not None:
        return same
    # A type that the node did not have before may be the old one under another name; one that it had before is a
    # different device with the same number.
    before = {node_cell.chain.spec.leaf_type for node_cell in old.node_cells.get(spot.node, ())}
    return _largest_part([node_cell for node_cell in node_cells if node_cell.chain.spec.leaf_type not in before], spot)


def type_served(record: GangRecord, member: int) -> str | None:
    """Return the type of the promised cell that serves a member, None if none does."""
    part = record.parts[member]
    if part is None:
        return None
    guarantee = part.guarantee or record.lost.get(member)
    return guarantee.share.chain.spec.types[guarantee.level - 1] if guarantee is not None else None


def binding(record: GangRecord) -> tuple[str | None, ...]:
    """Return, by member, the `cell_types` with which `restore` gives the gang the guarantees it has now."""
    types: list[str | None] = []
    for member, part in enumerate(record.parts):
        has_none = part is not None and part.guarantee is None and record.request.priority != OPPORTUNISTIC
        types.append(NO_GUARANTEE if has_none else type_served(record, member))
    return tuple(types)


def set_health(cluster: Cluster, nodes: Mapping[str, NodeHealth]) -> list[str]:
    """Set the health of nodes; return the gangs whose reserved devices cannot be used any more."""
    is_changed = False
    unhealthy_chain: dict[str, None] = {}
    for name, health in nodes.items():
        if health == SOUND:
            cluster.unhealthy.pop(name, None)
        else:
            cluster.unhealthy[name] = health
        for node_cell in cluster.node_cells.get(name, ()):
            mask = health.mask(node_cell)
            if mask != node_cell.bad:
                mutations.set_bad(node_cell, mask)
                is_changed = True
                for gang in sorted(gang for gang, claimed in node_cell.claims.items() if claimed & mask):
                    if gang in cluster.gangs and cluster.gangs[gang].state is State.PREEMPTING:
                        unhealthy_chain[gang] = None
    if is_changed:
        cluster.note_all_freed()
    return list(unhealthy_chain)

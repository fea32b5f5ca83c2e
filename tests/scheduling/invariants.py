"""Checks that the books are right: the laws of the scheduler, and that everything derived follows from the facts.

Slow and independent of the code it checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from openpai.scheduler.cells.chain import CellBinding, Chain, NodeCell, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.free_cells import BAD_WEIGHT
from openpai.scheduler.cells.model import State
from openpai.scheduler.cells.mutations import guaranteed_key
from openpai.scheduler.cells.node_search import room_of
from openpai.scheduler.cells.opportunistic import free_of
from openpai.scheduler.cells.unit_index import UnitIndex, opportunistic_keys
from openpai.scheduler.config.levels import level_short


def audit(cluster: Cluster) -> list[str]:
    """Return what is wrong, nothing if all is well."""
    found = [*_audit_gangs(cluster)]
    for chain in cluster.chains.values():
        found += _audit_pool(chain)
        found += _audit_views(chain, cluster)
        for node_cell in chain.node_cells:
            found += _node_cell_faults(cluster, node_cell)
    return found


def _audit_gangs(cluster: Cluster) -> Iterator[str]:
    for gang, record in cluster.gangs.items():
        for part in record.parts:
            if part is None:
                continue
            held = (part.node_cell.opportunistic_gangs if part.guarantee is None else part.node_cell.claims).get(
                gang, 0
            )
            if part.mask & ~held:
                yield f"{gang} is not on record at node {part.node_cell.name}"
            if (
                part.guarantee is not None
                and (part.guarantee.level, part.guarantee.cell) not in part.guarantee.share.bindings
            ):
                yield f"{gang} has a right out of a cell that its virtual cluster does not hold"
        for victim in record.victims:
            if victim not in cluster.gangs or gang not in cluster.gangs[victim].threats:
                yield f"{gang} waits for {victim}, which does not know"
        if record.victims and record.state is not State.PREEMPTING:
            yield f"{gang} is {record.state} and waits for others to leave"
        if bool(record.threats) != (record.state is State.BEING_PREEMPTED):
            yield f"{gang} is {record.state} with {len(record.threats)} threats"


def _node_cell_faults(cluster: Cluster, node_cell: NodeCell) -> Iterator[str]:
    for label, total, held in (
        ("claims", node_cell.claimed, node_cell.claims),
        ("opportunistic gangs", node_cell.opportunistic, node_cell.opportunistic_gangs),
    ):
        union = 0
        for gang, mask in held.items():
            if union & mask:
                yield f"node {node_cell.name}: {label} overlap"
            union |= mask
            if gang not in cluster.gangs:
                yield f"node {node_cell.name}: {label} of {gang}, which is not known"
        if union != total:
            yield f"node {node_cell.name}: {label} do not add up"
    for gang, mask in node_cell.claims.items():
        record = cluster.gangs.get(gang)
        if mask & node_cell.opportunistic and record is not None and record.state is not State.PREEMPTING:
            yield f"node {node_cell.name}: {gang} runs on a device where another runs"
    keys = opportunistic_keys(node_cell.chain.shape.leaves)
    key = keys.key(free_of(node_cell).bit_count(), node_cell.claimed.bit_count(), bool(node_cell.units))
    if node_cell.chain.opportunistic_index.units[node_cell.index].key != key:
        yield f"node {node_cell.name} is sorted wrongly for gangs without a guarantee"
    for unit in node_cell.units:
        if unit.key != guaranteed_key(unit, node_cell, room_of(unit)):
            yield f"node {node_cell.name} is sorted wrongly for {unit.binding.share.name}"


def _audit_pool(chain: Chain) -> Iterator[str]:
    free_cells = chain.free_cells
    cover = [0] * (len(chain.node_cells) * chain.shape.leaves)
    held = [(share.level, share.index) for share in _holdings(chain)]
    free = {(at + 1, index): burden for at, cells in enumerate(free_cells._where) for index, burden in cells.items()}
    for level, index in [*held, *free]:
        size = chain.spec.leaves(level)
        for leaf in range(index * size, (index + 1) * size):
            cover[leaf] += 1
    if set(cover) != {1}:
        yield f"chain {chain.spec.name}: a device is in no cell or in two"
    for (level, index), burden in free.items():
        if burden != chain.burden(level, index):
            yield f"chain {chain.spec.name}: free cell {index} of level {level} is weighed wrongly"
    if level_short(free_cells.free, free_cells.need, free_cells.children):
        yield f"chain {chain.spec.name}: what is promised cannot be had any more"
    for level in range(chain.node_level, chain.top + 1):
        for index in range(chain.spec.count(level)):
            node_cells = [chain.node_cells[at] for at in chain.nodes_of(level, index)]
            burden = sum(
                node_cell.bad.bit_count() * BAD_WEIGHT + node_cell.opportunistic.bit_count() for node_cell in node_cells
            )
            if burden != chain.burden(level, index):
                yield f"chain {chain.spec.name}: cell {index} of level {level} is counted wrongly"


def _holdings(chain: Chain) -> list[CellBinding]:
    return list({id(unit.binding): unit.binding for node_cell in chain.node_cells for unit in node_cell.units}.values())


def _audit_views(chain: Chain, cluster: Cluster) -> Iterator[str]:
    need = [0] * chain.top
    for share in [share for name in cluster.shares for share in cluster.shares_of(name) if share.chain is chain]:
        claims = 0
        served = [0] * chain.top
        for held in share.bindings.values():
            inside = sum((unit.node_cell.claimed & unit.mask).bit_count() for unit in held.units)
            if inside != held.claims:
                yield f"{share.label}: a cell counts {held.claims} claims and has {inside}"
            if not inside and not held.is_pinned:
                yield f"{share.label}: a cell is held that nobody uses"
            claims += inside
            if not held.is_pinned:
                served[held.level - 1] |= 1 << held.number
        if claims != share.claimed or claims != sum(share.claimed_at.values()):
            yield f"{share.label}: claims do not add up"
        if share.pin is None:
            for at, promised in enumerate(share.promised):
                need[at] += share.unserved[at].bit_count()
                if served[at] & share.unserved[at] or served[at] | share.unserved[at] != (1 << promised) - 1:
                    yield f"{share.label}: promised cells do not add up"
        yield from _audit_units(share)
    if need != chain.free_cells.need:
        yield f"chain {chain.spec.name}: promises to come do not add up"
    yield from _unit_index_faults(chain.opportunistic_index, chain.spec.name)


def _audit_units(share: VcShare) -> Iterator[str]:
    if share.serving != {(held.level, held.number): held for held in share.bindings.values()}:
        yield f"{share.label}: the cells that serve promised cells are listed wrongly"
    for unit_index in share.unit_indexes.values():
        yield from _unit_index_faults(unit_index, share.label)


def _unit_index_faults(unit_index: UnitIndex, label: str) -> Iterator[str]:
    by_key: dict[int, int] = {}
    for unit in unit_index.units.values():
        by_key[unit.key] = by_key.get(unit.key, 0) | unit.bit
    if by_key != unit_index.by_key or sum(1 << key for key in by_key) != unit_index.present:
        yield f"{label}: units are filed wrongly"
    for tally in unit_index.tallies:
        counts: dict[int, int] = {}
        for unit in unit_index.units.values():
            if unit_index.whole >> unit.key & 1:
                cell = unit.place // tally.units_per_cell
                counts[cell] = counts.get(cell, 0) + 1
        if counts != tally.counts or sum(1 << n for n in set(counts.values())) != tally.present:
            yield f"{label}: whole units are counted wrongly"
        members: dict[int, int] = {}
        for unit in unit_index.units.values():
            cell = unit.place // tally.units_per_cell
            members[cell] = members.get(cell, 0) | unit.bit
        if members != {cell: bits for cell, bits in tally.members.items() if bits}:
            yield f"{label}: the units of a larger cell are listed wrongly"

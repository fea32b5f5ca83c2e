"""Checks that the books are right: the laws of the scheduler, and that everything derived follows from the facts.

Slow and independent of the code it watches. For tests, and for whoever does not trust a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from openpai.scheduler.cells.chain import Chain, guaranteed_key
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.free_cells import WORSE
from openpai.scheduler.cells.model import State
from openpai.scheduler.cells.node_cell import Box, Holding
from openpai.scheduler.cells.opportunistic import free_of
from openpai.scheduler.cells.search import room_of
from openpai.scheduler.cells.unit_index import Shelf, leftover_keys
from openpai.scheduler.config.levels import level_short


def audit(cluster: Cluster) -> list[str]:
    """Return what is wrong, nothing if all is well."""
    found = [*_audit_gangs(cluster)]
    for chain in cluster.chains.values():
        found += _audit_pool(chain)
        found += _audit_views(chain, cluster)
        for box in chain.boxes:
            found += _audit_box(cluster, box)
    return found


def _audit_gangs(cluster: Cluster) -> Iterator[str]:
    for gang, record in cluster.gangs.items():
        for part in record.parts:
            if part is None:
                continue
            held = (part.box.squatters if part.right is None else part.box.claims).get(gang, 0)
            if part.mask & ~held:
                yield f"{gang} is not on record at node {part.box.name}"
            if part.right is not None and (part.right.level, part.right.cell) not in part.right.view.holdings:
                yield f"{gang} has a right out of a cell that its virtual cluster does not hold"
        for victim in record.victims:
            if victim not in cluster.gangs or gang not in cluster.gangs[victim].threats:
                yield f"{gang} waits for {victim}, which does not know"
        if record.victims and record.state is not State.PREEMPTING:
            yield f"{gang} is {record.state} and waits for others to leave"
        if bool(record.threats) != (record.state is State.BEING_PREEMPTED):
            yield f"{gang} is {record.state} with {len(record.threats)} threats"


def _audit_box(cluster: Cluster, box: Box) -> Iterator[str]:
    for label, total, held in (("claims", box.claimed, box.claims), ("squatters", box.squat, box.squatters)):
        union = 0
        for gang, mask in held.items():
            if union & mask:
                yield f"node {box.name}: {label} overlap"
            union |= mask
            if gang not in cluster.gangs:
                yield f"node {box.name}: {label} of {gang}, which is not known"
        if union != total:
            yield f"node {box.name}: {label} do not add up"
    for gang, mask in box.claims.items():
        record = cluster.gangs.get(gang)
        if mask & box.squat and record is not None and record.state is not State.PREEMPTING:
            yield f"node {box.name}: {gang} runs on a device where another runs"
    keys = leftover_keys(box.chain.shape.leaves)
    key = keys.key(free_of(box).bit_count(), box.claimed.bit_count(), bool(box.units))
    if box.common.key != key:
        yield f"node {box.name} is sorted wrongly for gangs without a guarantee"
    for unit in box.units:
        if unit.key != guaranteed_key(unit, box, room_of(unit)):
            yield f"node {box.name} is sorted wrongly for {unit.holding.view.name}"


def _audit_pool(chain: Chain) -> Iterator[str]:
    pool = chain.pool
    cover = [0] * (len(chain.boxes) * chain.shape.leaves)
    held = [(view.level, view.index) for view in _holdings(chain)]
    free = [(level, index) for level in range(1, chain.top + 1) for index in pool.free_cells(level)]
    for level, index in [*held, *free]:
        size = chain.spec.leaves(level)
        for leaf in range(index * size, (index + 1) * size):
            cover[leaf] += 1
    if set(cover) != {1}:
        yield f"chain {chain.spec.name}: a device is in no cell or in two"
    for level, index in free:
        if pool.burden_of(level, index) != chain.burden(level, index):
            yield f"chain {chain.spec.name}: free cell {index} of level {level} is weighed wrongly"
    if level_short(pool.free, pool.need, pool.children):
        yield f"chain {chain.spec.name}: what is promised cannot be had any more"
    for level in range(chain.node_level, chain.top + 1):
        for index in range(chain.spec.count(level)):
            boxes = [chain.boxes[at] for at in chain.boxes_of(level, index)]
            burden = sum(box.bad.bit_count() * WORSE + box.squat.bit_count() for box in boxes)
            if burden != chain.burden(level, index):
                yield f"chain {chain.spec.name}: cell {index} of level {level} is counted wrongly"


def _holdings(chain: Chain) -> list[Holding]:
    return list({id(unit.holding): unit.holding for box in chain.boxes for unit in box.units}.values())


def _audit_views(chain: Chain, cluster: Cluster) -> Iterator[str]:
    need = [0] * chain.top
    for view in [view for name in cluster.views for view in cluster.views_of(name) if view.chain is chain]:
        claims = 0
        served = [0] * chain.top
        for held in view.holdings.values():
            inside = sum((unit.box.claimed & unit.mask).bit_count() for unit in held.units)
            if inside != held.claims:
                yield f"{view.label}: a cell counts {held.claims} claims and has {inside}"
            if not inside and not held.is_pinned:
                yield f"{view.label}: a cell is held that nobody uses"
            claims += inside
            if not held.is_pinned:
                served[held.level - 1] |= 1 << held.number
        if claims != view.claimed or claims != sum(view.claimed_at.values()):
            yield f"{view.label}: claims do not add up"
        if view.pin is None:
            for at, promised in enumerate(view.promised):
                need[at] += view.unserved[at].bit_count()
                if served[at] & view.unserved[at] or served[at] | view.unserved[at] != (1 << promised) - 1:
                    yield f"{view.label}: promised cells do not add up"
        for shelf in view.shelves.values():
            yield from _audit_shelf(shelf, view.label)
    if need != chain.pool.need:
        yield f"chain {chain.spec.name}: promises to come do not add up"
    yield from _audit_shelf(chain.commons, chain.spec.name)


def _audit_shelf(shelf: Shelf, label: str) -> Iterator[str]:
    by_key: dict[int, int] = {}
    for unit in shelf.units.values():
        by_key[unit.key] = by_key.get(unit.key, 0) | unit.bit
    if by_key != shelf.by_key or sum(1 << key for key in by_key) != shelf.present:
        yield f"{label}: units are filed wrongly"
    for tally in shelf.tallies:
        counts: dict[int, int] = {}
        for unit in shelf.units.values():
            if shelf.whole >> unit.key & 1:
                cell = unit.index // tally.units_per_cell
                counts[cell] = counts.get(cell, 0) + 1
        if counts != tally.counts or sum(1 << n for n in set(counts.values())) != tally.present:
            yield f"{label}: whole units are counted wrongly"

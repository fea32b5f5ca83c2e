"""Every change to the records of a chain.

Each change has an exact opposite, and derived values (keys, burdens, tallies) depend only on the records, never on the
order of the changes. So a decision can be tried and undone without a trace.
"""

from __future__ import annotations

from openpai.scheduler.cells.chain import CellBinding, NodeCell, Unit, VcShare
from openpai.scheduler.cells.unit_index import UnitIndex


def bind(share: VcShare, level: int, index: int, number: int | None = None) -> CellBinding:
    """Bind a free cell, or part of one, to a promised cell of the share: the one numbered, or the first unserved."""
    chain = share.chain
    chain.version += 1
    chain.free_cells.take(level, index)
    chain.free_cells.need[level - 1] -= 1
    unserved = share.unserved[level - 1]
    if number is None:
        number = (unserved & -unserved).bit_length() - 1
    share.unserved[level - 1] = unserved & ~(1 << number)
    return open_units(CellBinding(share, level, index, number))


def open_units(binding: CellBinding) -> CellBinding:
    """Add the units of a bound cell to the indexes of its share."""
    share, level, index = binding.share, binding.level, binding.index
    chain = share.chain
    share.bindings[level, index] = share.serving[level, binding.number] = binding
    first = share.first_unit(level, binding.number)
    if level < chain.node_level:
        node_cell = chain.node_cells[index // chain.per_node(level)]
        node_cell.is_split = True
        _add_unit(binding, share.unit_index(level), first, node_cell, chain.mask_in_node(level, index))
    else:
        unit_index = share.unit_index(chain.node_level)
        for number, at in enumerate(chain.nodes_of(level, index), first):
            _add_unit(binding, unit_index, number, chain.node_cells[at], chain.shape.full)
    return binding


def _add_unit(binding: CellBinding, unit_index: UnitIndex[Unit], index: int, node_cell: NodeCell, mask: int) -> None:
    unit = Unit(unit_index, index, node_cell, mask, binding)
    binding.units.append(unit)
    node_cell.units.append(unit)
    unit_index.add(unit, -1)
    binding.share.bad += (node_cell.bad & mask).bit_count()
    _refresh(node_cell)


def unbind(binding: CellBinding) -> None:
    """Return the cell to the free cells; the promised cell that it served is unserved again."""
    share = binding.share
    chain = share.chain
    chain.version += 1
    del share.bindings[binding.level, binding.index], share.serving[binding.level, binding.number]
    for unit in binding.units:
        unit.node_cell.units.remove(unit)
        unit.unit_index.remove(unit)
        share.bad -= (unit.node_cell.bad & unit.mask).bit_count()
        _refresh(unit.node_cell)
    share.unserved[binding.level - 1] |= 1 << binding.number
    chain.free_cells.need[binding.level - 1] += 1
    chain.free_cells.put(binding.level, binding.index)


def claim(gang: str, priority: int, unit: Unit, mask: int) -> None:
    """Give a gang a guarantee for some devices of a unit."""
    node_cell = unit.node_cell
    number = mask.bit_count()
    node_cell.claimed |= mask
    node_cell.claims[gang] = node_cell.claims.get(gang, 0) | mask
    binding = unit.binding
    binding.claims += number
    share = binding.share
    share.claimed += number
    share.claimed_at[priority] = share.claimed_at.get(priority, 0) + number
    _refresh(node_cell)


def unclaim(gang: str, priority: int, unit: Unit, mask: int) -> None:
    """Take the guarantee back, and unbind the cell if that was its last claim and it is not pinned."""
    node_cell = unit.node_cell
    number = mask.bit_count()
    node_cell.claimed &= ~mask
    _remove(node_cell.claims, gang, mask)
    binding = unit.binding
    binding.claims -= number
    share = binding.share
    share.claimed -= number
    share.claimed_at[priority] -= number
    if not share.claimed_at[priority]:
        del share.claimed_at[priority]
    if binding.claims or binding.is_pinned:
        _refresh(node_cell)
    else:
        unbind(binding)


def run_opportunistic(gang: str, node_cell: NodeCell, mask: int) -> None:
    """Record that a gang runs on devices without a guarantee."""
    node_cell.opportunistic |= mask
    node_cell.opportunistic_gangs[gang] = node_cell.opportunistic_gangs.get(gang, 0) | mask
    _count_opportunistic(node_cell, mask.bit_count())


def end_opportunistic(gang: str, node_cell: NodeCell, mask: int) -> None:
    """Undo `run_opportunistic`."""
    node_cell.opportunistic &= ~mask
    _remove(node_cell.opportunistic_gangs, gang, mask)
    _count_opportunistic(node_cell, -mask.bit_count())


def _count_opportunistic(node_cell: NodeCell, difference: int) -> None:
    chain = node_cell.chain
    chain.opportunistic_devices += difference
    for at, counts in enumerate(chain.opportunistic_counts):
        counts[node_cell.index // chain.nodes_per[chain.node_level + at]] += difference
    _refresh(node_cell)
    _refresh_free_cells(node_cell)


def _refresh_free_cells(node_cell: NodeCell) -> None:
    chain = node_cell.chain
    for level in range(chain.node_level, chain.top + 1):
        if chain.free_cells.refresh(level, node_cell.index // chain.nodes_per[level]):
            return
    if node_cell.is_split:
        for level in range(1, chain.node_level):
            per = chain.per_node(level)
            for index in range(node_cell.index * per, (node_cell.index + 1) * per):
                chain.free_cells.refresh(level, index)


def set_bad(node_cell: NodeCell, mask: int) -> None:
    """Set which devices of a node are bad."""
    chain = node_cell.chain
    chain.version += 1
    change = mask.bit_count() - node_cell.bad.bit_count()
    for unit in node_cell.units:
        unit.binding.share.bad += (mask & unit.mask).bit_count() - (node_cell.bad & unit.mask).bit_count()
    node_cell.bad = mask
    for at, counts in enumerate(chain.bad_counts):
        counts[node_cell.index // chain.nodes_per[chain.node_level + at]] += change
    if mask:
        chain.bad_nodes.add(node_cell.index)
    else:
        chain.bad_nodes.discard(node_cell.index)
    _refresh(node_cell)
    _refresh_free_cells(node_cell)


def _refresh(node_cell: NodeCell) -> None:
    """Update the keys of all units of a node."""
    if not node_cell.is_stale:
        node_cell.is_stale = True
        node_cell.chain.stale.append(node_cell)
    left = node_cell.full & ~(node_cell.claimed | node_cell.bad)
    for unit in node_cell.units:
        free = unit.mask & left
        unit_index = unit.unit_index
        key = guaranteed_key(unit, node_cell, free)
        unit_index.move(unit, key)


def guaranteed_key(unit: Unit, node_cell: NodeCell, free: int) -> int:
    """Return the key of a unit for its virtual cluster."""
    binding = unit.binding
    keys = binding.share.keys[min(binding.level, node_cell.chain.node_level)]
    tenants = (
        len(node_cell.claims)
        if unit.mask == node_cell.full
        else sum(1 for part in node_cell.claims.values() if part & unit.mask)
    )
    return keys.key(free.bit_count(), tenants, (free & node_cell.opportunistic).bit_count())


def _remove(held: dict[str, int], gang: str, mask: int) -> None:
    left = held[gang] & ~mask
    if left:
        held[gang] = left
    else:
        del held[gang]

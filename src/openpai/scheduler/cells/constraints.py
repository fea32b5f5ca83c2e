"""Where a gang may run by its own request: inside one cell of a type, and on certain nodes only.

A cluster has many cells of a type, and most have no room or are equivalent to another one. Only cells are yielded where
a virtual cluster has devices or could get some, and of equivalent free cells only the first.
"""

from __future__ import annotations

from collections.abc import Iterator

from openpai.scheduler.cells.chain import Chain, VcShare
from openpai.scheduler.cells.free_cells import BAD_WEIGHT
from openpai.scheduler.cells.model import GangRequest
from openpai.scheduler.cells.node_search import Within


def topology_level(chain: Chain, request: GangRequest) -> int:
    """Return the level of the cell that a gang asks to stay inside; 0 if it does not ask, or no level has that type."""
    topology = request.topology
    return (
        chain.spec.types.index(topology.cell_type) + 1
        if topology is not None and topology.cell_type in chain.spec.types
        else 0
    )


def node_sets(share: VcShare, request: GangRequest) -> Iterator[Within | None]:
    """Yield the sets of nodes to try one after the other for a gang with a guarantee; None for all nodes."""
    chain = share.chain
    allowed = allowed_nodes(chain, request)
    level = topology_level(chain, request)
    if level:
        yield from cells_within(share, level, sum(request.sizes()), allowed)
    if request.topology is None or not request.topology.is_required:
        yield allowed


def opportunistic_node_sets(chain: Chain, request: GangRequest) -> Iterator[Within | None]:
    """Yield the sets of nodes to try one after the other for an opportunistic gang; None for all nodes."""
    allowed = allowed_nodes(chain, request)
    level = topology_level(chain, request)
    if level:
        yield from idle_cells_within(chain, level, sum(request.sizes()), allowed)
    if request.topology is None or not request.topology.is_required:
        yield allowed


def allowed_nodes(chain: Chain, request: GangRequest) -> Within | None:
    """Return the nodes of a chain that a gang may use, None if it may use all."""
    if request.nodes is None:
        return None
    bits = 0
    for node_cell in chain.node_cells:
        if node_cell.name in request.nodes:
            bits |= 1 << node_cell.index
    return Within(chain, bits)


def cells_within(share: VcShare, level: int, need: int, within: Within | None) -> Iterator[Within]:
    """Yield the cells of a level, inside a set of nodes, where a share has or could get `need` devices."""
    chain = share.chain
    if need <= chain.spec.leaves(level):
        for cell in _cells_of(share, level, within):
            if _has_room(share, level, cell, need):
                yield from _inside(chain, level, cell, within)


def idle_cells_within(chain: Chain, level: int, need: int, within: Within | None) -> Iterator[Within]:
    """Yield the cells of a level, inside a set of nodes, where `need` devices may be idle."""
    if need <= chain.spec.leaves(level):
        usable = -1 if within is None else within.cells(level)
        for cell in range(chain.spec.count(level)):
            if usable >> cell & 1 and _free_in(chain, level, cell) >= need:
                yield from _inside(chain, level, cell, within)


def _inside(chain: Chain, level: int, cell: int, allowed: Within | None) -> Iterator[Within]:
    """Yield the nodes, or the devices, of a cell that may be used, if there are any."""
    if allowed is not None and allowed.mask != -1 and level >= chain.node_level:
        yield allowed
        return
    if level < chain.node_level:
        at, mask = cell // chain.per_node(level), chain.mask_in_node(level, cell)
        if allowed is not None and allowed.mask != -1 and not allowed.mask & ~mask:
            yield allowed  # the cell around is smaller than this one
        elif allowed is None or (allowed.bits >> at & 1 and not mask & ~allowed.mask):
            yield Within(chain, 1 << at, (at, 1), chain.mask_in_node(level, cell))
        return
    inside = Within.cell(chain, chain.nodes_per[level], cell)
    if allowed is None:
        yield inside
    elif inside.bits & allowed.bits:
        yield Within(chain, inside.bits & allowed.bits)


def _free_in(chain: Chain, level: int, cell: int) -> int:
    """Return an upper bound on the idle devices of a cell."""
    if level >= chain.node_level:
        return chain.spec.leaves(level) - max(divmod(chain.burden(level, cell), BAD_WEIGHT))
    node_cell = chain.node_cells[cell // chain.per_node(level)]
    return (
        chain.mask_in_node(level, cell) & ~(node_cell.claimed | node_cell.opportunistic | node_cell.bad)
    ).bit_count()


def _cells_of(share: VcShare, level: int, allowed: Within | None) -> Iterator[int]:
    """Yield the cells of a level where a share has units, then those where it could get some."""
    chain = share.chain
    usable = -1 if allowed is None else allowed.cells(level)
    held = share.bindings.values()
    own = {cell for each in held for cell in _related(chain, level, each.level, each.index)}
    yield from (cell for cell in sorted(own) if usable >> cell & 1)
    if not any(share.unserved):
        return
    known = set(own)
    for free_level in range(1, chain.top + 1):
        within = -1 if allowed is None else allowed.cells(free_level)
        # Larger cells in which nothing is bad or in use are equivalent, and so are the cells inside each of them.
        is_alike = free_level >= level and allowed is None
        for index in (chain.free_cells.kinds if is_alike else chain.free_cells.cells)(free_level, within):
            related = _related(chain, level, free_level, index)
            if is_alike and not chain.burden(free_level, index):
                related = related[:1]
            for cell in related:
                if usable >> cell & 1 and cell not in known:
                    known.add(cell)
                    yield cell


def _has_room(share: VcShare, level: int, cell: int, need: int) -> bool:
    """Return whether the healthy devices of a cell that a share has or could get are enough."""
    chain = share.chain
    inside = chain.mask_in_node(level, cell) if level < chain.node_level else chain.shape.full
    may_open = any(share.unserved)
    for at in chain.nodes_of(level, cell):
        node_cell = chain.node_cells[at]
        mask = node_cell.full if may_open else 0
        for unit in node_cell.units:
            if unit.binding.share is not share:
                mask &= ~unit.mask
            else:
                mask |= unit.mask
        need -= (mask & inside & ~(node_cell.claimed | node_cell.bad)).bit_count()
        if need <= 0:
            return True
    return False


def _related(chain: Chain, level: int, of_level: int, index: int) -> range:
    """Return the cells of `level` inside a cell of another level, or the one around it."""
    leaves = chain.spec.leaves
    if of_level < level:
        around = index * leaves(of_level) // leaves(level)
        return range(around, around + 1)
    each = leaves(of_level) // leaves(level)
    return range(index * each, (index + 1) * each)

"""Finds the promised cells that only bad hardware could serve, so that a virtual cluster sees what it lost.

While a virtual cluster has more unserved cells of a level than there are healthy ones to bind, bad cells stand for
the rest. This is computed for display and never recorded, so bad hardware changes a decision only through the devices
that are bad.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import Chain, Guarantee, VcShare


def doomed_cells(chain: Chain) -> tuple[Guarantee, ...]:
    """Return the bad cells that stand for promises which no healthy cell could serve."""
    if not chain.bad_nodes:
        return ()
    if chain.doomed_at != chain.version:
        with doomed_bound(chain) as found:
            chain.doomed = found
        chain.doomed_at = chain.version
    return chain.doomed


def lost_devices(share: VcShare) -> int:
    """Return how many bad devices are in the cells that serve a share or stand for its doomed promises."""
    if not share.chain.bad_nodes:
        return 0
    return share.bad + doomed_devices(share)


def doomed_devices(share: VcShare) -> int:
    """Return how many bad devices are in the cells that stand for a share's doomed promises."""
    chain = share.chain
    lost = 0
    for guarantee in doomed_cells(chain):
        if guarantee.share is share:
            node_cells = (chain.node_cells[at] for at in chain.nodes_of(guarantee.level, guarantee.cell))
            if guarantee.level < chain.node_level:
                mask = chain.mask_in_node(guarantee.level, guarantee.cell)
                lost += sum((node_cell.bad & mask).bit_count() for node_cell in node_cells)
            else:
                lost += sum(node_cell.bad.bit_count() for node_cell in node_cells)
    return lost


@contextmanager
def doomed_bound(chain: Chain) -> Iterator[tuple[Guarantee, ...]]:
    """Bind the doomed cells while the context lasts, to show them."""
    version = chain.version
    bound: list[Guarantee] = []
    if chain.bad_nodes:
        for name in sorted(chain.shares):
            for level in range(chain.top, 0, -1):
                if chain.shares[name].unserved[level - 1]:
                    bound += _doom(chain, chain.shares[name], level)
    try:
        yield tuple(bound)
    finally:
        for guarantee in reversed(bound):
            mutations.unbind(guarantee.share.bindings[guarantee.level, guarantee.cell])
        chain.version = version


def _doom(chain: Chain, share: VcShare, level: int) -> Iterator[Guarantee]:
    free_cells = chain.free_cells
    # Binding a bad cell lowers the unserved, the obtainable and the bad cells by one each, so the gap stays the same.
    gap = share.unserved[level - 1].bit_count() - free_cells.obtainable(level)
    if gap + chain.bad_cells(level) <= 0:
        return
    bad = [index for index in _bad_cells(chain, level) if free_cells.cover(level, index)]
    excess = gap + len(bad)
    for index in bad:
        if excess <= 0 or not share.unserved[level - 1]:
            return
        cover = free_cells.cover(level, index)
        if cover and free_cells.is_safe(level, cover):
            binding = mutations.bind(share, level, index)
            yield Guarantee(share, level, index, binding.number)
            excess -= 1


def _bad_cells(chain: Chain, level: int) -> list[int]:
    """Return the cells of a level with a bad device, in order."""
    if level >= chain.node_level:
        return sorted({index // chain.nodes_per[level] for index in chain.bad_nodes})
    per = chain.per_node(level)
    return sorted(
        index * per + at
        for index in chain.bad_nodes
        for at in range(per)
        if chain.shape.cells[level - 1][at] & chain.node_cells[index].bad
    )

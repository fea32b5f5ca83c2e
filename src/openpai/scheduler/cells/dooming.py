"""Says which promised cells only bad hardware could serve, so that a virtual cluster sees what it lost.

While a virtual cluster has more unserved cells of a level than there are sound ones to be had, bad cells stand for
the rest. This is worked out from the books when somebody asks and never written into them, so bad hardware changes no
decision except through the devices that are bad.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from openpai.scheduler.cells.chain import Chain
from openpai.scheduler.cells.journal import Right
from openpai.scheduler.cells.vc_share import View


def doomed_cells(chain: Chain) -> tuple[Right, ...]:
    """Return the bad cells that stand for promises no sound cell could serve."""
    if not chain.bad_boxes:
        return ()
    if chain.doomed_at != chain.version:
        with shown(chain) as found:
            chain.doomed = found
        chain.doomed_at = chain.version
    return chain.doomed


def lost_devices(view: View) -> int:
    """Return how many bad devices are in the cells that serve a view, or stand for what nothing else could serve."""
    if not view.chain.bad_boxes:
        return 0
    return view.bad + doomed_devices(view)


def doomed_devices(view: View) -> int:
    """Return how many bad devices are in the cells that stand for a view's unserved promises."""
    chain = view.chain
    lost = 0
    for right in doomed_cells(chain):
        if right.view is view:
            boxes = (chain.boxes[at] for at in chain.boxes_of(right.level, right.cell))
            if right.level < chain.node_level:
                mask = chain.mask_in_box(right.level, right.cell)
                lost += sum((box.bad & mask).bit_count() for box in boxes)
            else:
                lost += sum(box.bad.bit_count() for box in boxes)
    return lost


@contextmanager
def shown(chain: Chain) -> Iterator[tuple[Right, ...]]:
    """Bind the doomed cells for as long as the context lasts, for whoever shows the books."""
    version = chain.version
    bound: list[Right] = []
    if chain.bad_boxes:
        for name in sorted(chain.views):
            for level in range(chain.top, 0, -1):
                if chain.views[name].unserved[level - 1]:
                    bound += _doom(chain, chain.views[name], level)
    try:
        yield tuple(bound)
    finally:
        for right in reversed(bound):
            chain.unbind(right.view.holdings[right.level, right.cell])
        chain.version = version


def _doom(chain: Chain, view: View, level: int) -> Iterator[Right]:
    pool = chain.pool
    # Each bad cell bound lowers what is wanted, what is to be had and what of it is bad by one: the gap stays known.
    gap = view.unserved[level - 1].bit_count() - pool.obtainable(level)
    if gap + chain.bad_cells(level) <= 0:
        return
    bad = [index for index in _bad_cells(chain, level) if pool.cover(level, index)]
    excess = gap + len(bad)
    for index in bad:
        if excess <= 0 or not view.unserved[level - 1]:
            return
        cover = pool.cover(level, index)
        if cover and pool.is_safe(level, cover):
            holding = chain.bind(view, level, index)
            yield Right(view, level, index, holding.number)
            excess -= 1


def _bad_cells(chain: Chain, level: int) -> list[int]:
    """Return the cells of a level with a bad device, in order."""
    if level >= chain.node_level:
        return sorted({index // chain.boxes_per[level] for index in chain.bad_boxes})
    per = chain.per_box(level)
    return sorted(
        index * per + at
        for index in chain.bad_boxes
        for at in range(per)
        if chain.shape.cells[level - 1][at] & chain.boxes[index].bad
    )

"""Lets a virtual cluster see what it lost: bad cells are bound to promises that only bad cells could serve.

While a virtual cluster has more promised cells of a level to come than there are sound ones to be had, a bad one serves
one of them. When enough are sound again, or the cell itself is, the promise is free again.
"""

from __future__ import annotations

from openpai.scheduler.hived.box import Holding
from openpai.scheduler.hived.chain import Chain


def settle_doomed(chain: Chain) -> None:
    """Bind the bad cells that must be bound, and no others. Asking twice changes nothing."""
    for view in chain.views.values():
        for holding in [held for held in view.holdings.values() if held.is_doomed]:
            holding.is_doomed = False
            if not holding.claims:
                chain.unbind(holding)
    if not chain.bad_boxes:
        return
    for name in sorted(chain.views):
        view = chain.views[name]
        for level in range(chain.top, 0, -1):
            while view.unserved[level - 1]:
                holding_ = _doom_one(chain, name, level)
                if holding_ is None:
                    break
                holding_.is_doomed = True


def _doom_one(chain: Chain, name: str, level: int) -> Holding | None:
    view = chain.views[name]
    bad = [index for index in _bad_cells(chain, level) if chain.pool.cover(level, index)]
    if view.unserved[level - 1].bit_count() <= chain.pool.obtainable(level) - len(bad):
        return None
    for index in bad:
        if chain.pool.is_safe(level, chain.pool.cover(level, index)):
            return chain.bind(view, level, index)
    return None


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

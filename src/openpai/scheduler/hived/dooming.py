"""Lets a virtual cluster see what it lost: bad cells are bound to promises that only bad cells could serve.

While a virtual cluster has more promised cells of a level to come than there are sound ones to be had, a bad one serves
one of them. When enough are sound again, or the cell itself is, the promise is free again.
"""

from __future__ import annotations

from collections.abc import Iterable

from openpai.scheduler.hived.chain import Chain
from openpai.scheduler.hived.journal import Right
from openpai.scheduler.hived.view import View


def settle_doomed(chain: Chain) -> None:
    """Bind the bad cells that must be bound, and no others. Asking twice changes nothing."""
    release_doomed(chain)
    if not chain.bad_boxes:
        return
    for name in sorted(chain.views):
        view = chain.views[name]
        for level in range(chain.top, 0, -1):
            if view.unserved[level - 1]:
                _doom(chain, view, level)


def release_doomed(chain: Chain) -> tuple[Right, ...]:
    """Unbind the cells that are bound only because they are bad, and return them for `bind_again`."""
    released = []
    for view in chain.views.values():
        for holding in [held for held in view.holdings.values() if held.is_doomed]:
            released.append(Right(view, holding.level, holding.index, holding.number))
            holding.is_doomed = False
            if not holding.claims:
                chain.unbind(holding)
    return tuple(released)


def bind_again(chain: Chain, cells: Iterable[Right]) -> None:
    """Bind exactly what `release_doomed` released; nothing else may have changed meanwhile."""
    for view, level, index, number in cells:
        holding = view.holdings.get((level, index)) or chain.bind(view, level, index, number)
        holding.is_doomed = True


def _doom(chain: Chain, view: View, level: int) -> None:
    pool = chain.pool
    bad = [index for index in _bad_cells(chain, level) if pool.cover(level, index)]
    # Each bad cell bound lowers what is wanted, what is to be had and what of it is bad by one: the gap stays known.
    excess = view.unserved[level - 1].bit_count() - (pool.obtainable(level) - len(bad))
    for index in bad:
        if excess <= 0 or not view.unserved[level - 1]:
            return
        cover = pool.cover(level, index)
        if cover and pool.is_safe(level, cover):
            chain.bind(view, level, index).is_doomed = True
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

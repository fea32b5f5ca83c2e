"""Finds the right by which a gang may have devices it already runs on: after a restart, a new configuration, a cancel.

The promised cell it had before is preferred, then any that reaches there. If only smaller promised cells of its own
virtual cluster are in the way, they are given back in exchange for the larger one around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from openpai.scheduler.hived.chain import Chain
from openpai.scheduler.hived.journal import Journal, Part, Right
from openpai.scheduler.hived.model import GangRecord
from openpai.scheduler.hived.view import View


def cell_around(chain: Chain, part: Part, level: int) -> int | None:
    """Return which cell of a level contains a part, None if none contains all of it."""
    if level >= chain.node_level:
        return part.box.index // chain.boxes_per[level]
    size = chain.spec.leaves(level)
    at = ((part.mask & -part.mask).bit_length() - 1) // size
    if part.mask & ~chain.shape.cells[level - 1][at]:
        return None
    return part.box.index * chain.per_box(level) + at


def find_right(view: View, part: Part, hint: int) -> Right | None:
    """Return a right of the view that covers a part, preferably out of a promised cell of level `hint`."""
    box = part.box
    chain = box.chain
    if part.mask & box.claimed:
        return None
    holding = view.holding_of(box, part.mask)
    if holding is not None:
        return Right(view, holding.level, holding.index, holding.number)
    for level in _levels(view, hint):
        cell = cell_around(chain, part, level)
        if cell is None:
            continue
        cover = chain.pool.cover(level, cell)
        if cover and chain.pool.is_safe(level, cover):
            unserved = view.unserved[level - 1]
            return Right(view, level, cell, (unserved & -unserved).bit_length() - 1)
    return None


def _levels(view: View, hint: int) -> Iterator[int]:
    order = [hint, *(level for level in range(1, len(view.unserved) + 1) if level != hint)]
    return (level for level in order if 0 < level <= len(view.unserved) and view.unserved[level - 1])


def endow(gangs: Mapping[str, GangRecord], journal: Journal, gang: str) -> bool:
    """Give a gang the rights it lost; True if it has all of them again, False (and no trace) if one is gone."""
    record = gangs[gang]
    mark = journal.mark
    for member, lost in sorted(record.lost.items()):
        part = record.parts[member]
        if part is None:
            continue
        right = find_right(lost.view, part, lost.level)
        if right is None and exchange(gangs, journal, lost.view, part):
            right = find_right(lost.view, part, lost.level)
        if right is None:
            journal.undo(mark)
            return False
        journal.endow(gang, record.request.priority, part, right)
    record.lost.clear()
    return True


def exchange(gangs: Mapping[str, GangRecord], journal: Journal, view: View, part: Part) -> bool:
    """Let a larger promised cell serve what smaller ones around a part serve; False, without a trace, if it cannot."""
    chain = part.box.chain
    for level in range(chain.node_level, chain.top + 1):
        if not view.unserved[level - 1]:
            continue
        cell = part.box.index // chain.boxes_per[level]
        claimed = _claimed_inside(gangs, view, chain, level, cell)
        if not claimed:
            continue
        mark = journal.mark
        for gang, priority, held in claimed:
            journal.strip(gang, priority, held)
        cover = chain.pool.cover(level, cell)
        if cover and chain.pool.is_safe(level, cover):
            unserved = view.unserved[level - 1]
            right = Right(view, level, cell, (unserved & -unserved).bit_length() - 1)
            for gang, priority, held in claimed:
                journal.endow(gang, priority, held, right)
            return True
        journal.undo(mark)
    return False


def _claimed_inside(
    gangs: Mapping[str, GangRecord], view: View, chain: Chain, level: int, cell: int
) -> list[tuple[str, int, Part]]:
    """Return every claim inside a cell, or nothing if one of them is not the view's own."""
    found = []
    for index in chain.boxes_of(level, cell):
        box = chain.boxes[index]
        for gang in sorted(box.claims):
            record = gangs.get(gang)
            if record is None:
                return []
            for part in record.parts:
                if part is not None and part.box is box and part.right is not None:
                    if part.right.view is not view or part.right.level >= level:
                        return []
                    found.append((gang, record.request.priority, part))
    return found

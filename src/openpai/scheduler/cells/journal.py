"""A journal of changes that can be undone, so that a decision can be tried before it is committed.

Each change has an exact opposite; undoing them in reverse order leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass

from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import CellBinding, Guarantee, NodeCell, Unit


@dataclass(slots=True)
class Part:
    """The devices that one member of a gang has on one node."""

    node_cell: NodeCell
    mask: int
    guarantee: Guarantee | None = None
    """None where the gang runs without a guarantee."""


class Journal:
    """Applies changes for gangs, and can undo them."""

    __slots__ = ("_done", "_suspended")

    def __init__(self) -> None:
        self._done: list[tuple[str, str, int, Part, Guarantee | None]] = []
        self._suspended: list[tuple[str, str, int, Part, Guarantee | None]] = []

    @property
    def mark(self) -> int:
        """Return a position in the journal, for `undo`."""
        return len(self._done)

    def claim(self, gang: str, priority: int, unit: Unit, mask: int) -> Part:
        """Give a gang a guarantee for devices of a unit."""
        binding = unit.binding
        part = Part(unit.node_cell, mask, Guarantee(binding.share, binding.level, binding.index, binding.number))
        mutations.claim(gang, priority, unit, mask)
        self._done.append(("claim", gang, priority, part, part.guarantee))
        return part

    def run_opportunistic(self, gang: str, node_cell: NodeCell, mask: int) -> Part:
        """Record that a gang runs on devices without a guarantee."""
        part = Part(node_cell, mask)
        mutations.run_opportunistic(gang, node_cell, mask)
        self._done.append(("run", gang, 0, part, None))
        return part

    def revoke(self, gang: str, priority: int, part: Part) -> None:
        """Revoke the guarantee for a part; the gang runs on without it."""
        guarantee = part.guarantee
        unclaim(gang, priority, part)
        part.guarantee = None
        mutations.run_opportunistic(gang, part.node_cell, part.mask)
        self._done.append(("revoke", gang, priority, part, guarantee))

    def grant(self, gang: str, priority: int, part: Part, guarantee: Guarantee) -> None:
        """The opposite of `revoke`; the guarantee's cell must be bound to its share, or free."""
        mutations.end_opportunistic(gang, part.node_cell, part.mask)
        reclaim(gang, priority, part, guarantee)
        self._done.append(("grant", gang, priority, part, guarantee))

    def drop(self, gang: str, priority: int, part: Part) -> None:
        """Remove a part from a gang."""
        guarantee = part.guarantee
        remove(gang, priority, part)
        part.guarantee = None
        self._done.append(("drop", gang, priority, part, guarantee))

    def claim_again(self, gang: str, priority: int, part: Part, guarantee: Guarantee) -> None:
        """Claim a part that was dropped; the guarantee's cell must be bound to its share, or free."""
        reclaim(gang, priority, part, guarantee)
        self._done.append(("claim", gang, priority, part, part.guarantee))

    def touched(self) -> set[str]:
        """Return the gangs whose guarantees changed."""
        return {gang for kind, gang, _, _, _ in self._done if kind in ("revoke", "grant")}

    def undo(self, mark: int = 0) -> None:
        """Undo every change since `mark`."""
        while len(self._done) > mark:
            kind, gang, priority, part, guarantee = self._done.pop()
            if kind == "claim" or kind == "run":
                remove(gang, priority, part)
                part.guarantee = None
            elif kind == "revoke" and guarantee is not None:
                mutations.end_opportunistic(gang, part.node_cell, part.mask)
                reclaim(gang, priority, part, guarantee)
            elif kind == "grant":
                unclaim(gang, priority, part)
                part.guarantee = None
                mutations.run_opportunistic(gang, part.node_cell, part.mask)
            elif guarantee is None:
                mutations.run_opportunistic(gang, part.node_cell, part.mask)
            else:
                reclaim(gang, priority, part, guarantee)

    def suspend(self) -> None:
        """Undo every change until `resume`."""
        self._suspended = list(self._done)
        self.undo()

    def resume(self) -> None:
        """Apply again what `suspend` undid; nothing else may have changed meanwhile."""
        for kind, gang, priority, part, guarantee in self._suspended:
            if kind == "run":
                mutations.run_opportunistic(gang, part.node_cell, part.mask)
            elif kind == "revoke" or kind == "drop":
                remove(gang, priority, part)
                part.guarantee = None
                if kind == "revoke":
                    mutations.run_opportunistic(gang, part.node_cell, part.mask)
            elif guarantee is not None:
                if kind == "grant":
                    mutations.end_opportunistic(gang, part.node_cell, part.mask)
                reclaim(gang, priority, part, guarantee)
        self._done, self._suspended = self._suspended, []


def unit_at(node_cell: NodeCell, binding: CellBinding, mask: int) -> Unit:
    """Return the unit of a binding that covers these devices of a node."""
    for unit in node_cell.units:
        if unit.binding is binding and not mask & ~unit.mask:
            return unit
    raise LookupError(f"no unit of node {node_cell.name!r} covers {mask:#x}")


def unclaim(gang: str, priority: int, part: Part) -> None:
    """Release the guarantee for a part."""
    guarantee = part.guarantee
    if guarantee is not None:
        binding = guarantee.share.bindings[guarantee.level, guarantee.cell]
        mutations.unclaim(gang, priority, unit_at(part.node_cell, binding, part.mask), part.mask)


def reclaim(gang: str, priority: int, part: Part, guarantee: Guarantee) -> None:
    """Claim a part from a given cell; bind the cell if it is not."""
    binding = guarantee.share.bindings.get((guarantee.level, guarantee.cell))
    if binding is None:
        binding = mutations.bind(guarantee.share, guarantee.level, guarantee.cell, guarantee.number)
    mutations.claim(gang, priority, unit_at(part.node_cell, binding, part.mask), part.mask)
    part.guarantee = Guarantee(guarantee.share, guarantee.level, guarantee.cell, binding.number)


def remove(gang: str, priority: int, part: Part) -> None:
    """Remove a part from a gang, with or without a guarantee."""
    if part.guarantee is None:
        mutations.end_opportunistic(gang, part.node_cell, part.mask)
    else:
        unclaim(gang, priority, part)

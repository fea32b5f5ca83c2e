"""Which devices of a node to take: those that lie closest together, from the place where they fit most tightly.

Nodes are small trees and most are alike, so each question (these devices are available, that many are wanted) is
answered once and remembered. Devices of a node are the bits of a whole number, in the order of the tree.
"""

from __future__ import annotations

from typing import Final

MEMORY_MAX: Final = 200_000
"""Answers kept per shape; more than that are forgotten together."""


class NodeShape:
    """The tree inside a node: how its devices hang together."""

    def __init__(self, children: tuple[int, ...]) -> None:
        """Take the number of children of each level, leaf first, up to the node (as `ChainSpec.children`)."""
        self.levels = len(children)
        self.leaves = 1
        sizes = [1]
        for number in children[1:]:
            self.leaves *= number
            sizes.append(self.leaves)
        self.sizes = tuple(sizes)
        self.full = (1 << self.leaves) - 1
        self.cells = tuple(tuple(((1 << size) - 1) << start for start in range(0, self.leaves, size)) for size in sizes)
        self._remembered: dict[tuple[int, int], tuple[int, int]] = {}
        self.ideal = (0, *(self._lowest_level(number) for number in range(1, self.leaves + 1)))

    def _lowest_level(self, number: int) -> int:
        return next(level for level, size in enumerate(self.sizes, 1) if size >= number)

    def best(self, available: int, number: int) -> tuple[int, int]:
        """Return the best `number` devices of those available and the level of the smallest cell around them.

        The caller makes sure that there are enough.
        """
        question = (available, number)
        answer = self._remembered.get(question)
        if answer is None:
            if len(self._remembered) >= MEMORY_MAX:
                self._remembered.clear()
            answer = self._remembered[question] = self._search(available, number)
        return answer

    def _search(self, available: int, number: int) -> tuple[int, int]:
        for level, cells in enumerate(self.cells, 1):
            roomy = [cell & available for cell in cells if (cell & available).bit_count() >= number]
            if roomy:
                tightest = min(roomy, key=int.bit_count)
                return self._take(tightest, level, number), level
        raise ValueError(f"{number} devices were asked of {available.bit_count()}")

    def _take(self, available: int, level: int, number: int) -> int:
        """Return `number` of the available devices of one cell, breaking up as few of its parts as possible."""
        if available.bit_count() == number:
            return available
        parts = [cell & available for cell in self.cells[level - 2] if cell & available]
        taken = 0
        while number:
            binding = [part for part in parts if part.bit_count() >= number]
            if binding:
                return taken | self._take(min(binding, key=int.bit_count), level - 1, number)
            largest = max(parts, key=int.bit_count)
            parts.remove(largest)
            taken |= largest
            number -= largest.bit_count()
        return taken

    def level_around(self, devices: int) -> int:
        """Return the level of the smallest cell that holds all of `devices`."""
        for level, cells in enumerate(self.cells, 1):
            if any(devices & ~cell == 0 for cell in cells):
                return level
        return self.levels

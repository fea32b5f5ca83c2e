"""The fixed layout of a chain: which cells contain which nodes and devices, and which devices are close together.

The devices of a node are the bits of an integer, in the order of the cell tree.
"""

from __future__ import annotations

from typing import Final

from openpai.scheduler.config.model import ChainSpec

MEMORY_MAX: Final = 200_000
"""How many answers a shape caches before it clears the cache."""


class NodeShape:
    """The cell tree inside a node.

    Most nodes are alike, so `best` caches its answer for each set of available devices and number of them.
    """

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
        self._cached: dict[tuple[int, int], tuple[int, int]] = {}
        levels = (next(level for level, size in enumerate(sizes, 1) if size >= n) for n in range(1, self.leaves + 1))
        self.ideal = (0, *levels)

    def best(self, available: int, number: int) -> tuple[int, int]:
        """Return the best `number` devices of those available and the level of the smallest cell around them.

        The caller makes sure that there are enough.
        """
        question = (available, number)
        answer = self._cached.get(question)
        if answer is None:
            if len(self._cached) >= MEMORY_MAX:
                self._cached.clear()
            answer = self._cached[question] = self._search(available, number)
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


class ChainLayout:
    """The cell tree of a chain, from its nodes up to its top level."""

    def __init__(self, spec: ChainSpec) -> None:
        self.spec = spec
        self.node_level = spec.node_level
        self.top = spec.top
        self.shape = NodeShape(spec.children[: spec.node_level])
        self.nodes_per = [0] * (spec.top + 1)
        """How many nodes a cell of each level contains, from node level up."""
        for level in range(spec.node_level, spec.top + 1):
            self.nodes_per[level] = spec.leaves(level) // self.shape.leaves
        self.groups = tuple(self.nodes_per[spec.node_level + 1 :])

    def per_node(self, level: int) -> int:
        """Return how many cells of a level below the node one node has."""
        return self.shape.leaves // self.spec.leaves(level)

    def nodes_of(self, level: int, index: int) -> range:
        """Return the indexes of the nodes that a cell contains or is part of."""
        if level < self.node_level:
            node = index // self.per_node(level)
            return range(node, node + 1)
        per = self.nodes_per[level]
        return range(index * per, (index + 1) * per)

    def mask_in_node(self, level: int, index: int) -> int:
        """Return the devices, as bits of their node, of a cell at or below node level."""
        if level == self.node_level:
            return self.shape.full
        return self.shape.cells[level - 1][index % self.per_node(level)]

    def first_device(self, level: int, index: int) -> int:
        """Return the position in its node of the first device of a cell; 0 for a cell of whole nodes."""
        return 0 if level >= self.node_level else index % self.per_node(level) * self.spec.leaves(level)

"""A placer that tries everything: what a virtual cluster is owed, found without any of the scheduler's shortcuts.

It reads only facts out of the books: which gang has which devices out of which cell, what is bad, what was promised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import prod

from openpai.scheduler.cells.chain import Chain, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.journal import Part
from openpai.scheduler.cells.model import CellGroup, GangRequest

Cell = tuple[int, int]
"""Level and index."""


@cache
def cells_of(children: tuple[int, ...], tops: int) -> tuple[tuple[int, ...], ...]:
    """Return by level the devices of each cell as bits, of chains of that shape; level 0 has none."""
    sizes = [prod(children[1:level]) for level in range(1, len(children) + 1)]
    every = tops * sizes[-1]
    return (), *(tuple(((1 << size) - 1) << at for at in range(0, every, size)) for size in sizes)


@cache
def nodes_of(children: tuple[int, ...], tops: int, node_level: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return by level the devices of the nodes that each cell is in, or has in it, as bits; level 0 has none."""
    levels = cells_of(children, tops)
    nodes = levels[node_level]
    return tuple(tuple(tuple(node for node in nodes if node & cell) for cell in cells) for cells in levels)


def leaves_of(chain: Chain, cell: Cell) -> int:
    """Return the devices of a cell as bits, counted over the whole chain."""
    return cells_of(chain.spec.children, chain.spec.tops)[cell[0]][cell[1]]


def everything(chain: Chain) -> int:
    """Return all devices of a chain as bits."""
    return (1 << (len(chain.node_cells) * chain.shape.leaves)) - 1


def leaves_at(part: Part) -> int:
    return part.mask << (part.node_cell.index * part.node_cell.chain.shape.leaves)


@cache
def is_servable(children: tuple[int, ...], tops: int, free: int, need: tuple[int, ...]) -> bool:
    """Return whether so many cells of each level (index 0 for level 1) can be cut out of the free devices."""
    cells = cells_of(children, tops)
    for level in range(len(children), 0, -1):
        whole = [at for at, cell in enumerate(cells[level]) if cell & free == cell]
        # Cells left over above are still in `free` and are counted here as the pieces they can be cut into.
        if len(whole) < need[level - 1]:
            return False
        if level < len(children):
            # Take those first that lie in no larger whole cell.
            is_inside = [cell & free == cell for cell in cells[level + 1] for _ in range(children[level])]
            whole.sort(key=is_inside.__getitem__)
        for at in whole[: need[level - 1]]:
            free &= ~cells[level][at]
    return True


def fits(sizes: Sequence[int], rooms: Sequence[int]) -> bool:
    """Return whether members of these sizes (largest first) fit into these rooms."""
    if not sizes:
        return True
    tried = set()
    for at, room in enumerate(rooms):
        if room >= sizes[0] and room not in tried:
            tried.add(room)
            if fits(sizes[1:], [*rooms[:at], room - sizes[0], *rooms[at + 1 :]]):
                return True
    return False


class Books:
    """The facts about one chain, for a gang of some virtual cluster and priority: gangs with less right are gone."""

    def __init__(self, cluster: Cluster, share: VcShare, priority: int) -> None:
        self.share, self.chain = share, share.chain
        taken = self._taken(cluster, priority)
        self.others = 0
        self.need = [0] * self.chain.top
        self.left = [0] * self.chain.top
        shares = [each for name in cluster.shares for each in cluster.shares_of(name) if each.chain is self.chain]
        for each in shares:
            cells = taken.setdefault(id(each), {})
            if each.pin is not None:
                spec = cluster.config.pinned[each.pin]
                cells.setdefault((spec.level, spec.index), 0)
            else:
                served = [sum(1 for cell in cells if cell[0] == level) for level in range(1, self.chain.top + 1)]
                unserved = [promised - number for promised, number in zip(each.promised, served, strict=True)]
                self.need = [number + more for number, more in zip(self.need, unserved, strict=True)]
                self.left = unserved if each is share else self.left
            if each is not share:
                for cell in cells:
                    self.others |= leaves_of(self.chain, cell)
        self.mine = taken[id(share)]
        """Own cells that stay, and what of them is taken."""
        self.bad = 0
        for node_cell in self.chain.node_cells:
            self.bad |= node_cell.bad << (node_cell.index * self.chain.shape.leaves)

    def _taken(self, cluster: Cluster, priority: int) -> dict[int, dict[Cell, int]]:
        """Return by view the cells that serve gangs which stay, and what of them is taken."""
        taken: dict[int, dict[Cell, int]] = {}
        for record in cluster.gangs.values():
            for part in record.parts:
                if part is None or part.guarantee is None or part.node_cell.chain is not self.chain:
                    continue
                guarantee = part.guarantee
                if guarantee.share is not self.share or record.request.priority >= priority:
                    cells = taken.setdefault(id(guarantee.share), {})
                    cell = guarantee.level, guarantee.cell
                    cells[cell] = cells.get(cell, 0) | leaves_at(part)
        return taken

    @property
    def free(self) -> int:
        """Return the devices in no cell that serves anybody."""
        held = self.others
        for cell in self.mine:
            held |= leaves_of(self.chain, cell)
        return everything(self.chain) & ~held

    def areas(self, cell: Cell, taken: int, inside: int) -> list[int]:
        """Return the devices that members may have on each node of a cell."""
        spec = self.chain.spec
        leaves, nodes = cells_of(spec.children, spec.tops), nodes_of(spec.children, spec.tops, spec.node_level)
        level, index = cell
        rest = leaves[level][index] & inside & ~self.bad & ~taken
        return [room for node in nodes[level][index] if (room := rest & node)] if rest else []

    def find(self, inside: int, is_enough: Callable[[Sequence[Cell], Sequence[int]], bool]) -> bool:
        """Return whether a set of free cells that the virtual cluster's promises allow is enough.

        That is asked with the cells and with what members may have on each node of them and of those that stay.
        """
        spec, usable = self.chain.spec, inside & ~self.bad
        levels = cells_of(spec.children, spec.tops)
        rooms = [[self.areas((level, at), 0, inside) for at in range(len(cells))] for level, cells in enumerate(levels)]
        mine = [room for cell, taken in self.mine.items() for room in self.areas(cell, taken, inside)]

        def go(level: int, first: int, left: int, free: int, chosen: tuple[Cell, ...], areas: list[int]) -> bool:
            """Try those with up to `left` more cells of this level, from this one on, and any of the levels below."""
            if level == 0:
                return is_enough(chosen, areas)
            if go(level - 1, 0, self.left[level - 2], free, chosen, areas):
                return True
            cells = levels[level]
            return left > 0 and any(
                go(level, at + 1, left - 1, free & ~cells[at], (*chosen, (level, at)), areas + rooms[level][at])
                for at in range(first, len(cells))
                if cells[at] & free == cells[at] and cells[at] & usable
            )

        top = self.chain.top
        return go(top, 0, self.left[top - 1], self.free, (), mine)

    def leaves_enough(self, chosen: Sequence[Cell]) -> bool:
        """Return whether every other cell that was promised can still be had beside the chosen ones."""
        need = [number - sum(1 for level, _ in chosen if level == at) for at, number in enumerate(self.need, start=1)]
        free = self.free
        for cell in chosen:
            free &= ~leaves_of(self.chain, cell)
        return is_servable(self.chain.spec.children, self.chain.spec.tops, free, tuple(need))


def insides(chain: Chain, request: GangRequest) -> list[int]:
    """Return the sets of devices, as bits, inside one of which a gang must be."""
    size = chain.shape.leaves
    usable = everything(chain)
    if request.nodes is not None:
        usable = sum(
            ((1 << size) - 1) << (node_cell.index * size)
            for node_cell in chain.node_cells
            if node_cell.name in request.nodes
        )
    promise = request.topology
    if promise is None or not promise.is_required:
        return [usable]
    if promise.cell_type not in chain.spec.types:
        return []
    level = chain.spec.types.index(promise.cell_type) + 1
    return [leaves_of(chain, (level, index)) & usable for index in range(chain.spec.count(level))]


def is_owed(cluster: Cluster, request: GangRequest) -> bool:
    """Return whether a gang has a right to start now: by its promise, or without a guarantee by what is free."""
    sizes = sorted(request.sizes(), reverse=True)
    if request.priority < 0:
        return any(
            fits(sizes, [area.bit_count() for area in areas]) and fits_in_groups(chain, request, areas)
            for chain in cluster.chains.values()
            if request.leaf_type in (None, chain.spec.leaf_type)
            for areas in (_leftovers(chain, inside) for inside in insides(chain, request))
        )
    if request.pinned_cell is not None:
        shares = [cluster.pins[request.virtual_cluster, request.pinned_cell]]
    else:
        shares = [
            share
            for share in cluster.shares[request.virtual_cluster].values()
            if request.leaf_type in (None, share.chain.spec.leaf_type)
        ]
    return any(
        _has_room(books, request, sizes, inside)
        for books in (Books(cluster, share, request.priority) for share in shares)
        for inside in insides(books.chain, request)
    )


def _has_room(books: Books, request: GangRequest, sizes: Sequence[int], inside: int) -> bool:
    """Return whether members of these sizes (largest first) have room in what a virtual cluster has or could get."""
    known: dict[tuple[int, ...], bool] = {}

    def is_enough(chosen: Sequence[Cell], areas: Sequence[int]) -> bool:
        numbers = [area.bit_count() for area in areas]
        if sum(numbers) < sum(sizes):
            return False
        rooms = tuple(sorted(areas if request.groups else numbers))
        if rooms not in known:
            known[rooms] = fits(sizes, numbers) and fits_in_groups(books.chain, request, areas)
        return known[rooms] and books.leaves_enough(chosen)

    return (inside & ~books.bad).bit_count() >= sum(sizes) and books.find(inside, is_enough)


def _leftovers(chain: Chain, inside: int) -> list[int]:
    size = chain.shape.leaves
    idle = [
        (node_cell.full & ~(node_cell.claimed | node_cell.opportunistic | node_cell.bad)) << (node_cell.index * size)
        for node_cell in chain.node_cells
    ]
    return [area & inside for area in idle if area & inside]


def fits_in_groups(chain: Chain, request: GangRequest, areas: Sequence[int]) -> bool:
    """Return whether the members fit into these areas, each group inside one cell of its type."""
    if not all(group.fits_types(chain.spec.types) for group in request.groups):
        return False
    sizes = request.sizes()
    limits = dict.fromkeys(range(len(sizes)), everything(chain))

    def choose(groups: Sequence[tuple[CellGroup, int]]) -> bool:
        if not groups:
            order = sorted(limits, key=lambda member: (limits[member].bit_count(), -sizes[member]))
            return fits_in_places([(limits[member], sizes[member]) for member in order], areas, [])
        (group, around), rest = groups[0], groups[1:]
        level = chain.spec.types.index(group.cell_type) + 1
        need = sum(sizes[member] for member in group.all_members())
        for cell in {leaves_of(chain, (level, index)) & around for index in range(chain.spec.count(level))}:
            if (cell & sum(areas)).bit_count() >= need:
                limits.update(dict.fromkeys(group.members, cell))
                if choose([*((inner, cell) for inner in group.groups), *rest]):
                    return True
        limits.update(dict.fromkeys(group.members, everything(chain)))
        return False

    return choose([(group, everything(chain)) for group in request.groups])


def fits_in_places(wanted: list[tuple[int, int]], areas: Sequence[int], taken: list[tuple[int, int]]) -> bool:
    """Return whether members fit into areas: each is allowed some devices and needs a number of them in one area."""
    if not wanted:
        return True
    (allowed, size), rest = wanted[0], wanted[1:]
    for where in {area & allowed for area in areas if area & allowed}:
        placed = [*taken, (where, size)]
        # The places are cells of one tree: all get their devices if no place contains more members than devices.
        is_possible = all(
            sum(need for inner, need in placed if inner & ~outer == 0) <= outer.bit_count() for outer, _ in placed
        )
        if is_possible and fits_in_places(rest, areas, placed):
            return True
    return False


def could_have_right(cluster: Cluster, gang: str) -> bool:
    """Return whether a running gang without its right could have it if all gangs of lower priority lost theirs."""
    record = cluster.gangs[gang]
    parts = [part for part in record.parts if part is not None]
    shares = cluster.shares[record.request.virtual_cluster]
    if record.request.pinned_cell is not None or not parts:
        return False
    if any(part.node_cell.chain.spec.name not in shares for part in parts):
        return False
    share = shares[parts[0].node_cell.chain.spec.name]
    if any(part.node_cell.chain is not share.chain for part in parts):
        return False
    books = Books(cluster, share, record.request.priority)
    fixed = [
        leaves_at(part)
        for other in cluster.gangs.values()
        if other.request.priority >= record.request.priority
        for part in other.parts
        if part is not None and part.guarantee is not None and part.guarantee.share is share
    ]
    wanted = [*fixed, *(leaves_at(part) for part in parts)]
    chain = share.chain
    need = [number + sum(1 for cell in books.mine if cell[0] == at) for at, number in enumerate(books.need, start=1)]
    around = [
        [
            (level, index)
            for level in range(1, chain.top + 1)
            if share.promised[level - 1]
            for index in range(chain.spec.count(level))
            if leaves & ~leaves_of(chain, (level, index)) == 0 and not leaves_of(chain, (level, index)) & books.others
        ]
        for leaves in dict.fromkeys(wanted)
    ]
    for cells in {frozenset(choice) for choice in product(*around)}:
        union, total = 0, 0
        for cell in cells:
            union |= leaves_of(chain, cell)
            total += chain.spec.leaves(cell[0])
        if union.bit_count() != total:
            continue  # one lies inside another
        counts = [sum(1 for level, _ in cells if level == at) for at in range(1, chain.top + 1)]
        if any(count > promised for count, promised in zip(counts, share.promised, strict=True)):
            continue
        left = [number - count for number, count in zip(need, counts, strict=True)]
        if is_servable(chain.spec.children, chain.spec.tops, everything(chain) & ~books.others & ~union, tuple(left)):
            return True
    return False

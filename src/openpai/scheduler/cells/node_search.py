"""Finds the best node, or part of one, for a single member of a gang.

A virtual cluster first uses the cells that serve it already, then binds another of its promised cells, and takes
devices from opportunistic jobs only when it must, and then where least is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import CellBinding, Chain, Unit, VcShare
from openpai.scheduler.cells.unit_index import UnitIndex

UNITS_COMPARED_MAX: Final = 8
"""How many equally full units are compared to find one where the devices are close together."""

CELLS_COMPARED_MAX: Final = 16
"""How many cells are compared when opportunistic gangs run on all of them."""

Loss = tuple[int, int, int]
"""Work lost, gangs preempted, devices they have: less is better."""
NO_LOSS: Final[Loss] = (0, 0, 0)

Price = Callable[[set[str]], Loss]
"""Returns the loss of preempting these gangs."""


class Within:
    """A set of nodes of one chain to stay inside of."""

    __slots__ = ("_masks", "_span", "bits", "chain", "mask")

    def __init__(self, chain: Chain, bits: int, span: tuple[int, int] | None = None, mask: int = -1) -> None:
        """Take the nodes as bits; `span` is the first of them and their number if they are consecutive.

        `mask` has the devices that may be used, where there is only one node.
        """
        self.chain = chain
        self.bits = bits
        self.mask = mask
        self._span = span
        self._masks: dict[int, int] = {}

    @classmethod
    def cell(cls, chain: Chain, per: int, index: int) -> Within:
        """Return the nodes of one cell that has `per` of them."""
        return cls(chain, ((1 << per) - 1) << (index * per), (index * per, per))

    def cells(self, level: int) -> int:
        """Return the cells of a level that have some of the nodes, as bits."""
        mask = self._masks.get(level)
        if mask is None:
            mask = self._masks[level] = self._find_cells(level)
        return mask

    def units_of(self, unit_index: UnitIndex[Unit]) -> int:
        """Return the units of an index that are on the nodes, as bits."""
        if self._span is not None:
            first, number = self._span
            for tally in unit_index.tallies:
                if tally.units_per_cell == number:
                    return tally.members.get(first // number, 0)
        bits = 0
        for node_cell in self.chain.nodes_in(self.bits):
            for unit in node_cell.units:
                if unit.unit_index is unit_index:
                    bits |= unit.bit
        return bits

    def _find_cells(self, level: int) -> int:
        chain = self.chain
        node = chain.node_level
        if level < node:
            per = chain.per_node(level)
            return _spread(self.bits, per)
        per = chain.nodes_per[level]
        if self._span is not None:
            first, number = self._span
            begin = first // per
            return ((1 << ((first + number - 1) // per - begin + 1)) - 1) << begin
        mask = 0
        bits = self.bits
        while bits:
            low = bits & -bits
            bits ^= low
            mask |= 1 << ((low.bit_length() - 1) // per)
        return mask


def _spread(bits: int, per: int) -> int:
    """Return `per` bits for each bit."""
    mask = 0
    while bits:
        low = bits & -bits
        bits ^= low
        mask |= ((1 << per) - 1) << ((low.bit_length() - 1) * per)
    return mask


def clean_of(unit: Unit) -> int:
    """Return the devices of a unit that can be taken without preempting a gang."""
    node_cell = unit.node_cell
    return unit.mask & ~(node_cell.claimed | node_cell.opportunistic | node_cell.bad)


def room_of(unit: Unit) -> int:
    """Return the devices of a unit that its virtual cluster may take."""
    return unit.mask & ~(unit.node_cell.claimed | unit.node_cell.bad)


def find_open_unit(share: VcShare, number: int, within: Within | None) -> Unit | None:
    """Return the unit in use that should be empty last of those with `number` devices to take without a preemption.

    A node that is left to drain comes last of the nodes that gangs run on already, where it may be any node.
    """
    if share.draining and within is None:
        unit = _find_spared_unit(share, number)
        if unit is not None:
            return unit
    best = None
    for level, unit_index in share.unit_indexes.items():
        if unit_index.size < number:
            continue
        keys = share.keys[level].fits[number]
        if within is None and (number == 1 or number == unit_index.size):
            unit = unit_index.first(keys)
        else:
            unit = _closest(_candidates(share, level, keys, within), number)
        if unit is None:
            continue
        if best is None or room_of(unit).bit_count() < room_of(best).bit_count():
            best = unit
    return best


def _find_spared_unit(share: VcShare, number: int) -> Unit | None:
    """Return the best part of a node, or node that gangs run on and that is not left to drain."""
    found = []
    for level, unit_index in share.unit_indexes.items():
        if unit_index.size >= number:
            keys, among = share.keys[level].fits[number], -1
            if level == share.chain.node_level:
                keys, among = keys & ~unit_index.whole, ~share.draining
            unit = _closest(unit_index.some(keys, UNITS_COMPARED_MAX, among), number)
            if unit is not None:
                found.append(unit)
    return min(found, key=lambda unit: room_of(unit).bit_count(), default=None)


def _candidates(
    share: VcShare, level: int, keys: int, within: Within | None, limit: int = UNITS_COMPARED_MAX
) -> Iterator[Unit]:
    unit_index = share.unit_indexes[level]
    return unit_index.some(keys, limit, -1 if within is None else within.units_of(unit_index))


def _closest(units: Iterable[Unit], number: int) -> Unit | None:
    """Return the first of the `units` as full as the first where `number` devices lie as close together as can be."""
    best = None
    lowest = 0
    fullest = 0
    for unit in units:
        left = room_of(unit).bit_count()
        if best is None:
            fullest = left
        elif left != fullest:
            break
        shape = unit.node_cell.chain.shape
        level = shape.best(clean_of(unit), number)[1]
        if best is None or level < lowest:
            best, lowest = unit, level
            if level == shape.ideal[number]:
                break
    return best


def bind_clean_unit(share: VcShare, number: int, within: Within | None, rest: int = 0) -> Unit | None:
    """Bind another promised cell and return the unit of it to use; None if that is impossible without preemption.

    `rest` is how many devices the gang still needs, this member's included.
    """
    for level in _levels_to_open(share, number, max(number, rest)):
        offer = _clean_offer(share, level, number, within)
        if offer is not None:
            binding = mutations.bind(share, level, offer)
            unit = best_unit(binding, number, within)
            if unit is not None:
                return unit
            mutations.unbind(binding)
    return None


def _levels_to_open(share: VcShare, number: int, rest: int) -> list[int]:
    """Return the levels of promised cells to try: those that are enough for the gang, smallest first, then others."""
    leaves = share.chain.spec.leaves
    able = [at + 1 for at, unserved in enumerate(share.unserved) if unserved and leaves(at + 1) >= number]
    if len(able) < 2:
        return able
    enough = [level for level in able if leaves(level) * share.unserved[level - 1].bit_count() >= rest]
    return [*enough, *(level for level in reversed(able) if level not in enough)]


def _clean_offer(share: VcShare, level: int, number: int, within: Within | None) -> int | None:
    chain = share.chain
    best = None
    for offer in chain.free_cells.offers(level, within.cells if within else None):
        if not offer.bad and not offer.opportunistic:
            return offer.cell
        if best is None or offer[2:] < best[2:]:
            best = offer
    if best is None:
        return None
    if level <= chain.node_level and chain.spec.leaves(level) - best.bad - best.opportunistic < number:
        return None
    return best.cell


def best_unit(binding: CellBinding, number: int, within: Within | None) -> Unit | None:
    """Return the unit of a newly bound cell that has `number` idle devices, the one with fewest in use."""
    best = None
    fewest = 0
    for unit in binding.units:
        if within is not None and not within.bits >> unit.node_cell.index & 1:
            continue
        clean = clean_of(unit).bit_count()
        if clean < number:
            continue
        used = unit.mask.bit_count() - clean
        if not used:
            return unit
        if best is None or used < fewest:
            best, fewest = unit, used
    return best


def find_costly_unit(share: VcShare, number: int, within: Within | None, price: Price) -> Unit | None:
    """Return the unit where taking `number` devices costs opportunistic jobs least; None if none has room."""
    best: Unit | None = None
    least = NO_LOSS
    for unit in _costly_units(share, number, within):
        loss = price(unit.node_cell.opportunistic_on(cheapest_mask(unit, number, price)))
        if best is None or loss < least:
            best, least = unit, loss
    fresh = _costly_cell(share, number, within, price, None if best is None else least)
    return fresh or best


def _costly_units(share: VcShare, number: int, within: Within | None) -> list[Unit]:
    found: list[Unit] = []
    for level, unit_index in share.unit_indexes.items():
        for missing in range(1, number + 1):
            if unit_index.size >= number:
                keys = share.keys[level].lacking(number, missing)
                found += _candidates(share, level, keys, within)
    return found


def _costly_cell(share: VcShare, number: int, within: Within | None, price: Price, ceiling: Loss | None) -> Unit | None:
    """Bind the promised cell that costs least, if that is less than `ceiling`, and return the unit of it to use."""
    chain = share.chain
    best: tuple[int, int, int] | None = None
    least = NO_LOSS if ceiling is None else ceiling
    for at, unserved in enumerate(share.unserved):
        if not unserved or chain.spec.leaves(at + 1) < number:
            continue
        for cell in chain.free_cells.several(at + 1, CELLS_COMPARED_MAX, within.cells if within else None):
            binding = mutations.bind(share, at + 1, cell)
            for unit in binding.units:
                inside = within is None or within.bits >> unit.node_cell.index & 1
                if inside and room_of(unit).bit_count() >= number:
                    loss = price(unit.node_cell.opportunistic_on(cheapest_mask(unit, number, price)))
                    if (best is None and ceiling is None) or loss < least:
                        best, least = (at + 1, cell, binding.units.index(unit)), loss
            mutations.unbind(binding)
    if best is None:
        return None
    return mutations.bind(share, best[0], best[1]).units[best[2]]


def cheapest_mask(unit: Unit, number: int, price: Price, within: int | None = None) -> int:
    """Return `number` devices of a unit: as close together as possible, then with as little loss as possible.

    `within` has the devices that may be taken, if not all that its virtual cluster may take.
    """
    node_cell = unit.node_cell
    shape = node_cell.chain.shape
    room = room_of(unit) if within is None else within
    mask, level = shape.best(room, number)
    if not mask & node_cell.opportunistic:
        return mask
    best = mask
    least = price(unit.node_cell.opportunistic_on(mask))
    for cell in shape.cells[level - 1]:
        inside = cell & room
        if inside.bit_count() >= number:
            mask = _sparing(unit, inside, number, price)
            loss = price(unit.node_cell.opportunistic_on(mask))
            if loss < least:
                best, least = mask, loss
    return best


def _sparing(unit: Unit, room: int, number: int, price: Price) -> int:
    """Return `number` of the devices in `room`, preempting the cheapest opportunistic gangs that make enough."""
    node_cell = unit.node_cell
    usable = room & ~node_cell.opportunistic
    for gang in sorted(node_cell.opportunistic_gangs, key=lambda gang: (price({gang}), gang)):
        if usable.bit_count() >= number:
            break
        usable |= room & node_cell.opportunistic_gangs[gang]
    return node_cell.chain.shape.best(usable, number)[0]

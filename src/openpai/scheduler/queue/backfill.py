"""Keeps cells for gangs that have waited long, so that smaller gangs do not pass them for ever.

A gang that many smaller ones pass never finds all of its cells free at one moment. Therefore one gang of each virtual
cluster at a time gets cells kept: those that are idle for the least device time until they are free, or for a gang of
one member those that are free soonest, estimated from run times of gangs similar to those on them. Other gangs start
on free parts of these cells only as *guests*, if they should end before the cells are needed. The cells are chosen
again from time to time until they are *closed*: then only cells are chosen whose gangs ran on them when they were
closed, or are guests, and guests start only on cells kept for a gang of several members, and only for as long as the
longest gang of the virtual cluster ran. So the gang starts at the latest when all gangs have ended that ran when its
cells were closed, and the guests that started in that time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, Final, NamedTuple

from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import Guarantee, Unit, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.decision import missing_devices
from openpai.scheduler.cells.journal import Journal
from openpai.scheduler.cells.model import Shape, shape_of
from openpai.scheduler.cells.node_search import bind_clean_unit, clean_of, room_of
from openpai.scheduler.cells.trial import Trial
from openpai.scheduler.queue.requests import GangRequests
from openpai.scheduler.queue.waiting_queue import Waiting

PATIENCE_MAX_MS: Final = 30 * 24 * 60 * 60 * 1000
"""The longest run time that counts for how long a gang may wait before its cells are closed."""

CLOSED_AFTER: Final = 2
"""The cells kept for a gang of several members are closed after this many times the longest run time."""

ALONE_AFTER: Final = 4
"""The same for a gang of one member, which does not need several cells at once."""

IDLE_SHARE: Final = 0.04
"""Cells that are not closed may be idle, in all, for this share of the device time that the gang has waited."""

AGAIN: Final = 8
"""Cells are chosen again after this fraction (one eighth) of the time until they are free."""

AGAIN_MIN_MS: Final = 60_000

SHAPES_MAX: Final = 10_000
"""Cached answers; the cache is cleared when it is full."""

KEEPER: Final = "\0kept"
"""The name under which kept devices are claimed while other gangs are considered."""


class PromisedNode(NamedTuple):
    """A node, or part of one, of what a virtual cluster was promised, whichever physical cell serves it."""

    chain: str
    pin: str
    size: int
    """Its devices."""
    number: int
    """The number of the node among those of its size."""


def promised_node(share: VcShare, level: int, number: int, node: int) -> PromisedNode:
    """Return a node of the promised cell with that level and number."""
    size = share.chain.spec.leaves(min(level, share.chain.node_level))
    return PromisedNode(share.chain.spec.name, share.pin or "", size, share.first_unit(level, number) + node)


class Piece(NamedTuple):
    """Kept devices of one node of a promised cell, whichever physical cell serves it."""

    chain: str
    pin: str | None
    level: int
    number: int
    """Which of the promised cells of that level."""
    node: int
    """Which node of that cell."""
    mask: int
    """The devices, as bits of the node or of the cell if that is smaller."""

    def share_in(self, cluster: Cluster, virtual_cluster: str) -> VcShare:
        """Return the share that has the promised cell."""
        pin = self.pin
        return cluster.shares[virtual_cluster][self.chain] if pin is None else cluster.pins[virtual_cluster, pin]

    def node_in(self, cluster: Cluster, virtual_cluster: str) -> PromisedNode:
        """Return the promised node."""
        return promised_node(self.share_in(cluster, virtual_cluster), self.level, self.number, self.node)

    def unit_in(self, share: VcShare) -> Unit | None:
        """Return the node or part of a node that serves it; None if no cell serves the promised cell now."""
        binding = share.serving.get((self.level, self.number))
        return None if binding is None else binding.units[self.node]

    def bind(self, share: VcShare) -> Unit | None:
        """Bind the promised cell to the best of the cells on which opportunistic gangs run, or hardware is bad."""
        offers = list(share.chain.free_cells.offers(self.level))
        if not offers or not share.unserved[self.level - 1]:
            return None
        best = min(offers, key=lambda offer: offer[2:])
        binding = mutations.bind(share, self.level, best.cell)
        if room_of(binding.units[self.node]):
            return binding.units[self.node]
        mutations.unbind(binding)
        return None


def _some_of(unit: Unit, number: int) -> int:
    """Return that many of the devices that its virtual cluster may take, or all if they are fewer."""
    room = room_of(unit)
    return room if room.bit_count() <= number else unit.node_cell.chain.shape.best(room, number)[0]


class Leaving(NamedTuple):
    """A gang that will leave its devices."""

    gang: str
    number: int
    """Number in the order of arrival."""
    requests: GangRequests
    by: Callable[[float], int]
    """Returns the time by which it has left with a given probability."""
    at_ms: int
    """The time by which it has left with an even chance."""


@dataclass(slots=True)
class Kept:
    """The cells kept for one gang."""

    gang: str
    virtual_cluster: str
    priority: int
    pieces: tuple[Piece, ...]
    chosen_ms: int
    free_ms: int
    """The time at which all of them should be free."""
    closed_ms: int | None = None
    """The time from which only guests start on them."""
    guests: tuple[str, ...] = ()
    """The gangs that started on them after that."""
    idle_ms: int = 0
    """Device time for which cells kept for the gang were idle."""
    idle_devices: int = 0
    """The devices that are idle for it since `counted_ms`."""
    counted_ms: int = 0
    is_withheld: bool = False
    """Whether other gangs found no room because of it."""
    journal: Journal | None = field(default=None, compare=False)
    held_devices: int = field(default=0, compare=False)
    """How many devices are claimed for it, between `hold` and `let_go`."""

    @property
    def again_ms(self) -> int:
        """Return when the cells are to be chosen again."""
        return self.chosen_ms + max(AGAIN_MIN_MS, (self.free_ms - self.chosen_ms) // AGAIN)

    def idle(self, cluster: Cluster) -> int:
        """Return how many of the kept devices are idle."""
        found = 0
        for piece in self.pieces:
            unit = piece.unit_in(piece.share_in(cluster, self.virtual_cluster))
            found += (piece.mask if unit is None else clean_of(unit) & unit.from_cell(piece.mask)).bit_count()
        return found

    def count_idle(self, now_ms: int) -> None:
        """Add the time since the last call to the idle time."""
        self.idle_ms += self.idle_devices * max(0, now_ms - self.counted_ms)
        self.idle_devices, self.counted_ms = 0, now_ms

    def hold(self, cluster: Cluster) -> None:
        """Claim the free devices of the cells, so that no other gang gets them, until `let_go`."""
        if self.journal is not None:
            return
        self.journal = Journal()
        for piece in self.pieces:
            share, number = piece.share_in(cluster, self.virtual_cluster), piece.mask.bit_count()
            unit = piece.unit_in(share)
            if unit is not None:
                mask = room_of(unit) & unit.from_cell(piece.mask)
            elif (unit := bind_clean_unit(share, number, None)) is not None:
                # No cell serves the promised cell, and any that could is as good.
                mask = share.chain.shape.best(clean_of(unit), number)[0]
            else:
                # Opportunistic gangs run on all that could, which is no reason to let another gang have the promise.
                unit = piece.bind(share)
                mask = 0 if unit is None else _some_of(unit, number)
            if unit is not None and mask:
                self.journal.claim(KEEPER, self.priority, unit, mask)
                self.held_devices += mask.bit_count()

    def let_go(self) -> None:
        """Undo `hold`."""
        journal, self.journal, self.held_devices = self.journal, None, 0
        if journal is not None:
            journal.undo()

    def dump(self) -> dict[str, Any]:
        """Return it as plain data."""
        row = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        row["pieces"] = [list(piece) for piece in self.pieces]
        return {**row, "guests": list(self.guests)}


def kept_in(row: dict[str, Any]) -> Kept:
    """Return the value of a row from `dump`."""
    pieces = tuple([Piece(*piece) for piece in row["pieces"]])
    # Earlier versions named the gangs that were awaited, too.
    known = {name: value for name, value in row.items() if name != "awaited"}
    return Kept(**{**known, "pieces": pieces, "guests": tuple(row.get("guests", ()))})


def choose(cluster: Cluster, waiting: Waiting, leaving: Iterable[Leaving], now_ms: int) -> Kept | None:
    """Return the cells to keep for a gang if others leave as expected; None if it has no place then, either."""
    ends = sorted(leaving, key=lambda end: (end.at_ms, end.number))
    if len(waiting.gang.asks) > 1:
        ends = _least_idle_first(cluster, ends, now_ms)
    missing = max([missing_devices(cluster, request) for request in waiting.requests])
    devices = (sum([request.devices for request in end.requests]) for end in ends)
    freed = list(accumulate(devices, initial=0))
    if freed[-1] < missing:
        return None
    with Trial(cluster) as trial:
        marks = [trial.mark]  # one for each number of gangs that have left

        def pieces_after(count: int) -> tuple[Piece, ...] | None:
            """Return the cells that the gang gets when so many have left; None if it has no place then."""
            trial.back_to(marks[min(count, len(marks) - 1)])
            del marks[count + 1 :]
            for end in ends[len(marks) - 1 : count]:
                for request in end.requests:
                    trial.leave(request.id)
                marks.append(trial.mark)
            return _pieces(trial, waiting) if trial.start_all(waiting.requests) else None

        # Most gangs fit soon after enough devices are free: the search begins there, with longer and longer steps.
        least = most = bisect_left(freed, missing)
        pieces, step = pieces_after(most), 1
        while pieces is None:
            if most == len(ends):
                return None
            least, most, step = most + 1, min(most + step, len(ends)), 2 * step
            pieces = pieces_after(most)
        while least < most:
            middle = (least + most) // 2
            fewer = pieces_after(middle)
            if fewer is None:
                least = middle + 1
            else:
                pieces, most = fewer, middle
    gang = waiting.gang
    chosen = {piece.node_in(cluster, gang.virtual_cluster) for piece in pieces}
    awaited = [end for end in ends[:most] if not chosen.isdisjoint(_promised_nodes(cluster, end))]
    free_ms = max(now_ms, _all_left_ms(awaited)) if awaited else now_ms
    return Kept(gang.id, gang.virtual_cluster, gang.priority, pieces, now_ms, free_ms)


def _all_left_ms(ends: Sequence[Leaving]) -> int:
    """Return the time by which all of these gangs have left with an even chance, if they end independently."""
    if len(ends) == 1:
        return ends[0].at_ms
    chance = each_left(len(ends))
    return max([end.by(chance) for end in ends])


def each_left(gangs: int) -> float:
    """Return the chance with which each of some gangs has left when all of them have with an even chance."""
    return float(0.5 ** (1 / gangs))


def _least_idle_first(cluster: Cluster, ends: list[Leaving], now_ms: int) -> list[Leaving]:
    """Return the gangs node by node, the node first that is idle for the least device time until all of it is free.

    A gang of several members that starts when the last of its nodes is free leaves the others idle until then: a node
    whose gangs end together costs less than one that is free sooner but for one gang.
    """
    found: dict[PromisedNode, list[int]] = {}
    idle_ms: dict[PromisedNode, int] = {}
    for at, end in enumerate(ends):
        for place, devices in _promised_nodes(cluster, end).items():
            found.setdefault(place, []).append(at)
            idle_ms[place] = idle_ms.get(place, 0) - devices * (end.at_ms - now_ms)

    def cost(place: PromisedNode) -> tuple[int, int, PromisedNode]:
        last_ms = _all_left_ms([ends[at] for at in found[place]])
        return idle_ms[place] + place.size * (last_ms - now_ms), last_ms, place

    order = dict.fromkeys(at for place in sorted(found, key=cost) for at in found[place])
    return [ends[at] for at in dict.fromkeys([*order, *range(len(ends))])]


def _promised_nodes(cluster: Cluster, end: Leaving) -> dict[PromisedNode, int]:
    """Return the nodes that a gang has a guarantee for, and how many devices it has on each."""
    # Members on one node share a guarantee, which is looked up once for all of them.
    of_guarantee: dict[tuple[Guarantee, int], int] = {}
    for request in end.requests:
        record = cluster.gangs.get(request.id)
        for part in record.parts if record is not None else ():
            if part is not None and part.guarantee is not None:
                at = part.guarantee, part.node_cell.index
                of_guarantee[at] = of_guarantee.get(at, 0) + part.mask.bit_count()
    found: dict[PromisedNode, int] = {}
    for ((share, level, cell, number), node), devices in of_guarantee.items():
        place = promised_node(share, level, number, node - share.chain.nodes_of(level, cell).start)
        found[place] = found.get(place, 0) + devices
    return found


def _pieces(trial: Trial, waiting: Waiting) -> tuple[Piece, ...]:
    """Return the cells on which the gang was placed last."""
    found = []
    for proposal in trial.proposals[-len(waiting.requests) :]:
        for part in proposal.parts:
            if part.guarantee is not None:
                share, level, cell, number = part.guarantee
                chain = share.chain
                node = part.node_cell.index - chain.nodes_of(level, cell).start
                mask = part.mask >> chain.first_device(level, cell)
                found.append(Piece(chain.spec.name, share.pin, level, number, node, mask))
    return tuple(found)


class FeasibilityCache:
    """Caches which gangs could start on the present hardware; keeping cells is useless for the others."""

    def __init__(self) -> None:
        self._possible: dict[tuple[Shape, ...], bool] = {}
        self._health = -1

    def is_possible(self, cluster: Cluster, blocker: Waiting, health: int) -> bool:
        """Return whether a gang could start, on the present hardware, if its virtual cluster were empty."""
        if health != self._health or len(self._possible) >= SHAPES_MAX:
            self._possible.clear()
            self._health = health
        shares = cluster.shares_of(blocker.gang.virtual_cluster)
        if any(share.chain.bad_nodes for share in shares) or any(each.has_constraints for each in blocker.requests):
            # It depends on which cells serve other virtual clusters at this moment.
            return _is_possible(cluster, blocker)
        shape = tuple([shape_of(request) for request in blocker.requests])
        if shape not in self._possible:
            self._possible[shape] = _is_possible(cluster, blocker)
        return self._possible[shape]


def _is_possible(cluster: Cluster, blocker: Waiting) -> bool:
    with Trial(cluster) as trial:
        for gang in sorted(cluster.gangs_of.get(blocker.gang.virtual_cluster, ())):
            trial.leave(gang)
        return trial.start_all(blocker.requests)

"""De-fragmentation: makes room for a gang by moving running gangs of its virtual cluster to other cells.

A virtual cluster may have enough devices left, but scattered. Then some gangs can leave theirs, so that a waiting gang
has whole cells, and start again elsewhere. The search tries the cells that cost least to clear, on the real records,
and undoes every try. A moved gang goes to cells that are free, so that no gang loses a cell that it was promised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final, NamedTuple

from openpai.scheduler.cells.chain import Unit, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.constraints import topology_level
from openpai.scheduler.cells.decision import Proposal, candidate_shares, decide, missing_devices, price_of
from openpai.scheduler.cells.guarantees import grant
from openpai.scheduler.cells.journal import Journal, reclaim, remove
from openpai.scheduler.cells.model import GangRecord, GangRequest, State
from openpai.scheduler.cells.node_search import room_of

TRIES_MAX: Final = 64
"""How many sets of gangs are tried in one search."""

EXACT_MAX: Final = 8
"""With more movable gangs on one node, not all combinations of them are compared."""

SUFFIX: Final = "/moved"
"""Added to the name of a gang, it names what is reserved for the gang elsewhere while it leaves."""


@dataclass(slots=True)
class Moves:
    """A gang with its place, and the gangs that move for it with theirs. It is on the records until `undo`."""

    cluster: Cluster
    placed: Proposal | None = None
    movers: tuple[str, ...] = ()
    kept: list[Proposal] = field(default_factory=list)
    """The new places of the movers."""
    loss: int = 0
    """Cost of the moves, and of the work of opportunistic gangs that must leave, too."""
    revoked: dict[str, None] = field(default_factory=dict)
    """The gangs that were considered."""
    journal: Journal = field(default_factory=Journal)
    back: Journal = field(default_factory=Journal)
    """Guarantees that were returned to gangs that are not in the way."""

    def revoke(self, gang: str) -> None:
        """Revoke the guarantee of a gang that may move."""
        record = self.cluster.gangs[gang]
        self.revoked[gang] = None
        for member, part in enumerate(record.parts):
            if part is not None and part.guarantee is not None:
                record.lost[member] = part.guarantee
                self.journal.revoke(gang, record.request.priority, part)

    def place_movers(self, placed: Proposal, now_ms: int | None) -> bool:
        """Place the gangs that are in the way elsewhere, on free cells; return whether that is possible."""
        if _takes_a_guarantee(placed):
            return False
        gangs = self.cluster.gangs
        self.movers = tuple([gang for gang in self.revoked if gang in placed.victims])
        if not self.movers:
            return False
        if not all(grant(gangs, self.back, gang) for gang in self.revoked if gang not in placed.victims):
            return False
        for gang in sorted(self.movers, key=lambda gang: (-gangs[gang].request.devices, gang)):
            kept = decide(self.cluster, replace(gangs[gang].request, id=gang + SUFFIX), now_ms)
            if kept is None:
                return False
            self.kept.append(kept)
            if kept.victims or _takes_a_guarantee(kept):
                return False
        return True

    def undo(self) -> None:
        """Remove it from the records."""
        for kept in reversed(self.kept):
            kept.undo()
        self.back.undo()
        if self.placed is not None:
            self.placed.undo()
        self.journal.undo()
        for gang in self.revoked:
            self.cluster.gangs[gang].lost.clear()


class _Option(NamedTuple):
    """A node, or a part of one, that could be cleared."""

    loss: int
    node: int
    gangs: frozenset[str]


def may_move(cluster: Cluster, gang: str, request: GangRequest) -> bool:
    """Return whether a gang is one that could make room: it runs in the same virtual cluster with its guarantee."""
    record = cluster.gangs.get(gang)
    if record is None or record.state is not State.ALLOCATED or record.lost:
        return False
    own = record.request
    is_below = own.virtual_cluster == request.virtual_cluster and 0 <= own.priority <= request.priority
    return is_below and all(part is not None and part.guarantee is not None for part in record.parts)


def find_moves(
    cluster: Cluster, request: GangRequest, losses: Mapping[str, int], most: int, now_ms: int | None
) -> Moves | None:
    """Return the moves that make room for a gang at the least loss, below `most`; None, without a trace, if none do.

    `losses` has the gangs that may move, with the cost of moving each.
    """
    if missing_devices(cluster, request):
        return None
    search = _Search(cluster, request, losses, most, now_ms)
    for share in candidate_shares(cluster, request):
        for options in search.options(share):
            search.look_at(options)
    return None if search.best is None else try_moves(cluster, request, search.best, losses, now_ms)


class _Search:
    """Looks for the cheapest set of gangs whose move makes room."""

    def __init__(
        self, cluster: Cluster, request: GangRequest, losses: Mapping[str, int], most: int, now_ms: int | None
    ) -> None:
        self.best: tuple[str, ...] | None = None
        self._cluster = cluster
        self._request = request
        self._losses = losses
        self._most = most
        self._now_ms = now_ms
        self._tries = 0

    def look_at(self, options: list[_Option]) -> None:
        """Clear what costs least until the gang has room, in each order that begins with another option."""
        options.sort(key=lambda option: (option.loss, option.node, sorted(option.gangs)))
        is_alone = len(self._request.sizes()) == 1
        for first in range(len(options)):
            if self._tries >= TRIES_MAX or options[first].loss >= self._most:
                return
            chosen: set[str] = set()
            for option in options[first:]:
                chosen |= option.gangs
                if self._tries >= TRIES_MAX or self._loss(chosen) >= self._most:
                    break
                if self._succeeds(chosen):
                    self._leave_out(chosen)
                    break
                if is_alone:
                    break

    def _leave_out(self, chosen: set[str]) -> None:
        """Take gangs out of the set that need not move, the most expensive first."""
        if len(chosen) > 1:
            for gang in sorted(chosen, key=lambda gang: (-self._losses[gang], gang)):
                if self._tries < TRIES_MAX and len(chosen) > 1 and self._succeeds(chosen - {gang}):
                    chosen.discard(gang)

    def _succeeds(self, chosen: set[str]) -> bool:
        self._tries += 1
        moves = try_moves(self._cluster, self._request, sorted(chosen), self._losses, self._now_ms)
        if moves is None:
            return False
        moves.undo()
        if moves.loss < self._most:
            self._most, self.best = moves.loss, moves.movers
        return True

    def _loss(self, gangs: Iterable[str]) -> int:
        return sum([self._losses[gang] for gang in gangs])

    def options(self, share: VcShare) -> Iterable[list[_Option]]:
        """Return what could be cleared for the largest member of the gang, by cell that the gang may not leave."""
        request, chain = self._request, share.chain
        largest, level = max(request.sizes()), topology_level(chain, request)
        inside_node = chain.shape.cells[level - 1] if 0 < level < chain.node_level else (-1,)
        found: dict[int, list[_Option]] = {}
        for binding in share.bindings.values():
            for unit in binding.units:
                node_cell = unit.node_cell
                if request.nodes is None or node_cell.name in request.nodes:
                    cell = node_cell.index // chain.nodes_per[level] if level >= chain.node_level else 0
                    for mask in inside_node:
                        found.setdefault(cell, []).extend(self._options_on(unit, unit.mask & mask, largest))
        return found.values()

    def _options_on(self, unit: Unit, inside: int, largest: int) -> Iterator[_Option]:
        node_cell = unit.node_cell
        missing = largest - (room_of(unit) & inside).bit_count()
        freed = {
            gang: (mask & inside & ~node_cell.bad).bit_count()
            for gang, mask in sorted(node_cell.claims.items())
            if mask & inside and gang in self._losses
        }
        if inside.bit_count() < largest or missing <= 0 or sum(freed.values()) < missing:
            return
        if len(freed) > EXACT_MAX:
            chosen: set[str] = set()
            for gang in sorted(freed, key=lambda gang: (self._losses[gang] / max(1, freed[gang]), gang)):
                if sum([freed[name] for name in chosen]) < missing:
                    chosen.add(gang)
            yield _Option(self._loss(chosen), node_cell.index, frozenset(chosen))
            return
        enough: list[frozenset[str]] = []
        for number in range(1, len(freed) + 1):
            for gangs in map(frozenset, combinations(freed, number)):
                is_minimal = not any(less < gangs for less in enough)
                if is_minimal and sum([freed[gang] for gang in gangs]) >= missing:
                    enough.append(gangs)
                    yield _Option(self._loss(gangs), node_cell.index, gangs)


def try_moves(
    cluster: Cluster, request: GangRequest, gangs: Iterable[str], losses: Mapping[str, int], now_ms: int | None
) -> Moves | None:
    """Place a gang where some of these gangs are, and those elsewhere; None, without a trace, if one has no place."""
    moves = Moves(cluster)
    for gang in gangs:
        moves.revoke(gang)
    moves.placed = decide(cluster, request, now_ms)
    if moves.placed is None or not moves.place_movers(moves.placed, now_ms):
        moves.undo()
        return None
    others = price_of(cluster, now_ms)(moves.placed.victims - set(moves.movers))[0]
    moves.loss = sum([losses[gang] for gang in moves.movers]) + others
    moves.placed.rebound |= moves.journal.touched()
    return moves


def _takes_a_guarantee(proposal: Proposal) -> bool:
    return bool(proposal.lazily_preempted or proposal.displaced or proposal.rebound)


def reserve_places(moves: Moves) -> None:
    """Reserve for each mover, under its name with `SUFFIX`, the place that was found for it."""
    for kept in moves.kept:
        kept.name_spots()
        moves.cluster.remember(GangRecord(kept.request, list(kept.parts), State.PREEMPTING, spots=kept.spots))


def reserve_as(cluster: Cluster, gang: str, request: GangRequest) -> None:
    """Reserve for a request what is reserved for a gang like it under another name."""
    record = cluster.gangs[gang]
    cluster.forget(record)
    for part in record.parts:
        guarantee = part.guarantee if part is not None else None
        if part is not None and guarantee is not None:
            remove(gang, record.request.priority, part)
            reclaim(request.id, request.priority, part, guarantee)
    record.request = request
    cluster.remember(record)

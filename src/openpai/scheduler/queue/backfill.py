"""Keeps cells for gangs that have waited long, so that they are not passed for ever while everything else stays open.

A gang that many smaller ones pass never finds all of its cells free at one moment. One gang of each virtual cluster at
a time therefore has the cells kept that will be free for it soonest, as estimated from how long gangs
like those on them usually run. No other gang gets what is free of these cells, except gangs that should have left again
by then. The cells are chosen again as facts come in, until they are *closed*: from then on no gang starts on them,
and only cells are chosen whose gangs were there when they were closed. So a gang at the front starts at the latest when
everything has ended that ran when its cells were closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NamedTuple

from openpai.scheduler.cells.chain import Chain, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.decision import missing_devices
from openpai.scheduler.cells.journal import Journal
from openpai.scheduler.cells.model import Shape, shape_of
from openpai.scheduler.cells.node_search import bind_clean_unit, clean_of
from openpai.scheduler.cells.trial import Trial
from openpai.scheduler.queue.requests import GangRequests
from openpai.scheduler.queue.waiting_queue import Waiting

PATIENCE_MAX_MS: Final = 30 * 24 * 60 * 60 * 1000
"""The longest run time that counts for how long a gang may wait before its cells are closed."""

CLOSED_AFTER: Final = 2
"""After so many times the longest run time the cells kept for a gang of several members are closed."""

ALONE_AFTER: Final = 4
"""After so many times the longest run time the cells of a gang of one member are closed: it needs no two at once."""

IDLE_SHARE: Final = 0.02
"""Cells that are not closed may stand idle for so much of the device time that the gang has waited."""

AGAIN: Final = 8
"""Cells are chosen again each time such a part of the time has passed that they need to become free."""

AGAIN_MIN_MS: Final = 60_000

SHAPES_MAX: Final = 10_000
"""Cached answers; the cache is cleared when it is full."""

KEEPER: Final = "\0kept"
"""The name that claims the kept devices while other gangs are considered."""


class Piece(NamedTuple):
    """Devices of one node that are kept."""

    chain: str
    node_cell: int
    mask: int
    level: int
    cell: int
    """The promised cell they are in, as it was when they were chosen."""


class Leaving(NamedTuple):
    """A gang that will leave its devices."""

    at_ms: int
    requests: GangRequests


@dataclass(slots=True)
class Kept:
    """The cells kept for one gang."""

    gang: str
    virtual_cluster: str
    priority: int
    pieces: tuple[Piece, ...]
    chosen_ms: int
    free_ms: int
    """When all of them should be free."""
    closed_ms: int | None = None
    """Since when no other gang starts on them."""
    journal: Journal | None = field(default=None, compare=False)

    @property
    def again_ms(self) -> int:
        """Return when the cells are to be chosen again."""
        return self.chosen_ms + max(AGAIN_MIN_MS, (self.free_ms - self.chosen_ms) // AGAIN)

    def idle(self, cluster: Cluster) -> int:
        """Return how many of the kept devices are idle."""
        found = 0
        for piece in self.pieces:
            node_cell = cluster.chains[piece.chain].node_cells[piece.node_cell]
            found += (piece.mask & ~(node_cell.claimed | node_cell.opportunistic | node_cell.bad)).bit_count()
        return found

    def hold(self, cluster: Cluster) -> None:
        """Claim what is free of the cells, so that no other gang gets it, until `let_go`."""
        if self.journal is not None:
            return
        self.journal = Journal()
        for piece in self.pieces:
            chain = cluster.chains[piece.chain]
            shares = [share for share in cluster.shares_of(self.virtual_cluster) if share.chain is chain]
            serving = [share for share in shares if (piece.level, piece.cell) in share.bindings]
            if serving:
                _claim_free(serving[0], chain, piece, self.priority, self.journal)
            elif shares:
                _claim_another(shares[0], piece, self.priority, self.journal)

    def let_go(self) -> None:
        """Leave no trace of `hold`."""
        journal, self.journal = self.journal, None
        if journal is not None:
            journal.undo()

    def dump(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "gang": self.gang,
            "virtual_cluster": self.virtual_cluster,
            "priority": self.priority,
            "pieces": [list(piece) for piece in self.pieces],
            "chosen_ms": self.chosen_ms,
            "free_ms": self.free_ms,
            "closed_ms": self.closed_ms,
        }


def _claim_free(share: VcShare, chain: Chain, piece: Piece, priority: int, journal: Journal) -> None:
    node_cell = chain.node_cells[piece.node_cell]
    for unit in list(node_cell.units):
        mask = unit.mask & piece.mask & ~(node_cell.claimed | node_cell.bad)
        if unit.binding.share is share and mask:
            journal.claim(KEEPER, priority, unit, mask)


def _claim_another(share: VcShare, piece: Piece, priority: int, journal: Journal) -> None:
    """Nothing serves the promised cell of a piece now: any other cell that could serve it is as good."""
    number = piece.mask.bit_count()
    unit = bind_clean_unit(share, number, None)
    if unit is not None:
        journal.claim(KEEPER, priority, unit, share.chain.shape.best(clean_of(unit), number)[0])


def kept_in(row: dict[str, Any]) -> Kept:
    """Return what was dumped."""
    return Kept(**{**row, "pieces": tuple([Piece(*piece) for piece in row["pieces"]])})


def choose(cluster: Cluster, waiting: Waiting, leaving: Iterable[Leaving], now_ms: int) -> Kept | None:
    """Return the cells that will be free for a gang soonest if others leave when they should; None if none ever are."""
    ends = sorted(leaving, key=lambda end: end.at_ms)
    missing = max([missing_devices(cluster, request) for request in waiting.requests])
    devices = (sum([request.devices for request in end.requests]) for end in ends)
    freed = list(accumulate(devices, initial=0))
    with Trial(cluster) as trial:
        marks = [trial.mark]  # after so many have left

        def fits(count: int) -> bool:
            if freed[count] < missing:
                return False
            trial.back_to(marks[min(count, len(marks) - 1)])
            del marks[count + 1 :]
            for end in ends[len(marks) - 1 : count]:
                for request in end.requests:
                    trial.leave(request.id)
                marks.append(trial.mark)
            return trial.start_all(waiting.requests)

        least, most = 0, len(ends)
        if not fits(most):
            return None
        while least < most:
            middle = (least + most) // 2
            if fits(middle):
                most = middle
            else:
                least = middle + 1
        if not fits(most):
            return None
        pieces = [
            Piece(
                part.node_cell.chain.spec.name,
                part.node_cell.index,
                part.mask,
                part.guarantee.level,
                part.guarantee.cell,
            )
            for proposal in trial.proposals[-len(waiting.requests) :]
            for part in proposal.parts
            if part.guarantee is not None
        ]
    gang = waiting.gang
    free_ms = max(now_ms, ends[most - 1].at_ms) if most else now_ms
    return Kept(gang.id, gang.virtual_cluster, gang.priority, tuple(pieces), now_ms, free_ms)


class FeasibilityCache:
    """Caches which gangs could start at all on the present hardware: keeping cells is useless for the others."""

    def __init__(self) -> None:
        self._possible: dict[tuple[Shape, ...], bool] = {}
        self._health = -1

    def is_possible(self, cluster: Cluster, blocker: Waiting, health: int) -> bool:
        """Return whether a gang could start, on the present hardware, if its virtual cluster were empty."""
        if health != self._health or len(self._possible) >= SHAPES_MAX:
            self._possible.clear()
            self._health = health
        shape = tuple([shape_of(request) for request in blocker.requests])
        if shape not in self._possible:
            with Trial(cluster) as trial:
                for gang in sorted(cluster.gangs_of.get(blocker.gang.virtual_cluster, ())):
                    trial.leave(gang)
                self._possible[shape] = trial.start_all(blocker.requests)
        return self._possible[shape]

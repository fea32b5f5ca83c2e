"""Finds guarantees for gangs on the devices they run on: after a restart, a reconfiguration or a cancelled preemption.

The promised cell that served a gang before is preferred, then any that can. If other cells of its own virtual cluster
are in the way, they are exchanged for larger or smaller ones that serve the same gangs. Guarantees follow priority: a
running gang lacks its guarantee only if revoking those of all gangs of lower priority would not help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from openpai.scheduler.cells.chain import Chain, Guarantee, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.journal import Journal, Part
from openpai.scheduler.cells.model import GangRecord, State

STEPS_MAX: Final = 2_000
"""How many ways of serving the same gangs from other promised cells are tried at most."""
PARTS_MAX: Final = 64
"""Virtual clusters with more running members than this are not rearranged as a whole."""


class _Claim(NamedTuple):
    """A part and the gang that claims it."""

    gang: str
    priority: int
    part: Part
    is_reserved: bool = False
    """Whether the gang does not run there yet; then nothing runs there for it while the part is not claimed."""

    def give_up(self, journal: Journal) -> None:
        """Release the claim."""
        (journal.drop if self.is_reserved else journal.revoke)(self.gang, self.priority, self.part)

    def take(self, journal: Journal, guarantee: Guarantee) -> None:
        """Claim the part from a cell."""
        (journal.claim_again if self.is_reserved else journal.grant)(self.gang, self.priority, self.part, guarantee)


def cell_around(chain: Chain, part: Part, level: int) -> int | None:
    """Return the cell of a level that contains a part, None if none contains all of it."""
    if level >= chain.node_level:
        return part.node_cell.index // chain.nodes_per[level]
    size = chain.spec.leaves(level)
    at = ((part.mask & -part.mask).bit_length() - 1) // size
    if part.mask & ~chain.shape.cells[level - 1][at]:
        return None
    return part.node_cell.index * chain.per_node(level) + at


def find_guarantee(share: VcShare, part: Part, hint: int) -> Guarantee | None:
    """Return a guarantee of the share that covers a part, preferably from a promised cell of level `hint`."""
    return next(_guarantees(share, part, hint), None)


def _guarantees(share: VcShare, part: Part, hint: int) -> Iterator[Guarantee]:
    """Yield the guarantees of a share that cover a part: from the bound cell around it, or from cells to bind."""
    node_cell = part.node_cell
    chain = node_cell.chain
    if chain is not share.chain or part.mask & node_cell.claimed:
        return
    binding = share.binding_of(node_cell, part.mask)
    if binding is not None:
        yield Guarantee(share, binding.level, binding.index, binding.number)
        return
    for level in _levels(share, hint):
        cell = cell_around(chain, part, level)
        if cell is None:
            continue
        cover = chain.free_cells.cover(level, cell)
        if cover and chain.free_cells.is_safe(level, cover):
            unserved = share.unserved[level - 1]
            yield Guarantee(share, level, cell, (unserved & -unserved).bit_length() - 1)


def _levels(share: VcShare, hint: int) -> Iterator[int]:
    order = [hint, *(level for level in range(1, len(share.unserved) + 1) if level != hint)]
    return (level for level in order if 0 < level <= len(share.unserved) and share.unserved[level - 1])


def grant(gangs: Mapping[str, GangRecord], journal: Journal, gang: str) -> bool:
    """Return to a gang the guarantees it lost, all or none of them; return whether it has them."""
    record = gangs[gang]
    mark = journal.mark
    for member, lost in sorted(record.lost.items()):
        part = record.parts[member]
        if part is None:
            continue
        guarantee = find_guarantee(lost.share, part, lost.level)
        if guarantee is None:
            if _serve_from_other_cells(
                gangs, journal, lost.share, _Claim(gang, record.request.priority, part), lost.level
            ):
                continue
            journal.undo(mark)
            return False
        journal.grant(gang, record.request.priority, part, guarantee)
    record.lost.clear()
    return True


def _serve_from_other_cells(
    gangs: Mapping[str, GangRecord], journal: Journal, share: VcShare, wanted: _Claim, hint: int
) -> bool:
    """Claim a part by serving the share's gangs from other promised cells; False, without a trace, if impossible."""
    if wanted.part.mask & wanted.part.node_cell.claimed or wanted.part.node_cell.chain is not share.chain:
        return False
    if not _are_enough(share, wanted.part.node_cell.index):
        return False
    claims = list(_claims_of(gangs, share))
    if len(claims) >= PARTS_MAX:
        node = share.chain.node_level
        larger = (level for level in range(node, share.chain.top + 1) if share.unserved[level - 1])
        return any(_serve_within(gangs, journal, share, wanted, level) for level in larger)
    mark = journal.mark
    hints = {id(claim.part): claim.part.guarantee.level for claim in claims if claim.part.guarantee is not None}
    hints[id(wanted.part)] = hint
    for claim in claims:
        claim.give_up(journal)
    if _assign(journal, share, [wanted, *claims], hints):
        return True
    journal.undo(mark)
    return False


def _are_enough(share: VcShare, node: int) -> bool:
    """Return whether the promised cells may be enough for the nodes that its gangs use and one more; quick.

    Gangs stay where they are, so each level of cells serves at best as many of these nodes as lie in the cells with
    most of them.
    """
    bindings = share.bindings.values()
    units = [unit for binding in bindings for unit in binding.units if unit.node_cell.claimed & unit.mask]
    nodes = {node, *(unit.node_cell.index for unit in units)}
    most = 0
    for level, promised in enumerate(share.promised, 1):
        if promised and level <= share.chain.node_level:
            most += promised
        elif promised:
            in_cells = Counter([index // share.chain.nodes_per[level] for index in nodes])
            most += sum([number for _, number in in_cells.most_common(promised)])
    return most >= len(nodes)


def _serve_within(
    gangs: Mapping[str, GangRecord], journal: Journal, share: VcShare, wanted: _Claim, level: int
) -> bool:
    """Serve a part, and all that smaller cells around it serve, from one larger cell."""
    chain = share.chain
    cell = wanted.part.node_cell.index // chain.nodes_per[level]
    inside = chain.nodes_of(level, cell)
    claims = [
        claim
        for claim in _claims_of(gangs, share)
        if claim.part.node_cell.index in inside
        and claim.part.guarantee is not None
        and claim.part.guarantee.level < level
    ]
    mark = journal.mark
    for claim in claims:
        claim.give_up(journal)
    cover = chain.free_cells.cover(level, cell)
    if cover and chain.free_cells.is_safe(level, cover):
        unserved = share.unserved[level - 1]
        guarantee = Guarantee(share, level, cell, (unserved & -unserved).bit_length() - 1)
        for claim in [wanted, *claims]:
            claim.take(journal, guarantee)
        return True
    journal.undo(mark)
    return False


def _claims_of(gangs: Mapping[str, GangRecord], share: VcShare) -> Iterator[_Claim]:
    for gang, record in sorted(gangs.items()):
        if record.request.virtual_cluster == share.name:
            for part in record.parts:
                if part is not None and part.guarantee is not None and part.guarantee.share is share:
                    yield _Claim(gang, record.request.priority, part, record.state is State.PREEMPTING)


def _assign(journal: Journal, share: VcShare, claims: list[_Claim], hints: Mapping[int, int]) -> bool:
    """Claim every part from any promised cells; False, without a trace, if there is no way."""
    steps = 0

    def give(at: int) -> bool:
        nonlocal steps
        if at == len(claims):
            return True
        claim = claims[at]
        for guarantee in list(_guarantees(share, claim.part, hints[id(claim.part)])):
            steps += 1
            if steps > STEPS_MAX:
                return False
            mark = journal.mark
            claim.take(journal, guarantee)
            if give(at + 1):
                return True
            journal.undo(mark)
        return False

    return give(0)


def seniority(record: GangRecord) -> tuple[int, int, str]:
    """Return the sort key by which running gangs keep their guarantees; smaller is better."""
    return -record.request.priority, record.since_ms or 0, record.request.id


def settle_guarantees(cluster: Cluster, only: str | None = None) -> set[str]:
    """Return lost guarantees to running gangs, the highest priority first, or to `only` one of them.

    Gangs of lower priority lose theirs where necessary. Returns the gangs that lost a reservation by it: they hold
    nothing any more, and the caller must release them.
    """
    displaced: set[str] = set()
    names = [name for demoted in cluster.demoted.values() for name in demoted if only in (None, name)]
    for name in sorted(names, key=lambda name: seniority(cluster.gangs[name])):
        record = cluster.gangs[name]
        if not record.lost or record.threats or record.state is not State.ALLOCATED or _is_beyond(record):
            continue
        journal = Journal()
        if grant(cluster.gangs, journal, name):
            cluster.promote(record)
            _note_rebound(cluster, record, journal)
        else:
            displaced |= _take_over(cluster, record)
    return displaced


def _is_beyond(record: GangRecord) -> bool:
    """Return whether a gang cannot have its guarantee: the same or higher priorities use too much of its share."""
    wanted: dict[VcShare, int] = {}
    for member, lost in record.lost.items():
        part = record.parts[member]
        if part is not None:
            wanted[lost.share] = wanted.get(lost.share, 0) + part.mask.bit_count()
    return any(
        need > share.size - share.claimed + share.claimed_below(record.request.priority)
        for share, need in wanted.items()
    )


def _take_over(cluster: Cluster, record: GangRecord) -> set[str]:
    """Return a gang's guarantee at the expense of lower priorities, if that helps; return the displaced gangs."""
    shares = {id(lost.share): lost.share for lost in record.lost.values()}
    lower = [
        other
        for other in cluster.gangs_of[record.request.virtual_cluster].values()
        if 0 <= other.request.priority < record.request.priority and _has_claim(other, shares)
    ]
    if not lower:
        return set()
    lower.sort(key=seniority)
    gang, journal = record.request.id, Journal()
    lost = dict(record.lost)
    for other in lower:
        _revoke(journal, other)
    if not grant(cluster.gangs, journal, gang):
        journal.undo()
        record.lost = lost
        _keep(lower)
        return set()
    cluster.promote(record)
    displaced = _give_back(cluster, journal, lower, gang)
    _note_rebound(cluster, record, journal)
    return displaced


def _note_rebound(cluster: Cluster, record: GangRecord, journal: Journal) -> None:
    """Record which gangs are served from other cells than before: that may leave room where there was none."""
    cluster.rebound |= journal.touched()
    chains = {part.node_cell.chain.spec.name: part.node_cell.chain for part in record.parts if part is not None}
    cluster.note_freed(record.request.virtual_cluster, chains.values())


def _has_claim(record: GangRecord, shares: Mapping[int, VcShare]) -> bool:
    return any(
        part is not None and part.guarantee is not None and id(part.guarantee.share) in shares for part in record.parts
    )


def _revoke(journal: Journal, record: GangRecord) -> None:
    for member, part in enumerate(record.parts):
        if part is not None and part.guarantee is not None:
            record.lost[member] = part.guarantee
            if record.state is State.PREEMPTING:
                journal.drop(record.request.id, record.request.priority, part)
            else:
                journal.revoke(record.request.id, record.request.priority, part)


def _keep(records: Iterable[GangRecord]) -> None:
    """Clear the lost guarantees of gangs that have them again."""
    for record in records:
        record.lost.clear()


def _give_back(cluster: Cluster, journal: Journal, lower: list[GangRecord], by: str) -> set[str]:
    """Return to gangs of lower priority what is left for them, and demote the others."""
    displaced = set()
    for other in lower:
        name = other.request.id
        if other.state is State.PREEMPTING:
            if not _reserve_again(journal, other):
                displaced.add(name)
        elif not grant(cluster.gangs, journal, name):
            cluster.demote(other, by)
    return displaced


def _reserve_again(journal: Journal, record: GangRecord) -> bool:
    """Reserve again what was reserved for a gang that waits for its victims, if all of it is still available."""
    mark = journal.mark
    for member, guarantee in sorted(record.lost.items()):
        part = record.parts[member]
        found = None if part is None else find_guarantee(guarantee.share, part, guarantee.level)
        if part is None or found is None:
            journal.undo(mark)
            record.lost.clear()
            return False
        journal.claim_again(record.request.id, record.request.priority, part, found)
    record.lost.clear()
    return True

"""Makes room for a gang by preempting gangs of lower priority in the same virtual cluster.

Node by node, it chooses the gangs whose preemption loses least; gangs that turn out not to be in the way keep theirs.
A lazily preemptible gang only loses its guarantee: it runs on if its devices are not needed.
"""

from __future__ import annotations

from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import Guarantee, NodeCell, Unit, VcShare
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.constraints import node_sets
from openpai.scheduler.cells.grouping import in_share
from openpai.scheduler.cells.guarantees import grant
from openpai.scheduler.cells.journal import Journal, Part, unit_at
from openpai.scheduler.cells.model import GangRecord, GangRequest, State
from openpai.scheduler.cells.node_search import (
    Loss,
    Price,
    Within,
    bind_clean_unit,
    cheapest_mask,
    clean_of,
    find_costly_unit,
    find_open_unit,
    room_of,
)
from openpai.scheduler.cells.placing import Placement


class Preemption:
    """The placement of one gang into a share that is full of gangs of lower priority."""

    def __init__(self, cluster: Cluster, share: VcShare, request: GangRequest, price: Price) -> None:
        self.journal = Journal()
        self.victims: set[str] = set()
        self.lazily_preempted: set[str] = set()
        self.displaced: set[str] = set()
        self._cluster = cluster
        self._share = share
        self._request = request
        self._price = price
        self._within: Within | None = None
        self._lower = {
            gang: record
            for gang, record in sorted(cluster.gangs_of[share.name].items())
            if record.request.priority < request.priority
            and any(
                part is not None and part.guarantee is not None and part.guarantee.share is share
                for part in record.parts
            )
        }
        self._evicted: dict[str, GangRecord] = {}

    def undo(self) -> None:
        """Undo the placement."""
        self.journal.undo()
        for record in self._evicted.values():
            record.lost.clear()
        self._evicted.clear()

    def place(self) -> list[Part] | None:
        """Claim devices for every member; None, without a trace, if even preemption makes no room."""
        request = self._request
        if request.topology is None and request.nodes is None and not request.groups:
            placed = self._place_each(request.sizes())
            if placed is not None:
                return placed
            if len(set(request.sizes())) == 1 and not self._share.chain.bad_nodes:
                return None  # for members of one size, choosing node by node is exact
        return self._place_with_all_evicted(request.sizes())

    def _place_each(self, sizes: tuple[int, ...]) -> list[Part] | None:
        """Make room for the members one by one."""
        parts: dict[int, Part] = {}
        for member in sorted(range(len(sizes)), key=lambda member: -sizes[member]):
            part = self._place_member(sizes[member])
            if part is None:
                self.undo()
                return None
            parts[member] = part
        placed = [parts[member] for member in range(len(sizes))]
        self._settle_evicted(placed)
        return placed

    def _place_with_all_evicted(self, sizes: tuple[int, ...]) -> list[Part] | None:
        """Evict all gangs of lower priority, then return their guarantees to those that are not in the way."""
        for gang in self._lower:
            self._evict(gang)
        request = self._request
        placement = Placement(request.id, request.priority, sizes, self.journal, self._price)
        grouped = in_share(request, self._share, self.journal, self._price, may_cost=True)
        for within in node_sets(self._share, request):
            if request.groups:
                placed = grouped.place(within)
            else:
                placed = placement.without_loss(self._share, within) or placement.at_a_cost(self._share, within)
            if placed is not None:
                self._settle_evicted(placed)
                return placed
        self.undo()
        return None

    def _place_member(self, number: int) -> Part | None:
        unit = find_open_unit(self._share, number, self._within) or bind_clean_unit(self._share, number, self._within)
        if unit is not None:
            return self._claim(unit, self._share.chain.shape.best(clean_of(unit), number)[0])
        # Opportunistic gangs, and those preempted for an earlier member, are preempted before any other gang.
        unit = find_costly_unit(self._share, number, self._within, self._price_evicted)
        if unit is not None:
            return self._claim(unit, cheapest_mask(unit, number, self._price_evicted))
        found = self._cheapest(number)
        if found is None:
            return None
        node_cell, guarantee, gangs, region = found
        only_lazy = all(self._lower[gang].request.is_lazily_preemptible for gang in gangs)
        for gang in gangs:
            self._evict(gang)
        if only_lazy:
            unit = find_open_unit(self._share, number, self._within) or bind_clean_unit(
                self._share, number, self._within
            )
            if unit is not None:
                return self._claim(unit, self._share.chain.shape.best(clean_of(unit), number)[0])
        unit = self._unit(node_cell, guarantee, region)
        return self._claim(unit, cheapest_mask(unit, number, self._price_evicted))

    def _price_evicted(self, gangs: set[str]) -> Loss:
        """Return the loss, where gangs that must leave anyway cost nothing and lazily preemptible ones still count."""
        leaving = {gang for gang, record in self._evicted.items() if not record.request.is_lazily_preemptible}
        return self._price(gangs - leaving)

    def _claim(self, unit: Unit, mask: int) -> Part:
        return self.journal.claim(self._request.id, self._request.priority, unit, mask)

    def _unit(self, node_cell: NodeCell, guarantee: Guarantee, region: int) -> Unit:
        binding = self._share.bindings.get((guarantee.level, guarantee.cell))
        if binding is None:
            binding = mutations.bind(self._share, guarantee.level, guarantee.cell)
        return unit_at(node_cell, binding, region)

    def _cheapest(self, number: int) -> tuple[NodeCell, Guarantee, list[str], int] | None:
        """Return where preemption makes room for `number` devices at the least loss, and the gangs it preempts."""
        best: tuple[NodeCell, Guarantee, list[str], int] | None = None
        least: tuple[int, ...] | None = None
        seen: set[tuple[int, int]] = set()
        for gang, record in self._lower.items():
            if gang in self._evicted:
                continue
            for part in record.parts:
                if part is None or part.guarantee is None or part.guarantee.share is not self._share:
                    continue
                if self._within is not None and not self._within.bits >> part.node_cell.index & 1:
                    continue
                binding = self._share.bindings[part.guarantee.level, part.guarantee.cell]
                unit = unit_at(part.node_cell, binding, part.mask)
                if (part.node_cell.index, unit.mask) in seen or unit.mask.bit_count() < number:
                    continue
                seen.add((part.node_cell.index, unit.mask))
                gangs = self._leaving(unit, number)
                if gangs is None:
                    continue
                loss = self._price(set(gangs))
                highest = max(self._lower[gang].request.priority for gang in gangs)
                rank = (highest, *loss, unit.mask.bit_count(), part.node_cell.index, unit.mask)
                if least is None or rank < least:
                    best, least = (part.node_cell, part.guarantee, gangs, unit.mask), rank
        return best

    def _leaving(self, unit: Unit, number: int) -> list[str] | None:
        """Return the gangs to preempt on a unit so that `number` devices are free, None if that is not enough."""
        missing = number - room_of(unit).bit_count()
        node_cell = unit.node_cell
        there = [
            (gang, (mask & unit.mask & ~node_cell.bad).bit_count())
            for gang, mask in node_cell.claims.items()
            if mask & unit.mask and gang in self._lower and gang not in self._evicted
        ]
        there.sort(key=lambda item: (self._lower[item[0]].request.priority, self._price({item[0]}), -item[1], item[0]))
        chosen: list[tuple[str, int]] = []
        for gang, freed in there:
            if missing <= 0:
                break
            chosen.append((gang, freed))
            missing -= freed
        if missing > 0 or not chosen:
            return None
        for item in reversed(list(chosen)):
            if missing + item[1] <= 0:
                chosen.remove(item)
                missing += item[1]
        return [gang for gang, _ in chosen]

    def _evict(self, gang: str) -> None:
        record = self._lower[gang]
        self._evicted[gang] = record
        for member, part in enumerate(record.parts):
            if part is None or part.guarantee is None:
                continue
            if record.state is State.PREEMPTING:
                self.journal.drop(gang, record.request.priority, part)
            else:
                record.lost[member] = part.guarantee
                self.journal.revoke(gang, record.request.priority, part)

    def _settle_evicted(self, placed: list[Part]) -> None:
        """Record which evicted gangs must leave, which run on without a guarantee, and which get theirs back."""
        on_them = {
            gang for part in placed for gang, mask in part.node_cell.opportunistic_gangs.items() if mask & part.mask
        }

        def loss_order(item: tuple[str, GangRecord]) -> tuple[int, Loss, str]:
            work, count, devices = self._price({item[0]})
            return -item[1].request.priority, (-work, -count, -devices), item[0]

        for gang, record in sorted(self._evicted.items(), key=loss_order):
            if record.state is State.PREEMPTING:
                self.displaced.add(gang)
            elif gang not in on_them and not grant(self._cluster.gangs, self.journal, gang):
                self.lazily_preempted.add(gang)
        self.victims = on_them

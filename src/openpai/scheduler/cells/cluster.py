"""The state of the HiveD core: chains, virtual clusters and gangs, and how to find one from another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from openpai.scheduler.cells import mutations
from openpai.scheduler.cells.chain import CellBinding, Chain, NodeCell, VcShare
from openpai.scheduler.cells.journal import Part
from openpai.scheduler.cells.model import OPPORTUNISTIC, GangRecord, GangRequest, NodeHealth, State
from openpai.scheduler.config.model import HivedConfig, SkuSpec


class Proposal(Protocol):
    """A decision that is recorded but not committed yet."""

    def suspend(self) -> None:
        """Remove it from the records until `resume`."""
        ...

    def resume(self) -> None:
        """Record it again."""
        ...


class Freed(dict[str, int]):
    """Counts how often something was freed, by virtual cluster; "" for anything anywhere."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        super().__init__(counts)
        self.lately = set(counts)
        """The virtual clusters whose counts grew since the queue last took note of that, or more."""

    def grow(self, virtual_cluster: str) -> None:
        """Count that something was freed in a virtual cluster."""
        self[virtual_cluster] = self.get(virtual_cluster, 0) + 1
        self.lately.add(virtual_cluster)


class Cluster:
    """The state of the scheduler, as built from a configuration and changed by facts."""

    def __init__(self, config: HivedConfig) -> None:
        self.config = config
        self.chains = {name: Chain(spec) for name, spec in config.chains.items()}
        self.shares: dict[str, dict[str, VcShare]] = {}
        """The shares of each virtual cluster, by chain."""
        self.candidates: dict[tuple[str, str | None], list[VcShare]] = {}
        """The shares that gangs may use, by virtual cluster and type of device, as found before."""
        self.pins: dict[tuple[str, str], VcShare] = {}
        self.node_cells: dict[str, list[NodeCell]] = {}
        """Nodes by name; one machine may be a node of several chains."""
        self.gangs: dict[str, GangRecord] = {}
        self.gangs_of: dict[str, dict[str, GangRecord]] = {name: {} for name in config.virtual_clusters}
        self.demoted: dict[str, set[str]] = {}
        """Gangs that lost their guarantee and run on, by virtual cluster."""
        self.freed = Freed(dict.fromkeys(["", *config.virtual_clusters], 0))
        self.watching: dict[str, set[str]] = {}
        """By chain, the virtual clusters with a gang that waits for something that other virtual clusters may free."""
        self.rebound: set[str] = set()
        """Gangs whose guarantees changed since `Hived.rebound` was last called."""
        self.borrowed: dict[str, int] = dict.fromkeys(config.virtual_clusters, 0)
        """Devices in use without a guarantee, by virtual cluster."""
        self.proposal: Proposal | None = None
        self.skus: Mapping[str, SkuSpec] = config.skus
        """The SKU of each device type, for messages; the queue replaces it when nodes are reported."""
        self.unhealthy: dict[str, NodeHealth] = {}
        """Nodes that are unhealthy, drain or have bad devices."""
        for chain in self.chains.values():
            for node_cell in chain.node_cells:
                self.node_cells.setdefault(node_cell.name, []).append(node_cell)
        self._promise()

    def _promise(self) -> None:
        for name, spec in self.config.virtual_clusters.items():
            shares: dict[str, VcShare] = {}
            for quota in spec.quota:
                if quota.number:
                    share = shares.setdefault(quota.chain, VcShare(name, self.chains[quota.chain]))
                    share.promise(quota.level, quota.number)
                    share.chain.free_cells.need[quota.level - 1] += quota.number
            self.shares[name] = {chain: shares[chain] for chain in self.chains if chain in shares}
            for chain, share in self.shares[name].items():
                self.chains[chain].shares[name] = share
        for name, spec in self.config.virtual_clusters.items():
            for pin in spec.pinned:
                cell = self.config.pinned[pin]
                chain_ = self.chains[cell.chain]
                share = VcShare(name, chain_, pin)
                share.size = chain_.spec.leaves(cell.level)
                share.promised[cell.level - 1] = 1
                chain_.free_cells.take(cell.level, cell.index)
                mutations.open_units(CellBinding(share, cell.level, cell.index, 0, is_pinned=True))
                self.pins[name, pin] = share

    @contextmanager
    def committed(self) -> Iterator[None]:
        """Show only what is committed, without the proposal, while the context lasts."""
        if self.proposal is None:
            yield
            return
        self.proposal.suspend()
        try:
            yield
        finally:
            self.proposal.resume()

    def shares_of(self, virtual_cluster: str) -> list[VcShare]:
        """Return all shares of a virtual cluster, pinned cells last."""
        pinned = [share for (name, _), share in self.pins.items() if name == virtual_cluster]
        return [*self.shares[virtual_cluster].values(), *pinned]

    def is_bad_spot(self, part: Part) -> bool:
        """Return whether some device of a part cannot be used now."""
        return bool(part.node_cell.bad & part.mask)

    def remember(self, record: GangRecord) -> None:
        """Add a gang."""
        request = record.request
        self.gangs[request.id] = record
        self.gangs_of.setdefault(request.virtual_cluster, {})[request.id] = record
        if request.priority == OPPORTUNISTIC:
            self.borrowed[request.virtual_cluster] = self.borrowed.get(request.virtual_cluster, 0) + record.leaves

    def forget(self, record: GangRecord) -> None:
        """Remove a gang, also from the gangs that wait for it to leave and from those it waits for."""
        gang = record.request.id
        del self.gangs[gang]
        del self.gangs_of[record.request.virtual_cluster][gang]
        self.rebound.discard(gang)
        self.promote(record)
        for threat in record.threats:
            if threat in self.gangs:
                self.gangs[threat].victims.discard(gang)
        for victim in record.victims:
            self.end_threat(victim, gang)

    def demote(self, record: GangRecord, by: str) -> None:
        """Record that a gang runs on without the guarantee it had."""
        record.lazily_preempted_by = by
        self.demoted.setdefault(record.request.virtual_cluster, set()).add(record.request.id)

    def promote(self, record: GangRecord) -> None:
        """Record that a gang has its guarantee again, or needs none any more."""
        record.lazily_preempted_by = None
        demoted = self.demoted.get(record.request.virtual_cluster)
        if demoted is not None:
            demoted.discard(record.request.id)
            if not demoted:
                del self.demoted[record.request.virtual_cluster]

    def end_threat(self, victim: str, threat: str) -> None:
        """Record that `threat` no longer waits for `victim` to leave."""
        record = self.gangs.get(victim)
        if record is not None:
            record.threats.discard(threat)
            if not record.threats and record.state is State.BEING_PREEMPTED:
                record.state = State.ALLOCATED

    def watch(self, request: GangRequest) -> None:
        """Record that a gang found no room, to try it again when other virtual clusters free what it may use."""
        # Every promise can always be served by some cell. What other virtual clusters free matters only where the
        # choice of the cell does: for gangs with a topology or named nodes, and where hardware is bad.
        has_constraints = request.has_constraints
        for chain, share in self.shares.get(request.virtual_cluster, {}).items():
            if has_constraints or share.chain.bad_nodes:
                self.watching.setdefault(chain, set()).add(request.virtual_cluster)

    def note_freed(self, virtual_cluster: str, chains: Iterable[Chain]) -> None:
        """Record that devices or promised cells of these chains were freed: requests that failed before may fit now."""
        freed = self.freed
        freed.grow("")
        freed.grow(virtual_cluster)
        if self.watching:
            for group in {group for chain in chains for group in self.watching.pop(chain.spec.name, ())}:
                freed.grow(group)

    def note_all_freed(self) -> None:
        """Record that any request may fit now."""
        self.watching.clear()
        for name in list(self.freed):
            self.freed.grow(name)

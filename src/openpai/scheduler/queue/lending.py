"""Counts the devices that each virtual cluster lends: promised to it, and used by others without a guarantee.

Only as much counts as lent as its owner would have to take back if it wanted all it was promised at this moment. Where
a promise is served by certain cells, those are looked at. A promise that nothing serves can be served anywhere: what is
missing there of idle devices is lent, in proportion to such promises.
"""

from __future__ import annotations

from collections import Counter

from openpai.scheduler.cells.chain import Chain
from openpai.scheduler.cells.cluster import Cluster


def lent_devices(cluster: Cluster) -> dict[str, Counter[str]]:
    """Return by virtual cluster how many devices of each type it lends to other virtual clusters."""
    lent: dict[str, Counter[str]] = {name: Counter() for name in cluster.shares}
    for chain in cluster.chains.values():
        if chain.opportunistic_devices:
            for name, devices in _lent_of(cluster, chain).items():
                lent[name][chain.spec.leaf_type] += devices
    return lent


def _lent_of(cluster: Cluster, chain: Chain) -> Counter[str]:
    lent: Counter[str] = Counter()
    idle = 0
    users: Counter[str] = Counter()
    """Devices outside of all cells that serve a promise, by the virtual cluster that uses them."""
    for node_cell in chain.node_cells:
        bound = 0
        for unit in node_cell.units:
            bound |= unit.mask
        idle += (node_cell.full & ~(bound | node_cell.opportunistic | node_cell.bad)).bit_count()
        for gang, mask in node_cell.opportunistic_gangs.items():
            user = cluster.gangs[gang].request.virtual_cluster
            users[user] += (mask & ~bound).bit_count()
            for unit in node_cell.units:
                owner = unit.binding.share.name
                # Devices that another gang has a claim on already are on their way back.
                if owner != user:
                    lent[owner] += (mask & unit.mask & ~node_cell.claimed).bit_count()
    missing = {
        name: sum(number.bit_count() * chain.spec.leaves(at + 1) for at, number in enumerate(share.unserved))
        for name, share in sorted(chain.shares.items())
    }
    total = sum(missing.values())
    short = min(users.total(), max(0, total - idle))
    for name, devices in missing.items():
        # The remainder goes to those that come first, so that the parts add up.
        part = -(-short * devices // total) if total else 0
        short, total = short - part, total - devices
        lent[name] += min(part, users.total() - users[name])
    return lent

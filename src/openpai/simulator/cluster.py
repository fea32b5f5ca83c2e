"""The cluster that a trace is replayed on: its nodes, the promises, and a generated cluster where none is given.

Everything comes from a configuration in HiveD's format, the same that a real scheduler reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Node

GPUS_PER_NODE: Final = 8
RACK_NODES_MAX: Final = 16
CPUS_PER_GPU: Final = 6
MEMORY_MB_PER_GPU: Final = 48 * 1024


def gpus_per_device(config: HivedConfig, leaf_type: str) -> int:
    """Return how many GPUs one device of a type has: one, unless its SKU has another number."""
    sku = config.skus.get(leaf_type)
    return 1 if sku is None else sku.gpus


def nodes_of(config: HivedConfig) -> tuple[Node, ...]:
    """Return the nodes of a configuration, all healthy."""
    found: dict[str, Node] = {}
    for chain in config.chains.values():
        sku = config.skus.get(chain.leaf_type)
        for name, devices in zip(chain.nodes, chain.devices, strict=True):
            count = len(devices)
            known = found.get(name, Node(name, 0, 0, 0))
            found[name] = Node(
                name,
                known.cpus + count * (CPUS_PER_GPU if sku is None else sku.cpus),
                known.memory_mb + count * (MEMORY_MB_PER_GPU if sku is None else sku.memory_mb),
                known.gpus + count * gpus_per_device(config, chain.leaf_type),
            )
    return tuple(found.values())


def quotas_of(config: HivedConfig) -> dict[str, int]:
    """Return how many GPUs each virtual cluster was promised.

    Pinned cells do not count: only jobs that name one may use it, and the jobs of a trace do not.
    """
    quotas = {}
    for name, spec in config.virtual_clusters.items():
        total = 0
        for quota in spec.quota:
            chain = config.chains[quota.chain]
            total += quota.number * chain.leaves(quota.level) * gpus_per_device(config, chain.leaf_type)
        quotas[name] = total
    return quotas


def generated(nodes: int, shares: Mapping[str, float], gpus_per_node: int = GPUS_PER_NODE) -> HivedConfig:
    """Return a configuration of equal nodes in racks, given to virtual clusters by their shares.

    A node has two switches if its number of GPUs is even. A virtual cluster has whole racks for up to half of its
    share, and single nodes for the rest.
    """
    rack = next(size for size in range(min(RACK_NODES_MAX, nodes), 0, -1) if nodes % size == 0)
    types: dict[str, dict[str, Any]] = {}
    if gpus_per_node % 2 == 0:
        types["SWITCH"] = {"childCellType": "GPU", "childCellNumber": gpus_per_node // 2}
        types["NODE"] = {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True}
    else:
        types["NODE"] = {"childCellType": "GPU", "childCellNumber": gpus_per_node, "isNodeLevel": True}
    types["RACK"] = {"childCellType": "NODE", "childCellNumber": rack}
    cells = [
        {"cellType": "RACK", "cellChildren": [{"cellAddress": f"n{at:05d}"} for at in range(first, first + rack)]}
        for first in range(0, nodes, rack)
    ]
    clusters: dict[str, dict[str, Any]] = {}
    for name, own in zip(shares, whole_shares(nodes, list(shares.values())), strict=True):
        racks = own // 2 // rack
        given = {"RACK": racks, "RACK.NODE": own - racks * rack}
        clusters[name] = {
            "virtualCells": [{"cellType": kind, "cellNumber": number} for kind, number in given.items() if number]
        }
    document = {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": clusters}
    return read_config(json.dumps(document))


def whole_shares(total: int, shares: Sequence[float]) -> list[int]:
    """Return whole numbers in proportion to `shares` that add up to `total`, the largest remainders rounded up."""
    weight = sum(shares)
    exact = [total * share / weight for share in shares]
    whole = [int(amount) for amount in exact]
    by_rest = sorted(range(len(shares)), key=lambda at: (whole[at] - exact[at], at))
    for at in by_rest[: total - sum(whole)]:
        whole[at] += 1
    return whole

"""Makes a private cluster of a virtual cluster: the same cells, without other virtual clusters.

HiveD's guarantee is measured against it. Whole nodes and larger cells become plain nodes; promised parts of nodes
become small nodes. Pinned cells are left out: only jobs that name one may use it, and the jobs of a trace do not.
"""

from __future__ import annotations

from dataclasses import replace

from openpai.scheduler.config.model import ChainSpec, HivedConfig, QuotaSpec, VirtualSpec


def private_config(config: HivedConfig, name: str) -> HivedConfig:
    """Return a configuration that has only the cells promised to `name`, all of them promised to it."""
    chains: dict[str, ChainSpec] = {}
    quota: list[QuotaSpec] = []
    counts: dict[tuple[str, int], int] = {}
    for piece in config.virtual_clusters[name].quota:
        chain = config.chains[piece.chain]
        level = min(piece.level, chain.node_level)
        counts[piece.chain, level] = counts.get((piece.chain, level), 0) + piece.number * (
            chain.leaves(piece.level) // chain.leaves(level)
        )
    for (origin, level), number in counts.items():
        if number:
            chain = config.chains[origin]
            own = chain.name if level == chain.node_level else f"{chain.name}-{chain.types[level - 1]}"
            chains[own] = _of_nodes(chain, own, level, number)
            quota.append(QuotaSpec(own, level, number))
    return HivedConfig(chains, {name: VirtualSpec(name, tuple(quota))}, {}, config.skus)


def _of_nodes(chain: ChainSpec, name: str, level: int, number: int) -> ChainSpec:
    """Return a chain of `number` nodes, each of them a cell of that level."""
    nodes = tuple([f"{name}-{at:05d}" for at in range(number)])
    inside = tuple([row[: chain.leaves(level) // chain.leaves(at + 1)] for at, row in enumerate(chain.inner[0])])
    return replace(
        chain,
        name=name,
        types=chain.types[:level],
        children=chain.children[:level],
        node_level=level,
        tops=number,
        nodes=nodes,
        devices=(chain.devices[0][: chain.leaves(level)],) * number,
        inner=(inside[: level - 1],) * number,
        upper=(nodes,),
    )

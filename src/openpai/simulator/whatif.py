"""Changes the promises in a configuration, to simulate virtual clusters with more or fewer GPUs.

Added GPUs come first from what is not promised, then from nodes that are added to the cluster, of a type that it has
already. Removed GPUs stay in the cluster, without being promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from openpai.protocol.errors import InvalidParameters, Refused
from openpai.scheduler.config.levels import free_after_pins, level_short
from openpai.scheduler.config.model import ChainSpec, HivedConfig, QuotaSpec
from openpai.simulator.cluster import gpus_per_device


@dataclass(frozen=True, slots=True)
class Changed:
    """A configuration with other promises."""

    config: HivedConfig
    absent: frozenset[str] = frozenset()
    """Nodes that do not exist and are in the configuration only to complete an added rack."""
    notes: tuple[str, ...] = ()
    """The changes, a sentence each."""


def parse_what_if(texts: Sequence[str]) -> dict[str, int]:
    """Return the changes in a text such as `vc=+8,other=-8`, by virtual cluster."""
    changes: Counter[str] = Counter()
    for piece in ",".join(texts).split(","):
        name, _, number = piece.strip().rpartition("=")
        try:
            changes[name] += int(number)
        except ValueError:
            name = ""
        if not name:
            message = f"{piece!r} is no change of a virtual cluster"
            raise InvalidParameters(message, "write a virtual cluster and GPUs, as in vision=+8")
    return dict(changes)


def changed(config: HivedConfig, changes: Mapping[str, int]) -> Changed:
    """Return the configuration with these GPUs given to, or taken from, virtual clusters."""
    made = Changed(config)
    # Removed first, so that the GPUs can be given to others.
    for name, gpus in sorted(changes.items(), key=lambda item: item[1]):
        if name not in config.virtual_clusters:
            message = f"the configuration has no virtual cluster {name!r}"
            raise Refused("NoVirtualClusterError", message, f"name one of {', '.join(config.virtual_clusters)}")
        if gpus < 0:
            made = _take(made, name, -gpus)
        elif gpus:
            made = _give(made, name, gpus)
    return made


def _main_chain(config: HivedConfig, name: str) -> ChainSpec:
    """Return the chain of which a virtual cluster has most; the largest chain for one without cells."""
    has: Counter[str] = Counter()
    for quota in config.virtual_clusters[name].quota:
        has[quota.chain] += quota.number * config.chains[quota.chain].leaves(quota.level)
    if +has:
        return config.chains[has.most_common(1)[0][0]]
    return max(config.chains.values(), key=lambda chain: chain.count(1))


def _devices(config: HivedConfig, chain: ChainSpec, gpus: int) -> int:
    per = gpus_per_device(config, chain.leaf_type)
    if not per:
        raise InvalidParameters(f"{chain.leaf_type} has no GPUs", "name a virtual cluster that has GPUs")
    if gpus % per:
        message = f"GPUs of {chain.leaf_type} are given {per} at a time, and {gpus} is no multiple of that"
        raise InvalidParameters(message, f"ask for a multiple of {per}")
    return gpus // per


def _named(config: HivedConfig, chain: ChainSpec, gpus: int) -> str:
    has_others = any(other.leaf_type != chain.leaf_type for other in config.chains.values())
    return f"{gpus} GPUs of {chain.leaf_type}" if has_others else f"{gpus} GPUs"


def _give(before: Changed, name: str, gpus: int) -> Changed:
    config = before.config
    chain = _main_chain(config, name)
    devices = _devices(config, chain, gpus)
    extra: list[QuotaSpec] = []
    for level in range(chain.node_level, 0, -1):
        number, devices = divmod(devices, chain.leaves(level))
        if number:
            extra.append(QuotaSpec(chain.name, level, number))
    promised = _with_quota(config, name, (*config.virtual_clusters[name].quota, *extra))
    if _fits(promised, chain.name):
        note = f"{name} has {_named(config, chain, gpus)} more that were not promised"
        return Changed(promised, before.absent, (*before.notes, note))
    grown, added, absent = _grown(promised, chain, -(-_devices(config, chain, gpus) // chain.leaves(chain.node_level)))
    count = "1 node was" if added == 1 else f"{added} nodes were"
    note = f"{name} has {_named(config, chain, gpus)} more; {count} added to the cluster"
    return Changed(grown, before.absent | absent, (*before.notes, note))


def _take(before: Changed, name: str, gpus: int) -> Changed:
    config = before.config
    chain = _main_chain(config, name)
    left = _devices(config, chain, gpus)
    quota: list[QuotaSpec] = []
    # The smallest cells are removed first; a larger one than needed is split, and the rest of it kept.
    for has in sorted(config.virtual_clusters[name].quota, key=lambda quota: quota.level):
        size = chain.leaves(has.level) if has.chain == chain.name else 0
        if not size or not left:
            quota.append(has)
            continue
        gone = min(has.number, -(-left // size))
        if has.number > gone:
            quota.append(replace(has, number=has.number - gone))
        kept = max(0, gone * size - left)
        left = max(0, left - gone * size)
        for level in range(has.level - 1, 0, -1):
            number, kept = divmod(kept, chain.leaves(level))
            if number:
                quota.append(QuotaSpec(chain.name, level, number))
    if left:
        message = f"{name} does not have {gpus} GPUs of {chain.leaf_type} to give away"
        raise Refused("NoEnoughQuotaError", message, "take fewer; pinned cells stay where they are")
    note = f"{name} has {_named(config, chain, gpus)} less"
    return Changed(_with_quota(config, name, quota), before.absent, (*before.notes, note))


def _with_quota(config: HivedConfig, name: str, quota: Sequence[QuotaSpec]) -> HivedConfig:
    merged: Counter[tuple[str, int]] = Counter()
    for piece in quota:
        merged[piece.chain, piece.level] += piece.number
    message = tuple([QuotaSpec(chain, level, number) for (chain, level), number in merged.items()])
    clusters = {**config.virtual_clusters, name: replace(config.virtual_clusters[name], quota=message)}
    return replace(config, virtual_clusters=clusters)


def _fits(config: HivedConfig, chain_name: str) -> bool:
    chain = config.chains[chain_name]
    need = [0] * chain.top
    for cluster in config.virtual_clusters.values():
        for quota in cluster.quota:
            if quota.chain == chain_name:
                need[quota.level - 1] += quota.number
    owned = {pin for cluster in config.virtual_clusters.values() for pin in cluster.pinned}
    pins = [pin for pin in config.pinned.values() if pin.chain == chain_name and pin.id in owned]
    return not level_short(free_after_pins(chain, pins), need, chain.children)


def _grown(config: HivedConfig, chain: ChainSpec, nodes: int) -> tuple[HivedConfig, int, frozenset[str]]:
    """Return the configuration with more nodes at the end of a chain, their number, and the nodes that do not exist.

    A chain grows by whole top cells, of which only as many nodes exist as are needed.
    """
    per = chain.leaves(chain.top) // chain.leaves(chain.node_level)
    while True:
        added = -(-nodes // per)
        grown = replace(config, chains={**config.chains, chain.name: _longer(chain, added)})
        if _fits(grown, chain.name):
            break
        nodes += 1
    names = grown.chains[chain.name].nodes[len(chain.nodes) :]
    return grown, nodes, frozenset(names[nodes:])


def _longer(chain: ChainSpec, tops: int) -> ChainSpec:
    """Return the chain with more top cells, shaped like its first."""
    per = len(chain.nodes) // chain.tops
    new = [f"what-if-{len(chain.nodes) + at}" for at in range(tops * per)]
    upper = []
    for level in range(chain.node_level, chain.top + 1):
        have = chain.upper[level - chain.node_level]
        each = len(have) // chain.tops
        upper.append((*have, *[f"what-if-{level}/{len(have) + at}" for at in range(tops * each)]))
    return replace(
        chain,
        tops=chain.tops + tops,
        nodes=(*chain.nodes, *new),
        devices=(*chain.devices, *[chain.devices[0]] * len(new)),
        inner=(*chain.inner, *[chain.inner[0]] * len(new)),
        upper=tuple(upper),
    )

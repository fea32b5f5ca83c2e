"""Reads a HiveD cluster configuration: returns a configuration without faults, or raises all of its faults.

The last check is whether the promises fit: after every pinned cell is taken out of the cluster, the cells promised to
the virtual clusters must be obtainable together, level by level, by splitting larger cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from openpai.protocol.spelling import nearest
from openpai.scheduler.config.cell_types import read_cell_types
from openpai.scheduler.config.faults import NUMBER_MAX, Faults, is_nothing
from openpai.scheduler.config.levels import check_promises
from openpai.scheduler.config.model import (
    SETTINGS,
    ChainSpec,
    HivedConfig,
    InvalidConfig,
    PinnedSpec,
    QuotaSpec,
    SkuSpec,
    VirtualSpec,
    parse_text,
)
from openpai.scheduler.config.physical import PhysicalReader
from openpai.scheduler.model import Order

_SKU_KEYS: Final = ("skuTypes", "leafCellTypes", "gpuTypes")
_MEBIBYTES: Final = {"": 1 / 2**20, "Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "Ti": 1024**2}
_MEGABYTES: Final = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def read_config(text: str) -> HivedConfig:
    """Return the configuration in a text; raise InvalidConfig with every fault it has."""
    return config_of(parse_text(text), text)


def config_of(document: object, source: str | Mapping[str, Any]) -> HivedConfig:
    """Return the configuration in a document, which is `source` or its text; raise InvalidConfig with every fault."""
    faults = Faults()
    root = faults.mapping("", document)
    faults.known_keys("", root, (*SETTINGS, "physicalCluster", "virtualClusters"))
    cluster = faults.mapping("physicalCluster", root.get("physicalCluster"))
    if not cluster and not faults.found:
        faults.add("physicalCluster", "missing; describe the machines there (cellTypes and physicalCells)")
    faults.known_keys("physicalCluster", cluster, ("cellTypes", "physicalCells", *_SKU_KEYS))
    types = read_cell_types(faults, cluster.get("cellTypes"))
    reader = PhysicalReader(faults, types)
    chains = reader.read(cluster.get("physicalCells"))
    skus = _read_skus(faults, cluster)
    clusters = _VirtualReader(faults, chains, reader.pinned).read(root.get("virtualClusters"))
    if not faults.found:
        check_promises(faults, chains, clusters, reader.pinned)
    if faults.found:
        raise InvalidConfig(faults.found)
    _warn_of_unowned(faults, chains, clusters, reader.pinned)
    return HivedConfig(chains, clusters, reader.pinned, skus, tuple(faults.warnings), source)


def _warn_of_unowned(
    faults: Faults,
    chains: Mapping[str, ChainSpec],
    clusters: Mapping[str, VirtualSpec],
    pinned: Mapping[str, PinnedSpec],
) -> None:
    owned = {quota.chain for cluster in clusters.values() for quota in cluster.quota if quota.number}
    owned |= {pinned[pin].chain for cluster in clusters.values() for pin in cluster.pinned}
    for name in chains:
        if name not in owned:
            message = f"no virtual cluster was promised a cell of chain {name}: only opportunistic jobs can run on it"
            faults.warnings.append(message)


class _VirtualReader:
    """Reads `virtualClusters`."""

    def __init__(self, faults: Faults, chains: Mapping[str, ChainSpec], pinned: Mapping[str, PinnedSpec]) -> None:
        self._faults = faults
        self._chains = chains
        self._pinned = pinned
        self._claimed: dict[str, str] = {}

    def read(self, value: object) -> dict[str, VirtualSpec]:
        """Return the virtual clusters by name, in the order of the file."""
        return {
            name: self._read_cluster(name, entry)
            for name, entry in self._faults.mapping("virtualClusters", value).items()
        }

    def _read_cluster(self, name: str, value: object) -> VirtualSpec:
        path = f"virtualClusters.{name}"
        keys = self._faults.mapping(path, value)
        self._faults.known_keys(path, keys, ("virtualCells", "pinnedCells", "order", "interruptible", "moveJobs"))
        quota = []
        for i, entry in enumerate(self._faults.listing(f"{path}.virtualCells", keys.get("virtualCells"))):
            found = self._read_quota(f"{path}.virtualCells[{i}]", entry)
            if found is not None:
                quota.append(found)
        pins = []
        for i, entry in enumerate(self._faults.listing(f"{path}.pinnedCells", keys.get("pinnedCells"))):
            pin = self._read_pin(f"{path}.pinnedCells[{i}]", entry, name)
            if pin is not None:
                pins.append(pin)
        is_interruptible = self._faults.flag(f"{path}.interruptible", keys.get("interruptible"))
        moves_jobs = self._faults.flag(f"{path}.moveJobs", keys.get("moveJobs"))
        order = self._read_order(f"{path}.order", keys.get("order"))
        return VirtualSpec(name, tuple(quota), tuple(pins), order, is_interruptible, moves_jobs)

    def _read_order(self, path: str, value: object) -> Order | None:
        if is_nothing(value):
            return None
        text = self._faults.text(path, value)
        names = [order.value for order in Order]
        if text in names:
            return Order(text)
        if text is not None:
            self._faults.add(
                path, f"{text!r} is not an order; write one of them", ", ".join(names), nearest(text, names)
            )
        return None

    def _read_quota(self, path: str, value: object) -> QuotaSpec | None:
        keys = self._faults.mapping(path, value)
        self._faults.known_keys(path, keys, ("cellType", "cellNumber"))
        number = self._faults.number(f"{path}.cellNumber", keys.get("cellNumber"), 0)
        dotted = self._faults.text(f"{path}.cellType", keys.get("cellType"))
        if dotted is None:
            self._faults.add(f"{path}.cellType", "missing; name the chain and the type, as in RACK.NODE")
            return None
        level = self._level_of(f"{path}.cellType", dotted)
        if level is None or number is None:
            return None
        return QuotaSpec(dotted.split(".")[0] if dotted not in self._chains else dotted, level, number)

    def _level_of(self, path: str, dotted: str) -> int | None:
        if dotted in self._chains:
            return self._chains[dotted].top
        name, *rest = dotted.split(".")
        chain = self._chains.get(name)
        if chain is None:
            message = (
                f"no physical cell has the type {name!r}; begin with the type of a top cell in "
                "physicalCluster.physicalCells"
            )
            self._faults.add(path, message, ", ".join(self._chains), nearest(name, self._chains))
            return None
        level = chain.top
        for part in rest:
            below = chain.types[: level - 1]
            if part not in below:
                message = f"there is no {part!r} inside a {chain.types[level - 1]} of chain {name}; name one that is"
                self._faults.add(path, message, ", ".join(reversed(below)), nearest(part, below))
                return None
            level = below.index(part) + 1
        return level

    def _read_pin(self, path: str, value: object, cluster: str) -> str | None:
        keys = self._faults.mapping(path, value)
        self._faults.known_keys(path, keys, ("pinnedCellId",))
        pin = self._faults.text(f"{path}.pinnedCellId", keys.get("pinnedCellId"))
        if pin is None:
            self._faults.add(f"{path}.pinnedCellId", "missing; name a pinned cell of physicalCluster.physicalCells")
        elif pin not in self._pinned:
            message = f"no physical cell is pinned as {pin!r}; set pinnedCellId: {pin} at one, or name one that is"
            self._faults.add(f"{path}.pinnedCellId", message, ", ".join(self._pinned), nearest(pin, self._pinned))
        elif pin in self._claimed:
            message = f"pinned cell {pin!r} was given to {self._claimed[pin]} already; give it to one virtual cluster"
            self._faults.add(f"{path}.pinnedCellId", message)
        else:
            self._claimed[pin] = cluster
            return pin
        return None


def _read_skus(faults: Faults, cluster: Mapping[str, Any]) -> dict[str, SkuSpec]:
    skus = {}
    for key in _SKU_KEYS:
        for name, entry in faults.mapping(f"physicalCluster.{key}", cluster.get(key)).items():
            path = f"physicalCluster.{key}.{name}"
            keys = faults.mapping(path, entry)
            gpus = faults.number(f"{path}.gpu", keys.get("gpu", 0), 0)
            cpus = faults.number(f"{path}.cpu", keys.get("cpu"), 0)
            memory_mb = _memory_mb(faults, f"{path}.memory", keys.get("memory"))
            if gpus is not None and cpus is not None and memory_mb is not None:
                skus[name] = SkuSpec(gpus, cpus, memory_mb)
    return skus


def _memory_mb(faults: Faults, path: str, value: object) -> int | None:
    text = faults.text(path, value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text or "")
    unit = match[2].removesuffix("B") if match else "?"
    mib_of = _MEBIBYTES.get(unit) or _MEGABYTES.get(unit, 0) / 2**20
    if match and mib_of:
        mib = float(match[1]) * mib_of
        if mib <= NUMBER_MAX:
            return int(mib)
        faults.add(path, f"{match[0][:40]!r} is more memory than a machine has; write less")
        return None
    faults.add(path, f"{text!r} is not an amount of memory; write a number and a unit, as in 8192Mi or 64Gi")
    return None

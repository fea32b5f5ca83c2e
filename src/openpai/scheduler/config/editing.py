"""Changes the promise to one virtual cluster, in a list of promises or in a configuration in HiveD's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from openpai.protocol.errors import Refused
from openpai.protocol.wording import listed
from openpai.scheduler.config.arrangement import Guarantees
from openpai.scheduler.config.model import ChainSpec, HivedConfig, parse_text
from openpai.scheduler.config.promises import Promise, promises_in
from openpai.scheduler.config.reading import config_of, read_config

NUMBERS: Final = ("childCellNumber", "cellNumber", "gpu", "cpu")
"""Keys whose values are numbers."""
FLAGS: Final = ("isNodeLevel", "interruptible", "moveJobs")
"""Keys whose values are true or false."""
KEPT: Final = ("pinnedCells", "order", "interruptible", "moveJobs")
"""What a virtual cluster keeps when it is promised something else."""


def with_promise(wanted: Guarantees, name: str, promise: str | None) -> Guarantees:
    """Return guarantees with another promise to one virtual cluster; None removes the virtual cluster.

    Raises Refused NoVirtualClusterError or BadConfigurationError.
    """
    if wanted.config is not None:
        return Guarantees(config=read_config(_changed_config(wanted.config, name, promise)), text=None)
    text = _changed_promises(wanted.text or "", name, promise)
    return Guarantees(promises_in(text), text=text)


def _changed_promises(text: str, name: str, promise: str | None) -> str:
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    others = [piece for piece in pieces if piece.partition(":")[0].strip() != name]
    if promise is None and len(others) == len(pieces):
        raise no_virtual_cluster(name)
    mine = [f"{name}: {part}" for part in _parts(promise)]
    return ", ".join([*others, *mine])


def _parts(promise: str | None) -> list[str]:
    """Return the parts of a promise such as `3 nodes + 8 GPUs of V100`."""
    if promise is None:
        return []
    parts = [part.strip() for part in promise.split("+")]
    try:
        if "," not in promise and ":" not in promise:
            promises_in(", ".join(f"it: {part}" for part in parts))
            return parts
    except Refused:
        pass
    advice = "write it as `3 nodes`, `3 nodes + 8 GPUs of V100`, `16 CPUs` or `rest`"
    raise Refused("BadConfigurationError", f"{promise!r} cannot be understood", advice)


def no_virtual_cluster(name: str) -> Refused:
    """Return the error for a virtual cluster that does not exist."""
    message = f"there is no virtual cluster {name!r}"
    return Refused("NoVirtualClusterError", message, "`pai vc list` shows the virtual clusters")


def _changed_config(config: HivedConfig, name: str, promise: str | None) -> str:
    document: Any = parse_text(config.text)
    clusters: dict[str, Any] = document["virtualClusters"]
    if promise is None:
        if name not in clusters:
            raise no_virtual_cluster(name)
        del clusters[name]
        return _written(document)
    before = clusters.get(name) or {}
    mine: dict[str, Any] = {"virtualCells": [], **{key: before[key] for key in KEPT if before.get(key)}}
    clusters[name] = mine
    for part in _parts(promise):
        _grant(document, mine["virtualCells"], promises_in(f"{name}: {part}")[0], config)
    return _written(document)


def _written(document: Any) -> str:
    """Return a document as YAML, with its numbers and flags, which were parsed as strings, as numbers and flags."""
    return yaml.safe_dump(_with_numbers(document), sort_keys=False)


def _with_numbers(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {each: _with_numbers(below, each) for each, below in value.items()}
    if isinstance(value, list):
        return [_with_numbers(below) for below in value]
    if key in NUMBERS and isinstance(value, str) and value.isdecimal():
        return int(value)
    return {"true": True, "false": False}.get(value, value) if key in FLAGS else value


def _grant(document: Any, cells: list[dict[str, Any]], promise: Promise, config: HivedConfig) -> None:
    """Add the cells that keep a promise, from the first chain that still has them."""
    kinds = {chain.leaf_type for chain in config.chains.values()} | set(config.chains)
    chains = [chain for chain in config.chains.values() if promise.kind in (None, chain.leaf_type, chain.name)]
    if promise.is_rest or not chains:
        message = (
            f"there is no node type {promise.kind!r}"
            if not chains
            else "a configuration in HiveD's format cannot promise `rest`"
        )
        raise Refused("BadConfigurationError", message, f"name one of: {listed(sorted(kinds))}")
    refused: Refused | None = None
    for chain in chains:
        more = list(_cells(chain, promise, config))
        cells.extend(more)
        try:
            config_of(document, "")
        except Refused as error:
            refused = refused or error
            del cells[len(cells) - len(more) :]
        else:
            return
    if refused is not None:
        raise refused


def _cells(chain: ChainSpec, promise: Promise, config: HivedConfig) -> Iterator[dict[str, Any]]:
    """Yield cells of a chain that make up the promise, whole nodes first, then ever smaller cells."""
    sku = config.skus.get(chain.leaf_type)
    if promise.nodes:
        left = promise.nodes * chain.leaves(chain.node_level)
    elif promise.cpus:
        left = -(-promise.cpus // max(1, sku.cpus if sku is not None else 1))
    else:
        left = -(-promise.gpus // max(1, sku.gpus if sku is not None else 1))
    for level in range(chain.node_level, 0, -1):
        count, left = divmod(left, chain.leaves(level))
        if count:
            names = dict.fromkeys([chain.name, *reversed(chain.types[level - 1 :])])
            yield {"cellType": ".".join(names), "cellNumber": count}

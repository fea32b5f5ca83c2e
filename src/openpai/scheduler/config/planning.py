"""Plans a configuration from the nodes and the promise to each virtual cluster.

Equal nodes form one chain. Inside a node devices are paired repeatedly where their number allows, so that a virtual
cluster can be promised half a node and a job's devices are close together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from openpai.protocol.errors import Refused
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import plural
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.promises import Promise
from openpai.scheduler.config.reading import config_of
from openpai.scheduler.model import Node

Nodes = Sequence[tuple[Node, str]]
"""Nodes, each with its GPU model."""
CPU_DEVICES_MAX: Final = 64
"""The number of parts into which a node without GPUs is divided, at most."""
CPUS_LOST_MAX: Final = 0.05
"""The share of its CPUs that may be left over by that."""
ALIKE: Final = 0.9
"""Nodes are equal if the smaller has this share of the larger: no two report the same memory, and pods of others take
some CPUs of some. Nodes without GPUs are divided by their CPUs, which must be the same."""


@dataclass(slots=True)
class _Kind:
    """Equal nodes."""

    name: str
    devices: int
    node: Node
    """The least that a node of this kind has."""
    most: Node
    """The most that one has."""
    names: list[str] = field(default_factory=list)
    nodes_left: int = 0
    parts_left: dict[int, int] = field(default_factory=dict)
    """Parts of divided nodes that are not promised yet, by their number of devices."""


def plan(nodes: Nodes, promises: Iterable[Promise], empty: Iterable[str] = ()) -> HivedConfig:
    """Return a configuration for these nodes that keeps every promise; raise Refused if there is none.

    The promises of one virtual cluster add up. `empty` names virtual clusters that exist without a promise.
    """
    kinds = _kinds(nodes)
    wanted = list(promises)
    granted: dict[str, dict[str, int]] = {promise.virtual_cluster: {} for promise in wanted}
    # Whole nodes go first, so that no node needed whole is split; then promises of one node type before those of any.
    ordered = sorted(wanted, key=lambda promise: (promise.is_rest, promise.kind is None, -promise.nodes))
    for place, promise in enumerate(ordered):
        cells = granted[promise.virtual_cluster]
        found = _rest(kinds, promise) if promise.is_rest else _grant(kinds, promise, ordered[:place])
        for cell_type, number in found.items():
            cells[cell_type] = cells.get(cell_type, 0) + number
    document: dict[str, Any] = {
        "physicalCluster": {
            "skuTypes": {kind.name: _sku(kind) for kind in kinds},
            "cellTypes": {name: entry for kind in kinds for name, entry in _cell_types(kind).items()},
            "physicalCells": [
                {"cellType": f"{kind.name}-POOL", "cellChildren": [{"cellAddress": name} for name in kind.names]}
                for kind in kinds
            ],
        },
        "virtualClusters": {
            name: {"virtualCells": [{"cellType": kind, "cellNumber": number} for kind, number in cells.items()]}
            for name, cells in (granted | {name: {} for name in sorted(empty) if name not in granted}).items()
        },
    }
    return config_of(document, document)


def _kinds(nodes: Nodes) -> list[_Kind]:
    """Return the kinds of nodes, those with GPUs first. Names depend on the hardware, not on the order of the nodes."""
    found: dict[tuple[str, int, int], list[_Kind]] = {}
    for node, model in sorted(nodes, key=lambda item: (-item[0].memory_mb, -item[0].cpus)):
        name = re.sub(r"[^A-Za-z0-9]+", "-", model).strip("-") or ("GPU" if node.gpus else "CPU")
        alike = found.setdefault((name, node.gpus, 0 if node.gpus else node.cpus), [])
        kind = next((kind for kind in alike if _is_alike(kind, node)), None)
        if kind is None:
            kind = _Kind(name, node.gpus or _parts(node.cpus), node, node)
            alike.append(kind)
        kind.node = replace(
            node, cpus=min(kind.node.cpus, node.cpus), memory_mb=min(kind.node.memory_mb, node.memory_mb)
        )
        kind.most = replace(kind.most, cpus=max(kind.most.cpus, node.cpus))
        kind.names.append(node.name)
        kind.nodes_left += 1
    kinds = [kind for _, alike in sorted(found.items()) for kind in sorted(alike, key=_size)]
    taken: set[str] = set()
    places = {node.name: place for place, (node, _) in enumerate(nodes)}
    for kind in kinds:
        kind.name = _free_name(kind, taken)
        kind.names.sort(key=places.__getitem__)
        taken.add(kind.name)
    return sorted(kinds, key=lambda kind: not kind.node.gpus)


def _is_alike(kind: _Kind, node: Node) -> bool:
    """Return whether a node, which has no more memory than those before it, is equal to those of a kind."""
    least, most = min(kind.node.cpus, node.cpus), max(kind.most.cpus, node.cpus)
    return node.memory_mb >= kind.most.memory_mb * ALIKE and least >= most * ALIKE


def _size(kind: _Kind) -> tuple[int, int]:
    return kind.most.cpus, kind.most.memory_mb


def _free_name(kind: _Kind, taken: set[str]) -> str:
    """Return the plain name of a kind, or a longer one if the plain name is taken."""
    # The most changes least while pods of others come and go.
    node, memory_gb = kind.most, round(kind.most.memory_mb / 1024)
    names = (kind.name, f"{kind.name}-{node.cpus}cpu", f"{kind.name}-{node.gpus}gpu-{node.cpus}cpu-{memory_gb}gb")
    number = sum(name.startswith(names[2]) for name in taken) + 1
    return next((name for name in names if name not in taken), f"{names[2]}-{number}")


def _parts(cpus: int) -> int:
    """Return into how many equal parts a node without GPUs is divided: as many as leave hardly a CPU over."""
    for parts in range(min(CPU_DEVICES_MAX, cpus), 1, -1):
        if cpus % parts <= cpus * CPUS_LOST_MAX:
            return parts
    return 1


def _sizes(kind: _Kind) -> list[int]:
    """Return the sizes of the cells inside a node, from the whole node down to one device."""
    sizes = [kind.devices]
    while sizes[-1] % 2 == 0:
        sizes.append(sizes[-1] // 2)
    if sizes[-1] != 1:
        sizes.append(1)
    return sizes


def _type_of(kind: _Kind, size: int) -> str:
    if size == kind.devices:
        return f"{kind.name}-NODE"
    return kind.name if size == 1 else f"{kind.name}-{size}"


def _cell_types(kind: _Kind) -> dict[str, dict[str, Any]]:
    types: dict[str, dict[str, Any]] = {}
    sizes = _sizes(kind)
    for size, below in pairwise(sizes):
        types[_type_of(kind, size)] = {"childCellType": _type_of(kind, below), "childCellNumber": size // below}
    if not types:
        types[f"{kind.name}-NODE"] = {"childCellType": kind.name, "childCellNumber": 1}
    types[f"{kind.name}-NODE"]["isNodeLevel"] = True
    types[f"{kind.name}-POOL"] = {"childCellType": f"{kind.name}-NODE", "childCellNumber": len(kind.names)}
    return types


def _sku(kind: _Kind) -> dict[str, Any]:
    node = kind.node
    memory = f"{node.memory_mb // kind.devices}Mi"
    return {"gpu": 1 if node.gpus else 0, "cpu": node.cpus // kind.devices, "memory": memory}


def _grant(kinds: list[_Kind], promise: Promise, others: Sequence[Promise]) -> dict[str, int]:
    """Return the cells that keep a promise, and remove them from what is left; `others` are kept already."""
    candidates = [kind for kind in kinds if promise.kind in (None, kind.name) and _can_serve(kind, promise)]
    if not candidates:
        names = [kind.name for kind in kinds]
        near = None if promise.kind in names else nearest(promise.kind or "", names)
        of_kind = f" of {promise.kind}" if promise.kind else ""
        message = f"{promise.virtual_cluster} wants {promise.describe()}{of_kind}, and there are none"
        known = f"the machines there are: {', '.join(names) or 'none'}; whole ones are promised as `1 node`"
        raise Refused("BadConfigurationError", message, f"did you mean {near}?" if near else known)
    for kind in candidates:
        cells = _cells_of(kind, _devices(kind, promise))
        if cells is not None:
            return cells
    # A promise of nodes of any kind does not mean some nodes with GPUs and some without.
    with_gpus = [kind for kind in candidates if kind.node.gpus]
    cells = _from_several(with_gpus or candidates, promise)
    if cells is not None:
        return cells
    most = sum(kind.nodes_left for kind in with_gpus or candidates)
    left = f"{plural(most, 'whole node')} that could serve {'is' if most == 1 else 'are'} left"
    message = f"{promise.virtual_cluster} wants {promise.describe()}, and at most {left}"
    raise Refused("BadConfigurationError", message, "promise less to a virtual cluster" + _amounts_of(others))


def _amounts_of(promises: Sequence[Promise]) -> str:
    return (
        ": " + ", ".join(f"{promise.virtual_cluster} has {promise.describe()}" for promise in promises)
        if promises
        else ""
    )


def _can_serve(kind: _Kind, promise: Promise) -> bool:
    return bool(promise.nodes or (kind.node.gpus if promise.gpus else promise.cpus and not kind.node.gpus))


def _devices(kind: _Kind, promise: Promise) -> int:
    """Return how many devices of a kind a promise needs."""
    per = max(1, kind.node.cpus // kind.devices)
    return promise.nodes * kind.devices + promise.gpus - (-promise.cpus // per)


def _from_several(kinds: list[_Kind], promise: Promise) -> dict[str, int] | None:
    """Return cells of several kinds that keep a promise together; None, without a trace, if too few are left."""
    before = [(kind.nodes_left, dict(kind.parts_left)) for kind in kinds]
    cells: dict[str, int] = {}
    left = promise
    for kind in kinds:
        free = kind.nodes_left * kind.devices + sum(size * number for size, number in kind.parts_left.items())
        per = max(1, kind.node.cpus // kind.devices)
        part = replace(
            left, nodes=min(left.nodes, kind.nodes_left), gpus=min(left.gpus, free), cpus=min(left.cpus, free * per)
        )
        some = _cells_of(kind, _devices(kind, part))
        if some is None:
            continue
        cells |= some
        left = replace(left, nodes=left.nodes - part.nodes, gpus=left.gpus - part.gpus, cpus=left.cpus - part.cpus)
        if not (left.nodes or left.gpus or left.cpus):
            return cells
    for kind, (nodes_left, parts_left) in zip(kinds, before, strict=True):
        kind.nodes_left, kind.parts_left = nodes_left, parts_left
    return None


def _rest(kinds: list[_Kind], promise: Promise) -> dict[str, int]:
    """Return all cells that are left, of one kind if the promise names one."""
    cells: dict[str, int] = {}
    for kind in kinds:
        if promise.kind not in (None, kind.name):
            continue
        if kind.nodes_left:
            cells[_path_of(kind, kind.devices)] = kind.nodes_left
        cells |= {_path_of(kind, size): number for size, number in sorted(kind.parts_left.items()) if number}
        kind.nodes_left, kind.parts_left = 0, {}
    return cells


def _path_of(kind: _Kind, size: int) -> str:
    return ".".join([f"{kind.name}-POOL", *(_type_of(kind, at) for at in _sizes(kind) if at >= size)])


def _cells_of(kind: _Kind, devices: int) -> dict[str, int] | None:
    """Return cells of one kind with `devices` devices, the largest first; None, without a trace, if too few."""
    nodes, left = kind.nodes_left, dict(kind.parts_left)
    cells: dict[str, int] = {}
    for size in _sizes(kind):
        count, devices = divmod(devices, size)
        for _ in range(count):
            if size == kind.devices:
                if not nodes:
                    return None
                nodes -= 1
            elif not left.get(size):
                larger = min((other for other, number in left.items() if number and other > size), default=None)
                if larger is None:
                    if not nodes:
                        return None
                    nodes -= 1
                    larger = kind.devices
                else:
                    left[larger] -= 1
                _cut(kind, left, larger, size)
            else:
                left[size] -= 1
        if count:
            cells[_path_of(kind, size)] = count
    kind.nodes_left, kind.parts_left = nodes, left
    return cells


def _cut(kind: _Kind, left: dict[int, int], larger: int, size: int) -> None:
    """Record the rest of a cell of `larger` devices after one of `size` is taken from it."""
    sizes = _sizes(kind)
    for above, below in pairwise(sizes):
        if size <= below < larger:
            left[below] = left.get(below, 0) + above // below - 1

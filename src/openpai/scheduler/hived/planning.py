"""Writes a full configuration from what people know: the machines there are, and who gets how many.

Equal machines form one chain. Inside a machine devices are paired again and again where their number allows, so that a
team can be promised half a machine and a job's devices lie close together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import yaml

from openpai.protocol.errors import Refused
from openpai.scheduler.hived.faultfinding import nearest
from openpai.scheduler.model import Node

CPU_DEVICES_MAX: Final = 8
"""A machine without GPUs is shared out in at most so many parts."""

_WISH = re.compile(
    r"\s*(?P<team>[^:,]+?)\s*:\s*(?P<number>\d+)\s*(?P<unit>nodes?|gpus?)\s*(?:of\s+(?P<kind>\S+))?\s*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Wish:
    """How much a virtual cluster is to get, in nodes or in GPUs."""

    virtual_cluster: str
    nodes: int = 0
    gpus: int = 0
    kind: str | None = None
    """Of which kind of machine; None for any."""


@dataclass(slots=True)
class _Kind:
    """Machines that are alike."""

    name: str
    devices: int
    node: Node
    names: list[str] = field(default_factory=list)
    nodes_left: int = 0
    parts_left: dict[int, int] = field(default_factory=dict)
    """Parts of machines that are cut already and not given away, by their number of devices."""


def read_wishes(text: str) -> tuple[Wish, ...]:
    """Return the wishes in a sentence such as `vision: 3 nodes, speech: 8 GPUs of V100`; Refused if unreadable."""
    wishes = []
    for piece in text.split(","):
        match = _WISH.fullmatch(piece)
        if match is None:
            told = f"{piece.strip()!r} cannot be understood"
            raise Refused("InvalidParametersError", told, "write it as `team: 3 nodes` or `team: 8 GPUs of V100`")
        number = int(match["number"])
        is_nodes = match["unit"].lower().startswith("node")
        wishes.append(Wish(match["team"], number if is_nodes else 0, 0 if is_nodes else number, match["kind"]))
    return tuple(wishes)


def plan(nodes: Sequence[tuple[Node, str]], wishes: Iterable[Wish]) -> str:
    """Return a configuration for nodes, each with its GPU model, that grants every wish; Refused if none can."""
    kinds = _kinds(nodes)
    granted: dict[str, dict[str, int]] = {}
    for wish in sorted(wishes, key=lambda wish: -wish.nodes):
        cells = granted.setdefault(wish.virtual_cluster, {})
        for cell_type, number in _grant(kinds, wish).items():
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
            for name, cells in granted.items()
        },
    }
    return yaml.safe_dump(document, sort_keys=False)


def _kinds(nodes: Sequence[tuple[Node, str]]) -> list[_Kind]:
    found: dict[tuple[str, int, int, int], _Kind] = {}
    for node, model in nodes:
        name = re.sub(r"[^A-Za-z0-9]+", "-", model).strip("-") or ("GPU" if node.gpus else "CPU")
        alike = (name, node.gpus, node.cpus, node.memory_mb)
        if alike not in found:
            taken = {kind.name for kind in found.values()}
            own = (
                name if name not in taken else next(f"{name}-{n}" for n in range(2, 1000) if f"{name}-{n}" not in taken)
            )
            devices = node.gpus or 1 << (max(1, min(CPU_DEVICES_MAX, node.cpus)).bit_length() - 1)
            found[alike] = _Kind(own, devices, node)
        found[alike].names.append(node.name)
        found[alike].nodes_left += 1
    return list(found.values())


def _sizes(kind: _Kind) -> list[int]:
    """Return the sizes of the cells inside a machine, from the whole machine down to one device."""
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


def _grant(kinds: list[_Kind], wish: Wish) -> dict[str, int]:
    """Return the cells that grant a wish, and take them off what is left."""
    candidates = [kind for kind in kinds if wish.kind in (None, kind.name) and (wish.nodes or kind.node.gpus)]
    if not candidates:
        near = nearest(wish.kind or "", [kind.name for kind in kinds])
        told = f"{wish.virtual_cluster} wants machines of kind {wish.kind}, and there are none"
        raise Refused("BadConfigurationError", told, f"did you mean {near}?" if near else "name a kind there is")
    for kind in candidates:
        cells = _cells_of(kind, wish.nodes * kind.devices + wish.gpus)
        if cells is not None:
            return cells
    most = max(kind.nodes_left for kind in candidates)
    asked = f"{wish.nodes} nodes" if wish.nodes else f"{wish.gpus} GPUs"
    told = f"{wish.virtual_cluster} wants {asked} of one kind, and at most {most} whole nodes of a kind are left"
    raise Refused("BadConfigurationError", told, "give less to somebody, or split the wish over two kinds")


def _cells_of(kind: _Kind, devices: int) -> dict[str, int] | None:
    """Return cells of one kind with so many devices, the largest first; None, taking nothing, if too few are left."""
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
            path = [f"{kind.name}-POOL", *(_type_of(kind, at) for at in _sizes(kind) if at >= size)]
            cells[".".join(path)] = count
    kind.nodes_left, kind.parts_left = nodes, left
    return cells


def _cut(kind: _Kind, left: dict[int, int], larger: int, size: int) -> None:
    """Keep what is left of a cell of `larger` devices when one of `size` is cut out of it."""
    sizes = _sizes(kind)
    for above, below in pairwise(sizes):
        if size <= below < larger:
            left[below] = left.get(below, 0) + above // below - 1

"""Reads the cell types of a configuration: how many cells of which type a cell of each type contains.

Together they form chains of types, from a top type down to the leaf type that stands for one device. Every chain
that is used has exactly one node level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from openpai.scheduler.config.faults import Faults

TYPES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class CellType:
    """One entry of `cellTypes`."""

    name: str
    child: str
    children: int
    is_node: bool


@dataclass(frozen=True, slots=True)
class TypeChain:
    """A type and everything it is made of, leaf first."""

    types: tuple[str, ...]
    children: tuple[int, ...]
    node_level: int
    """0 when there is none."""


def read_cell_types(faults: Faults, value: object) -> dict[str, CellType]:
    """Return the cell types that can be read, and keep a fault for the others."""
    path = "physicalCluster.cellTypes"
    found: dict[str, CellType] = {}
    entries = faults.mapping(path, value)
    if len(entries) > TYPES_MAX:
        faults.add(path, f"there are {len(entries)} cell types, more than {TYPES_MAX}; leave out those no cell has")
        return found
    for name, entry in entries.items():
        where = f"{path}.{name}"
        keys = faults.mapping(where, entry)
        faults.known_keys(where, keys, ("childCellType", "childCellNumber", "isNodeLevel"))
        child = faults.text(f"{where}.childCellType", keys.get("childCellType"))
        if child is None:
            faults.add(f"{where}.childCellType", "missing; name the type of the cells inside, or drop this entry")
        number = faults.number(f"{where}.childCellNumber", keys.get("childCellNumber"), 1)
        is_node = faults.flag(f"{where}.isNodeLevel", keys.get("isNodeLevel"))
        if child is not None and number is not None:
            found[name] = CellType(name, child, number, is_node)
    _refuse_circles(faults, found)
    return found


def _refuse_circles(faults: Faults, types: dict[str, CellType]) -> None:
    for name in list(types):
        at, seen = name, {name: None}
        while at in types and types[at].child not in seen:
            at = types[at].child
            seen[at] = None
        if at in types and types[at].child == name:
            circle = " -> ".join([*seen, name])
            faults.add(
                f"physicalCluster.cellTypes.{name}.childCellType",
                f"a cell cannot contain itself ({circle}); let the chain end in a leaf cell type that has no entry",
            )
    for name in [n for n in types if _is_in_circle(n, types)]:
        del types[name]


def _is_in_circle(name: str, types: Mapping[str, CellType]) -> bool:
    seen = set()
    while name in types:
        if name in seen:
            return True
        seen.add(name)
        name = types[name].child
    return False


def type_chain(name: str, types: Mapping[str, CellType]) -> TypeChain:
    """Return the types inside a cell of type `name`."""
    names, numbers, flags = [name], [], []
    while names[-1] in types:
        entry = types[names[-1]]
        numbers.append(entry.children)
        flags.append(entry.is_node)
        names.append(entry.child)
    levels = len(names)
    node_levels = [levels - i for i, is_node in enumerate(flags) if is_node]
    return TypeChain(tuple(reversed(names)), (0, *reversed(numbers)), node_levels[0] if len(node_levels) == 1 else 0)


def check_node_level(faults: Faults, path: str, name: str, types: Mapping[str, CellType]) -> bool:
    """Return whether exactly one type of the chain is a node, and keep a fault if not."""
    flagged = []
    current = name
    while current in types:
        if types[current].is_node:
            flagged.append(current)
        current = types[current].child
    if len(flagged) == 1:
        return True
    if flagged:
        message = f"{', '.join(flagged)} are all nodes, one inside another; leave isNodeLevel: true at one of them"
    else:
        message = (
            f"neither {name} nor anything inside it is a node; set isNodeLevel: true at the type that is a machine"
        )
    faults.add(path, message)
    return False

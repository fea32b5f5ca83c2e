"""Reads the physical cells of a configuration: every rack, node and device, with its address.

Addresses are HiveD's: a cell's full address is its parent's, a slash, and its own. A cell without an address takes its
number among cells of its type, which starts again at 0 inside each node and each numbered top cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from openpai.protocol.spelling import nearest
from openpai.protocol.wording import cut
from openpai.scheduler.config.cell_types import CellType, TypeChain, check_node_level, type_chain
from openpai.scheduler.config.faults import Faults, is_nothing
from openpai.scheduler.config.model import ChainSpec, PinnedSpec

LEVELS_MAX: Final = 32
DEVICES_MAX: Final = 1024
"""In one node."""
CELLS_MAX: Final = 200_000
"""Ten thousand nodes of 8 GPUs have a third of that; a typing error may ask for a billion."""
_DIGITS_MAX: Final = 9
_SHOWN_MAX: Final = 40
_KEYS = ("cellType", "cellAddress", "pinnedCellId", "cellChildren")


@dataclass(slots=True)
class _Draft:
    """A chain while its cells are still being read."""

    name: str
    shape: TypeChain
    tops: int = 0
    nodes: list[str] = field(default_factory=list)
    node_paths: list[str] = field(default_factory=list)
    devices: list[tuple[int, ...]] = field(default_factory=list)
    inner: list[tuple[tuple[str, ...], ...]] = field(default_factory=list)
    upper: list[list[str]] = field(default_factory=list)
    default_inner: tuple[tuple[str, ...], ...] = ()
    default_devices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        node_level = self.shape.node_level
        self.upper = [[] for _ in range(node_level, len(self.shape.types) + 1)]
        counts, count = [], 1
        for level in range(node_level, 1, -1):
            count *= self.shape.children[level - 1]
            counts.append(count)
        self.default_inner = tuple(tuple(str(i) for i in range(n)) for n in reversed(counts))
        self.default_devices = tuple(range(counts[-1])) if counts else (0,)

    def spec(self) -> ChainSpec:
        return ChainSpec(
            self.name,
            self.shape.types,
            self.shape.children,
            self.shape.node_level,
            self.tops,
            tuple(self.nodes),
            tuple(self.devices),
            tuple(self.inner),
            tuple(tuple(addresses) for addresses in self.upper),
        )


class PhysicalReader:
    """Reads `physicalCells` into chains and pinned cells."""

    def __init__(self, faults: Faults, types: Mapping[str, CellType]) -> None:
        self._faults = faults
        self._types = types
        self._drafts: dict[str, _Draft] = {}
        self._cells = 0
        self.pinned: dict[str, PinnedSpec] = {}

    def read(self, value: object) -> dict[str, ChainSpec]:
        """Return the chains by name, in the order of the file."""
        path = "physicalCluster.physicalCells"
        cells = self._faults.listing(path, value)
        if not cells and not isinstance(value, list):
            self._faults.add(path, "there are no cells; list the machines of the cluster here, or [] for none")
        for number, cell in enumerate(cells):
            self._read_top(f"{path}[{number}]", cell, number)
        self._refuse_shared_devices()
        return {name: draft.spec() for name, draft in self._drafts.items()}

    def _read_top(self, path: str, value: object, number: int) -> None:
        keys = self._faults.mapping(path, value)
        name = self._faults.text(f"{path}.cellType", keys.get("cellType"))
        if name is None:
            self._faults.add(f"{path}.cellType", "missing; a top cell must name its type", ", ".join(self._types))
            return
        if name not in self._types:
            message = f"there is no cell type {name!r}; define it under physicalCluster.cellTypes or name one that is"
            self._faults.add(f"{path}.cellType", message, ", ".join(self._types), nearest(name, self._types))
            return
        if name not in self._drafts:
            if not check_node_level(self._faults, f"{path}.cellType", name, self._types):
                return
            shape = type_chain(name, self._types)
            if not self._fits(path, shape):
                return
            self._drafts[name] = _Draft(name, shape)
        draft = self._drafts[name]
        if draft.tops and not self._fits(path, draft.shape):
            return
        draft.tops += 1
        self._read_cell(draft, path, keys, (len(draft.shape.types), number, ""))

    def _fits(self, path: str, shape: TypeChain) -> bool:
        """Count the cells of one more top cell; add a fault if there are too many."""
        if len(shape.types) > LEVELS_MAX:
            text = f"there are {len(shape.types)} types of cells one inside another, more than {LEVELS_MAX}"
            self._faults.add(f"{path}.cellType", f"{text}; leave out types that hold one cell")
            return False
        devices = prod(shape.children[1 : shape.node_level])
        if devices > DEVICES_MAX:
            text = f"a {shape.types[shape.node_level - 1]} has {devices} leaf cells, more than {DEVICES_MAX}"
            self._faults.add(f"{path}.cellType", f"{text}; look at the numbers in physicalCluster.cellTypes")
            return False
        cells = 1
        for number in reversed(shape.children[1:]):
            cells = 1 + cells * number
        self._cells += cells
        if self._cells > CELLS_MAX:
            text = f"up to here there are {self._cells} cells, more than {CELLS_MAX}"
            self._faults.add(f"{path}.cellType", f"{text}; look at the numbers in physicalCluster.cellTypes")
            return False
        return True

    def _read_cell(self, draft: _Draft, path: str, keys: dict[str, Any], at: tuple[int, int, str]) -> None:
        """Read a cell at or above node level, and all inside it; `at` is its level, number and parent's address."""
        level, number, prefix = at
        own = self._look_at(draft, path, keys, level, len(draft.upper[level - draft.shape.node_level]))
        full = f"{prefix}{own if own is not None else number}"
        draft.upper[level - draft.shape.node_level].append(full)
        if level == draft.shape.node_level:
            if own is None:
                self._faults.add(f"{path}.cellAddress", "missing; a node's address is the name of the machine")
            self._read_node(draft, path, keys, own or full)
            return
        wanted = draft.shape.children[level - 1]
        for i, child in enumerate(self._children(draft, path, keys, level)):
            below = self._faults.mapping(f"{path}.cellChildren[{i}]", child)
            self._read_cell(draft, f"{path}.cellChildren[{i}]", below, (level - 1, number * wanted + i, f"{full}/"))

    def _read_node(self, draft: _Draft, path: str, keys: dict[str, Any], name: str) -> None:
        index = len(draft.nodes)
        draft.nodes.append(name)
        draft.node_paths.append(path)
        if is_nothing(keys.get("cellChildren")) or draft.shape.node_level == 1:
            draft.inner.append(draft.default_inner)
            draft.devices.append(draft.default_devices)
            return
        found: list[list[str]] = [[] for _ in range(1, draft.shape.node_level)]
        self._read_inside(draft, path, keys, (draft.shape.node_level, 0, index), found)
        devices = []
        for address in found[0]:
            if address.isascii() and address.isdigit() and len(address) <= _DIGITS_MAX:
                devices.append(int(address))
            else:
                text = f"leaf cell {cut(address, _SHOWN_MAX)!r} of node {name!r} is not a whole number"
                message = f"{text}; number the leaf cells from 0"
                self._faults.add(f"{path}.cellChildren", message)
                devices.append(len(devices))
        draft.inner.append(tuple(tuple(addresses) for addresses in found))
        draft.devices.append(tuple(devices))

    def _read_inside(
        self, draft: _Draft, path: str, keys: dict[str, Any], at: tuple[int, int, int], found: list[list[str]]
    ) -> None:
        level, number, index = at
        wanted = draft.shape.children[level - 1]
        for i, child in enumerate(self._children(draft, path, keys, level)):
            where = f"{path}.cellChildren[{i}]"
            below = self._faults.mapping(where, child)
            default = number * wanted + i
            per_node = len(draft.default_inner[level - 2])
            own = self._look_at(draft, where, below, level - 1, index * per_node + len(found[level - 2]))
            found[level - 2].append(own if own is not None else str(default))
            if level > 2:
                self._read_inside(draft, where, below, (level - 1, default, index), found)

    def _children(self, draft: _Draft, path: str, keys: dict[str, Any], level: int) -> list[Any]:
        wanted = draft.shape.children[level - 1]
        children = self._faults.listing(f"{path}.cellChildren", keys.get("cellChildren"))
        if children and len(children) != wanted:
            message = (
                f"{len(children)} children are listed, but a {draft.shape.types[level - 1]} has {wanted}; list as many "
                f"or change physicalCluster.cellTypes.{draft.shape.types[level - 1]}.childCellNumber"
            )
            self._faults.add(f"{path}.cellChildren", message)
            return (children + [None] * wanted)[:wanted]
        return children or [None] * wanted

    def _look_at(self, draft: _Draft, path: str, keys: dict[str, Any], level: int, index: int) -> str | None:
        """Check the keys of any cell, record its pin, and return its own address if it has one."""
        if not keys:
            return None
        self._faults.known_keys(path, keys, _KEYS)
        named = self._faults.text(f"{path}.cellType", keys.get("cellType"))
        if named is not None and named != draft.shape.types[level - 1]:
            message = f"a {named} cannot be here, this is a {draft.shape.types[level - 1]}; correct or drop the key"
            self._faults.add(f"{path}.cellType", message)
        if level == 1 and not is_nothing(keys.get("cellChildren")):
            self._faults.add(f"{path}.cellChildren", "a leaf cell has nothing inside; remove the key")
        pin = self._faults.text(f"{path}.pinnedCellId", keys.get("pinnedCellId"))
        if pin is not None and pin in self.pinned:
            self._faults.add(
                f"{path}.pinnedCellId", f"{pin!r} is the name of another cell already; choose another name"
            )
        elif pin is not None:
            self.pinned[pin] = PinnedSpec(pin, draft.name, level, index)
        return self._faults.text(f"{path}.cellAddress", keys.get("cellAddress"))

    def _refuse_shared_devices(self) -> None:
        owner: dict[tuple[str, str, int], str] = {}
        for draft in self._drafts.values():
            leaf_type = draft.shape.types[0]
            for name, devices, path in zip(draft.nodes, draft.devices, draft.node_paths, strict=True):
                seen: set[int] = set()
                for device in devices:
                    first = owner.setdefault((name, leaf_type, device), path)
                    if first != path or device in seen:
                        message = (
                            f"{leaf_type} leaf cell {device} of node {name!r} is given twice (see {first}); "
                            "give each leaf cell of a node to one cell"
                        )
                        self._faults.add(path, message)
                        break
                    seen.add(device)

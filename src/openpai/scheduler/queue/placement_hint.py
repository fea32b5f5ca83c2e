"""Writes where the members of a gang run as placement hints, and finds their devices again after a restart.

A placement hint is `CHAIN:DEVICES@LEVEL`: the chain, its devices, including those taken only for their CPUs or memory,
and the level of the promised cell that serves them, so that a restart returns to every member exactly what it had. The
level is 0 for a gang that lost its guarantee, and missing for one that never had one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from openpai.scheduler.cells.chain import NodeCell
from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.journal import Part
from openpai.scheduler.cells.model import OPPORTUNISTIC, GangRecord, GangRequest
from openpai.scheduler.cells.restoring import NO_GUARANTEE
from openpai.scheduler.model import Spot
from openpai.scheduler.queue.skus import Skus

_NUMBERS: Final = r"[0-9]{1,6}(?:-[0-9]{1,6})?"
_HINT: Final = re.compile(rf"(?P<chain>.*):(?P<devices>{_NUMBERS}(?:,{_NUMBERS})*)(?:@(?P<level>[0-9]{{1,3}}))?")


@lru_cache(maxsize=10_000)
def hint_of(chain: str, devices: tuple[int, ...], level: int | None = None) -> str:
    """Return the placement hint of a member in a chain; `level` is that of its promised cell."""
    served = "" if level is None else f"@{level}"
    return f"{chain}:{_ranges(devices)}{served}"


def _ranges(devices: tuple[int, ...]) -> str:
    """Return device numbers as ranges, such as 0-3,6."""
    found: list[list[int]] = []
    for device in devices:
        if found and device == found[-1][1] + 1:
            found[-1][1] = device
        else:
            found.append([device, device])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def current_hints(record: GangRecord) -> tuple[str, ...]:
    """Return the current placement hints of a gang, by member; empty for members that are over or have no devices."""
    return tuple(["" if part is None else current_hint(record, part) for part in record.parts])


def current_hint(record: GangRecord, part: Part) -> str:
    """Return the current placement hint of a member of a gang."""
    level = None if record.request.priority == OPPORTUNISTIC else part.guarantee.level if part.guarantee else 0
    return hint_of(part.node_cell.chain.spec.name, part.node_cell.numbers(part.mask), level)


def read_hint(cluster: Cluster, spot: Spot) -> tuple[NodeCell, tuple[int, ...]] | None:
    """Return the node and the devices that a hint names, None if the configuration no longer has them."""
    chain, devices, _ = _parts_of(spot.placement_hint)
    for node_cell in cluster.node_cells.get(spot.node, ()):
        if node_cell.chain.spec.name == chain and devices and set(devices) <= set(node_cell.devices):
            return node_cell, devices
    return None


@lru_cache(maxsize=10_000)
def _parts_of(placement_hint: str) -> tuple[str, tuple[int, ...], int | None]:
    """Return the chain, the devices and the level that a hint names, None where it names no level."""
    found = _HINT.fullmatch(placement_hint)
    if found is None:
        return "", (), None
    devices: list[int] = []
    for piece in found["devices"].split(","):
        first, _, last = piece.partition("-")
        devices += range(int(first), int(last or first) + 1)
    return found["chain"], tuple(devices), None if found["level"] is None else int(found["level"])


def type_served(node_cell: NodeCell, placement_hint: str) -> str | None:
    """Return the type of the promised cell that served a hint, NO_GUARANTEE if none did; None where it is unknown."""
    level = _parts_of(placement_hint)[2]
    types = node_cell.chain.spec.types
    if level is None or level > len(types):
        return None
    return types[level - 1] if level else NO_GUARANTEE


def never_had_guarantee(placement_hints: Iterable[str]) -> bool:
    """Return whether these are hints, and those of a gang without a guarantee that has not lost one either."""
    levels = {level for chain, _, level in map(_parts_of, placement_hints) if chain}
    return levels == {None}


class HintedSpots:
    """Finds the devices of gangs that run already, one member after the other, none of them twice."""

    def __init__(self, cluster: Cluster, skus: Skus) -> None:
        self._cluster = cluster
        self._skus = skus
        self._taken: dict[tuple[str, int], int] = {}

    def request(
        self, request: GangRequest, spots: list[Spot | None]
    ) -> tuple[GangRequest, list[Spot | None], list[str | None]]:
        """Return what to restore: the request with its device type, and the devices and cell types of its members."""
        found: list[Spot | None] = []
        types: list[str | None] = []
        for spot, need in zip(spots, request.sizes(), strict=True):
            at = None if spot is None else self._find(spot, need, request)
            if spot is None or at is None:
                found.append(None if spot is None else Spot(spot.node, ()))
                types.append(None)
                continue
            node_cell, devices = at
            leaf_type = node_cell.chain.spec.leaf_type
            if request.leaf_type != leaf_type:
                request = replace(request, leaf_type=leaf_type)
            found.append(Spot(spot.node, devices))
            types.append(type_served(node_cell, spot.placement_hint))
        return request, found, types

    def _find(self, spot: Spot, need: int, request: GangRequest) -> tuple[NodeCell, tuple[int, ...]] | None:
        placement_hint = read_hint(self._cluster, spot)
        if placement_hint is not None and (
            spot.devices or not self._busy(placement_hint[0]) & placement_hint[0].mask_of(placement_hint[1])
        ):
            self._take(placement_hint[0], placement_hint[0].mask_of(placement_hint[1]))
            return placement_hint
        for node_cell in self._cluster.node_cells.get(spot.node, ()):
            kind = node_cell.chain.spec.leaf_type
            if request.leaf_type not in (None, kind):
                continue
            devices = self._skus.devices_of(kind, spot.devices)
            if spot.devices and not (devices and set(devices) <= set(node_cell.devices)):
                continue
            mask = node_cell.mask_of(devices)
            # Devices taken only for their CPUs have no GPU numbers to find them by: any free ones stand for them.
            missing = need - mask.bit_count()
            free = node_cell.full & ~(self._busy(node_cell) | mask)
            if missing > 0 and free.bit_count() >= missing:
                mask |= node_cell.chain.shape.best(free, missing)[0]
            if mask:
                self._take(node_cell, mask)
                return node_cell, node_cell.numbers(mask)
        return None

    def _busy(self, node_cell: NodeCell) -> int:
        return (
            node_cell.claimed
            | node_cell.opportunistic
            | self._taken.get((node_cell.chain.spec.name, node_cell.index), 0)
        )

    def _take(self, node_cell: NodeCell, mask: int) -> None:
        key = node_cell.chain.spec.name, node_cell.index
        self._taken[key] = self._taken.get(key, 0) | mask

"""Where members sit: the core's devices become a spot with the GPUs that were asked for, and a spot becomes devices.

A spot's seat is `CHAIN:DEVICES@LEVEL`: the chain, the devices of it, also those that were taken only for their CPUs or
memory, and the level of the promised cell that serves them, so that a restart gives every member back exactly what it
had. The level is 0 for a gang that lost its guarantee, and missing for one that never had any.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.model import OPPORTUNISTIC, GangRecord, GangRequest
from openpai.scheduler.cells.node_cell import Box
from openpai.scheduler.cells.restoring import NO_RIGHT
from openpai.scheduler.model import Ask, Spot
from openpai.scheduler.queue.requests import Portion
from openpai.scheduler.queue.skus import Skus

_NUMBERS: Final = r"[0-9]{1,6}(?:-[0-9]{1,6})?"
_SEAT: Final = re.compile(rf"(?P<chain>.*):(?P<devices>{_NUMBERS}(?:,{_NUMBERS})*)(?:@(?P<level>[0-9]{{1,3}}))?")


def seat_of(chain: str, devices: tuple[int, ...], level: int | None = None) -> str:
    """Return the seat of a member in a chain; `level` is that of the promised cell that serves it, None for none."""
    served = "" if level is None else f"@{level}"
    return f"{chain}:{_ranges(devices)}{served}"


def _ranges(devices: tuple[int, ...]) -> str:
    """Return device numbers in short: 0-3,6."""
    found: list[list[int]] = []
    for device in devices:
        if found and device == found[-1][1] + 1:
            found[-1][1] = device
        else:
            found.append([device, device])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def spot_for(skus: Skus, chain: str, kind: str, held: Spot, ask: Ask) -> Spot:
    """Return the spot of a member: as many GPUs as it asked for, of the devices it holds."""
    gpus = skus.gpus_of(kind, held.devices)[: ask.gpus] if ask.gpus else ()
    return Spot(held.node, gpus, seat_of(chain, held.devices))


def seats_held(record: GangRecord) -> tuple[str, ...]:
    """Return the seats of a gang as they are now, by member; empty for members that are over or nowhere."""
    seats = []
    for part in record.parts:
        if part is None:
            seats.append("")
            continue
        level = None if record.request.priority == OPPORTUNISTIC else part.right.level if part.right else 0
        seats.append(seat_of(part.box.chain.spec.name, part.box.numbers(part.mask), level))
    return tuple(seats)


def read_seat(cluster: Cluster, spot: Spot) -> tuple[Box, tuple[int, ...]] | None:
    """Return the node and the devices a seat names, None if the configuration does not know them any more."""
    chain, devices, _ = _parts_of(spot.seat)
    for box in cluster.boxes.get(spot.node, ()):
        if box.chain.spec.name == chain and devices and set(devices) <= set(box.devices):
            return box, devices
    return None


def _parts_of(seat: str) -> tuple[str, tuple[int, ...], int | None]:
    """Return the chain, the devices and the level that a seat names, None where it names no level."""
    found = _SEAT.fullmatch(seat)
    if found is None:
        return "", (), None
    devices: list[int] = []
    for piece in found["devices"].split(","):
        first, _, last = piece.partition("-")
        devices += range(int(first), int(last or first) + 1)
    return found["chain"], tuple(devices), None if found["level"] is None else int(found["level"])


def type_served(box: Box, seat: str) -> str | None:
    """Return the type of the promised cell that served a seat, NO_RIGHT if none did; None where nobody can say."""
    level = _parts_of(seat)[2]
    types = box.chain.spec.types
    if level is None or level > len(types):
        return None
    return types[level - 1] if level else NO_RIGHT


class Seating:
    """Finds the devices of gangs that run already, one member after the other, giving none of them out twice."""

    def __init__(self, cluster: Cluster, skus: Skus) -> None:
        self._cluster = cluster
        self._skus = skus
        self._taken: dict[tuple[str, int], int] = {}

    def request(
        self, portion: Portion, spots: list[Spot | None]
    ) -> tuple[GangRequest, list[Spot | None], list[str | None]]:
        """Return what to restore: the request with its type of device made plain, the members' devices and cells."""
        request = portion.request
        found: list[Spot | None] = []
        types: list[str | None] = []
        for spot, need in zip(spots, request.sizes(), strict=True):
            at = None if spot is None else self._find(spot, need, request)
            if spot is None or at is None:
                found.append(None if spot is None else Spot(spot.node, ()))
                types.append(None)
                continue
            box, devices = at
            request = replace(request, leaf_type=box.chain.spec.leaf_type)
            found.append(Spot(spot.node, devices))
            types.append(type_served(box, spot.seat))
        return request, found, types

    def _find(self, spot: Spot, need: int, request: GangRequest) -> tuple[Box, tuple[int, ...]] | None:
        seat = read_seat(self._cluster, spot)
        if seat is not None and (spot.devices or not self._busy(seat[0]) & seat[0].mask_of(seat[1])):
            self._take(seat[0], seat[0].mask_of(seat[1]))
            return seat
        for box in self._cluster.boxes.get(spot.node, ()):
            kind = box.chain.spec.leaf_type
            if request.leaf_type not in (None, kind):
                continue
            devices = self._skus.devices_of(kind, spot.devices)
            if spot.devices and not (devices and set(devices) <= set(box.devices)):
                continue
            mask = box.mask_of(devices)
            # Devices taken only for their CPUs have no GPU to be known by: any free ones stand for them.
            missing = need - mask.bit_count()
            free = box.full & ~(self._busy(box) | mask)
            if missing > 0 and free.bit_count() >= missing:
                mask |= box.chain.shape.best(free, missing)[0]
            if mask:
                self._take(box, mask)
                return box, box.numbers(mask)
        return None

    def _busy(self, box: Box) -> int:
        return box.claimed | box.squat | self._taken.get((box.chain.spec.name, box.index), 0)

    def _take(self, box: Box, mask: int) -> None:
        key = box.chain.spec.name, box.index
        self._taken[key] = self._taken.get(key, 0) | mask

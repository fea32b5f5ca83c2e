"""Where members sit: the core's devices become a spot with the GPUs that were asked for, and a spot becomes devices.

A spot's seat names the chain and the devices of it, also those that were taken only for their CPUs or memory, so that a
restart gives every member back exactly what it had.
"""

from __future__ import annotations

from dataclasses import replace

from openpai.scheduler.hived.box import Box
from openpai.scheduler.hived.cluster import Cluster
from openpai.scheduler.hived.model import GangRequest
from openpai.scheduler.hived.portions import Portion
from openpai.scheduler.hived.skus import Skus
from openpai.scheduler.model import Ask, Spot


def seat_of(chain: str, devices: tuple[int, ...]) -> str:
    """Return the seat of a member in a chain."""
    return f"{chain}:{','.join(map(str, devices))}"


def spot_for(skus: Skus, chain: str, kind: str, held: Spot, ask: Ask) -> Spot:
    """Return the spot of a member: as many GPUs as it asked for, of the devices it holds."""
    gpus = skus.gpus_of(kind, held.devices)[: ask.gpus] if ask.gpus else ()
    return Spot(held.node, gpus, seat_of(chain, held.devices))


def read_seat(cluster: Cluster, spot: Spot) -> tuple[Box, tuple[int, ...]] | None:
    """Return the node and the devices a seat names, None if the configuration does not know them any more."""
    chain, _, numbers = spot.seat.rpartition(":")
    if chain not in cluster.chains or not numbers:
        return None
    devices = tuple([int(number) for number in numbers.split(",") if number.isdigit()])
    for box in cluster.boxes.get(spot.node, ()):
        if box.chain.spec.name == chain and devices and set(devices) <= set(box.devices):
            return box, devices
    return None


class Seating:
    """Finds the devices of gangs that run already, one member after the other, giving none of them out twice."""

    def __init__(self, cluster: Cluster, skus: Skus) -> None:
        self._cluster = cluster
        self._skus = skus
        self._taken: dict[tuple[str, int], int] = {}

    def request(self, portion: Portion, spots: list[Spot | None]) -> tuple[GangRequest, list[Spot | None]]:
        """Return what to restore: the request with its type of device made plain, and the members' devices."""
        request = portion.request
        found: list[Spot | None] = []
        for spot, need in zip(spots, request.sizes(), strict=True):
            if spot is None:
                found.append(None)
                continue
            at = self._find(spot, need, request)
            if at is None:
                found.append(Spot(spot.node, ()))
                continue
            box, devices = at
            request = replace(request, leaf_type=box.chain.spec.leaf_type)
            found.append(Spot(spot.node, devices))
        return request, found

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

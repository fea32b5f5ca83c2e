"""A node as the scheduler sees it, and what a virtual cluster holds.

On each device lie at most two things. A *claim*: a gang has the right to it, out of its virtual cluster's promise. A
*squatter*: a gang that runs there without a right (it is opportunistic, or it lost its right to another). Claim and
squatter on one device mean that the claimer waits for the squatter to leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openpai.scheduler.cells.chain import Chain
    from openpai.scheduler.cells.unit_index import Unit
    from openpai.scheduler.cells.vc_share import VcShare


class NodeCell:
    """One node of one chain. Devices are bits, in the order of the tree."""

    __slots__ = (
        "bad", "chain", "claimed", "claims", "common", "devices", "full", "index", "is_split", "name", "opportunistic",
        "opportunistic_gangs", "units",
    )  # fmt: skip

    def __init__(self, chain: Chain, index: int, name: str, devices: tuple[int, ...], full: int) -> None:
        self.chain = chain
        self.index = index
        self.name = name
        self.devices = devices
        self.full = full
        self.bad = 0
        self.claimed = 0
        self.opportunistic = 0
        self.claims: dict[str, int] = {}
        self.opportunistic_gangs: dict[str, int] = {}
        self.units: list[Unit] = []
        self.is_split = False
        """Whether it was cut into smaller cells for virtual clusters that were promised parts of nodes."""
        self.common: Unit

    def numbers(self, mask: int) -> tuple[int, ...]:
        """Return the device numbers of some of its devices."""
        devices = self.devices
        found = []
        while mask:
            low = mask & -mask
            mask ^= low
            found.append(devices[low.bit_length() - 1])
        return tuple(found)

    def mask_of(self, numbers: tuple[int, ...]) -> int:
        """Return the bits of those device numbers it has."""
        mask = 0
        for position, device in enumerate(self.devices):
            if device in numbers:
                mask |= 1 << position
        return mask

    def gangs_on(self, mask: int) -> set[str]:
        """Return the gangs that run, or have a claim, on some of its devices."""
        return {gang for held in (self.claims, self.opportunistic_gangs) for gang, part in held.items() if part & mask}


class CellBinding:
    """A physical cell that serves one of a virtual cluster's promised cells."""

    __slots__ = ("claims", "index", "is_pinned", "level", "number", "share", "units")

    def __init__(self, share: VcShare, level: int, index: int, number: int, is_pinned: bool = False) -> None:
        self.share = share
        self.level = level
        self.index = index
        self.number = number
        """Which of the virtual cluster's promised cells it serves."""
        self.is_pinned = is_pinned
        self.claims = 0
        """How many of its devices are claimed."""
        self.units: list[Unit] = []

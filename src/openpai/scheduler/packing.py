"""How gangs are laid onto nodes: what is free where, and which node fits an ask most tightly.

Nodes that have exactly the same amount free form one class, so that a search walks over the few different
classes instead of over every node. The tightest class wins (fewest free GPUs, then CPUs, then memory), which
leaves whole nodes free for those who need whole nodes; within a class the node declared first wins.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from openpai.protocol.errors import Broken
from openpai.scheduler.model import Ask, Node, Spot


class Amount(NamedTuple):
    """GPUs, CPUs and megabytes, ordered so that sorting puts the tightest fit first."""

    gpus: int
    cpus: int
    memory_mb: int

    def times(self, count: int) -> Amount:
        """Return `count` times this amount."""
        return Amount(self.gpus * count, self.cpus * count, self.memory_mb * count)

    def holds(self, other: Amount) -> bool:
        """Return whether `other` fits into this amount."""
        return self.gpus >= other.gpus and self.cpus >= other.cpus and self.memory_mb >= other.memory_mb


def amount_of(ask: Ask) -> Amount:
    """Return what one member needs."""
    return Amount(ask.gpus, ask.cpus, ask.memory_mb)


def total_of(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of amounts."""
    gpus = cpus = memory_mb = 0
    for amount in amounts:
        gpus += amount.gpus
        cpus += amount.cpus
        memory_mb += amount.memory_mb
    return Amount(gpus, cpus, memory_mb)


@dataclass(slots=True)
class Machine:
    """A node with what is taken on it. Devices are bits of an integer, device 0 the lowest."""

    name: str
    rank: int
    node: Node | None = None
    """None for a node that is gone while something still runs on it."""
    taken_cpus: int = 0
    taken_memory_mb: int = 0
    taken_devices: int = 0
    tenants: int = 0
    usable_devices: int = 0
    indexed_as: Amount | None = None

    def free(self) -> Amount:
        """Return what is free; CPUs and memory are negative when a node shrank under its tasks."""
        if self.node is None:
            return Amount(0, 0, 0)
        return Amount(
            (self.usable_devices & ~self.taken_devices).bit_count(),
            self.node.cpus - self.taken_cpus,
            self.node.memory_mb - self.taken_memory_mb,
        )

    def room(self, need: Amount, at_most: int) -> int:
        """Return how many members that need `need` fit, counting no further than `at_most`."""
        pairs = zip(self.free(), need, strict=True)
        return max(0, min([at_most, *(have // want for have, want in pairs if want)]))


class Pool:
    """Nodes and what is free on them."""

    def __init__(self) -> None:
        self._machines: dict[str, Machine] = {}
        self._by_rank: dict[int, Machine] = {}
        self._ranks_given = 0
        self._classes: list[Amount] = []
        # A set of nodes is an integer with a bit for each rank: its lowest bit is the node declared first.
        self._ranks_in: dict[Amount, int] = {}
        self._biggest = Amount(0, 0, 0)
        self.changes = 0
        """Grows whenever anything about the nodes changed."""

    def machines(self) -> Iterator[Machine]:
        """Return every node that is not gone, in order of declaration."""
        return (machine for machine in self._machines.values() if machine.node is not None)

    def open_machines(self) -> Iterator[Machine]:
        """Return every node that takes new tasks."""
        return (machine for machine in self._machines.values() if machine.indexed_as is not None)

    def set_node(self, node: Node) -> None:
        """Learn of a node or its change; what runs there goes on holding what it holds."""
        machine = self._machine(node.name)
        machine.node = node
        machine.usable_devices = ((1 << node.gpus) - 1) & ~mask_of(node.bad_devices)
        self._index(machine)
        self._biggest = Amount(
            max(self._biggest.gpus, node.gpus),
            max(self._biggest.cpus, node.cpus),
            max(self._biggest.memory_mb, node.memory_mb),
        )

    def remove_node(self, name: str) -> None:
        """Learn that a node is gone; it is remembered only while something still holds a spot there."""
        machine = self._machines.get(name)
        if machine is not None:
            machine.node = None
            machine.usable_devices = 0
            self._index(machine)
            self._drop_if_gone(machine)

    def hold(self, spot: Spot, ask: Ask) -> None:
        """Take a given spot, even on a node that is unknown, full or closed: what runs there is a fact."""
        machine = self._machine(spot.node)
        devices = mask_of(spot.devices)
        if machine.taken_devices & devices:
            raise Broken(f"devices {spot.devices} of node {spot.node} are told to run two tasks at once")
        self._take(machine, amount_of(ask), devices)

    def give_back(self, spot: Spot, ask: Ask) -> None:
        """Free a spot that was packed or held."""
        machine = self._machines[spot.node]
        machine.taken_cpus -= ask.cpus
        machine.taken_memory_mb -= ask.memory_mb
        machine.taken_devices &= ~mask_of(spot.devices)
        machine.tenants -= 1
        self._index(machine)
        self._drop_if_gone(machine)

    def pack(self, asks: Sequence[Ask]) -> tuple[Spot, ...] | None:
        """Take spots for all asks and return them in the asks' order, or take nothing and return None."""
        if len(asks) == 1:
            need = amount_of(asks[0])
            machine = self._tightest(need)
            return None if machine is None else (self._take_lowest(machine, need),)
        groups: dict[Amount, list[int]] = {}
        for index, ask in enumerate(asks):
            groups.setdefault(amount_of(ask), []).append(index)
        whole = self._tightest(total_of(need.times(len(members)) for need, members in groups.items()))
        if whole is not None:
            return tuple(self._take_lowest(whole, amount_of(ask)) for ask in asks)
        for order in self._orders(groups):
            spots = self._spread(groups, order)
            if spots is not None:
                return tuple(spots[index] for index in range(len(asks)))
        return None

    def _orders(self, groups: Iterable[Amount]) -> list[list[Amount]]:
        """Return the orders to try: largest GPU ask first, then largest share of the scarcest thing first."""
        by_gpus = sorted(groups, reverse=True)
        by_share = sorted(by_gpus, key=self._share, reverse=True)
        return [by_gpus] if by_gpus == by_share else [by_gpus, by_share]

    def _share(self, need: Amount) -> float:
        return max(want / max(1, most) for want, most in zip(need, self._biggest, strict=True))

    def _spread(self, groups: dict[Amount, list[int]], order: list[Amount]) -> dict[int, Spot] | None:
        """Take spots on as few nodes as a greedy search finds, or nothing."""
        spots: dict[int, Spot] = {}
        used: dict[str, Machine] = {}
        for need in order:
            left = groups[need][::-1]
            for machine in used.values():
                for _ in range(machine.room(need, len(left))):
                    spots[left[-1]] = self._take_lowest(machine, need)
                    left.pop()
            at_once = self._room_at_most(need, len(left))
            while left:
                found = self._tightest(need.times(at_once)) if at_once else None
                if found is None:
                    at_once -= 1
                    if at_once <= 0:
                        self._undo(spots, groups)
                        return None
                    continue
                for _ in range(at_once):
                    spots[left.pop()] = self._take_lowest(found, need)
                used[found.name] = found
                at_once = min(at_once, len(left))
        return spots

    def _undo(self, spots: dict[int, Spot], groups: dict[Amount, list[int]]) -> None:
        for need, members in groups.items():
            ask = Ask(need.cpus, need.memory_mb, need.gpus)
            for index in members:
                if index in spots:
                    self.give_back(spots[index], ask)

    def _room_at_most(self, need: Amount, count: int) -> int:
        return min([count, *(most // want for most, want in zip(self._biggest, need, strict=True) if want)])

    def _tightest(self, need: Amount) -> Machine | None:
        """Return the node with the least free that still holds `need`."""
        classes = self._classes
        at = bisect_left(classes, need)
        while at < len(classes):
            free = classes[at]
            if free.cpus < need.cpus:
                at = bisect_left(classes, (free.gpus, need.cpus, need.memory_mb), at + 1)
            elif free.memory_mb < need.memory_mb:
                at = bisect_left(classes, (free.gpus, free.cpus, need.memory_mb), at + 1)
            else:
                ranks = self._ranks_in[free]
                return self._by_rank[(ranks & -ranks).bit_length() - 1]
        return None

    def _take_lowest(self, machine: Machine, need: Amount) -> Spot:
        free = machine.usable_devices & ~machine.taken_devices
        devices = []
        mask = 0
        for _ in range(need.gpus):
            lowest = free & -free
            devices.append(lowest.bit_length() - 1)
            mask |= lowest
            free ^= lowest
        self._take(machine, need, mask)
        return Spot(machine.name, tuple(devices))

    def _take(self, machine: Machine, need: Amount, devices: int) -> None:
        machine.taken_cpus += need.cpus
        machine.taken_memory_mb += need.memory_mb
        machine.taken_devices |= devices
        machine.tenants += 1
        self._index(machine)

    def _machine(self, name: str) -> Machine:
        machine = self._machines.get(name)
        if machine is None:
            machine = self._machines[name] = Machine(name, self._ranks_given)
            self._by_rank[machine.rank] = machine
            self._ranks_given += 1
        return machine

    def _drop_if_gone(self, machine: Machine) -> None:
        if machine.node is None and machine.tenants == 0:
            del self._machines[machine.name]
            del self._by_rank[machine.rank]

    def _index(self, machine: Machine) -> None:
        """Move a node into the class of what it has free now; a closed node is in none."""
        is_open = machine.node is not None and machine.node.is_schedulable
        now = machine.free() if is_open else None
        before = machine.indexed_as
        if now == before:
            return
        self.changes += 1
        bit = 1 << machine.rank
        if before is not None:
            self._ranks_in[before] ^= bit
            if not self._ranks_in[before]:
                del self._ranks_in[before]
                del self._classes[bisect_left(self._classes, before)]
        if now is not None:
            if now in self._ranks_in:
                self._ranks_in[now] |= bit
            else:
                self._ranks_in[now] = bit
                insort(self._classes, now)
        machine.indexed_as = now


def mask_of(devices: Iterable[int]) -> int:
    """Return the devices as bits of an integer."""
    mask = 0
    for device in devices:
        mask |= 1 << device
    return mask

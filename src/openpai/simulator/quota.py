"""A quota scheduler that HiveD is compared with: every virtual cluster has a number of GPUs, and no cells.

A gang may start when its virtual cluster stays within its number and the nodes have room for it anywhere: on the
fullest nodes with room or, as many schedulers prefer, on the emptiest. The order of gangs is that of the HiveD
scheduler, so that only the sharing differs.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from openpai.scheduler.interface import Scheduler
from openpai.scheduler.model import Decision, Gang, Node, Place, Refusal, Spot, Wait, Why

PATIENCE_MS: Final = 30 * 60 * 1000
"""A gang that has waited this long is no longer passed by others of its virtual cluster."""


@dataclass(slots=True, eq=False)
class _Waiting:
    gang: Gang
    sizes: tuple[int, ...]
    number: int
    looked_at: int = -1
    """The count of releases when it was last found not to fit."""

    def order(self) -> tuple[int, int, int]:
        return -self.gang.priority, self.gang.submitted_at_ms, self.number


class QuotaScheduler(Scheduler):
    """Shares a cluster by numbers of GPUs alone."""

    def __init__(
        self, quotas: Mapping[str, int], patience_ms: int | None = PATIENCE_MS, *, is_spreading: bool = False
    ) -> None:
        self._is_spreading = is_spreading
        self._left = dict(quotas)
        self._quotas = dict(quotas)
        self._patience_ms = patience_ms
        self._nodes: dict[str, Node] = {}
        self._free: dict[str, list[int]] = {}
        """The numbers of the free GPUs of each node."""
        self._by_free: dict[int, list[str]] = {}
        """The names of nodes, sorted, by their number of free GPUs."""
        self._queues: dict[str, list[_Waiting]] = {name: [] for name in quotas}
        self._waiting: dict[str, _Waiting] = {}
        self._held: dict[str, tuple[_Waiting, list[Spot | None]]] = {}
        self._frees = 0
        self._number = 0

    def set_node(self, node: Node) -> None:
        """Add or change a node. Gangs that run on it keep their spots."""
        self.remove_node(node.name)
        self._nodes[node.name] = node
        taken = {
            gpu for _, spots in self._held.values() for s in spots if s and s.node == node.name for gpu in s.devices
        }
        is_usable = node.is_schedulable
        usable = [gpu for gpu in range(node.gpus) if is_usable and gpu not in node.bad_devices and gpu not in taken]
        self._free[node.name] = usable
        insort(self._by_free.setdefault(len(usable), []), node.name)
        self._frees += 1

    def remove_node(self, name: str) -> None:
        """Remove a node for good. Gangs that run on it keep their spots until released."""
        free = self._free.pop(name, None)
        if free is not None:
            self._by_free[len(free)].remove(name)
            del self._nodes[name]

    def refusal(self, gang: Gang, usable: Collection[str] | None = None) -> Refusal | None:
        """Return why `gang` could not run even if everything were free, or None. Changes nothing."""
        quota = self._quotas.get(gang.virtual_cluster)
        if quota is None:
            return Refusal(f"there is no virtual cluster {gang.virtual_cluster!r}")
        sizes = [ask.gpus for ask in gang.asks]
        if sum(sizes) > quota:
            return Refusal(f"it asks for {sum(sizes)} GPUs; virtual cluster {gang.virtual_cluster} has {quota}")
        room = sorted(((node.gpus) for node in self._nodes.values()), reverse=True)
        if not _fits(sizes, room):
            return Refusal("the nodes could not hold it even if all were empty")
        return None

    def add(self, gang: Gang) -> None:
        """Add a gang to the queue. Adding one that waits or runs changes nothing."""
        if gang.id in self._waiting or gang.id in self._held:
            return
        self._number += 1
        sizes = tuple([ask.gpus for ask in gang.asks])
        self._enqueue(_Waiting(gang, sizes, self._number))

    def _enqueue(self, waiting: _Waiting) -> None:
        self._waiting[waiting.gang.id] = waiting
        insort(self._queues[waiting.gang.virtual_cluster], waiting, key=_Waiting.order)

    def restore(self, gang: Gang, spots: Iterable[Spot | None], since_ms: int | None = None) -> None:
        """Add a gang that already runs, as after a restart; a spot is None for a member that is over."""
        self.cancel(gang.id)
        waiting = _Waiting(gang, tuple([ask.gpus for ask in gang.asks]), 0)
        held = list(spots)
        self._held[gang.id] = (waiting, held)
        for spot in held:
            if spot is not None:
                self._left[gang.virtual_cluster] -= len(spot.devices)
                if spot.node in self._nodes:
                    self.set_node(self._nodes[spot.node])

    def decide(self, now_ms: int, limit: int) -> tuple[Decision, ...]:
        """Return at most `limit` placements, the most urgent first. Each stays proposed until committed or rejected."""
        placed: list[Decision] = []
        for name, queue in self._queues.items():
            for waiting in list(queue):
                if len(placed) >= limit:
                    return tuple(placed)
                spots = self._place(waiting, self._left[name])
                if spots is not None:
                    placed.append(Place(waiting.gang.id, spots))
                elif self._patience_ms is not None and now_ms - waiting.gang.submitted_at_ms >= self._patience_ms:
                    break
        return tuple(placed)

    def _place(self, waiting: _Waiting, left: int) -> tuple[Spot, ...] | None:
        if waiting.looked_at == self._frees:
            return None
        waiting.looked_at = self._frees
        gang = waiting.gang
        total = sum(waiting.sizes)
        if total > left:
            return None
        spots: list[Spot] = []
        for size in waiting.sizes:
            spot = self._take(size)
            if spot is None:
                for taken in spots:
                    self._give_back(taken)
                return None
            spots.append(spot)
        self._left[gang.virtual_cluster] -= total
        self._queues[gang.virtual_cluster].remove(waiting)
        del self._waiting[gang.id]
        self._held[gang.id] = (waiting, list(spots))
        return tuple(spots)

    def _take(self, size: int) -> Spot | None:
        """Take GPUs of the fullest node with enough free (of the emptiest when spreading), the first by name."""
        for free in sorted(self._by_free, reverse=self._is_spreading):
            if free >= size and self._by_free[free]:
                name = self._by_free[free].pop(0)
                gpus = self._free[name]
                chosen, self._free[name] = tuple(gpus[:size]), gpus[size:]
                insort(self._by_free.setdefault(free - size, []), name)
                return Spot(name, chosen)
        return None

    def _give_back(self, spot: Spot) -> None:
        node = self._nodes.get(spot.node)
        if node is None or not node.is_schedulable:
            return
        gpus = self._free[spot.node]
        self._by_free[len(gpus)].remove(spot.node)
        gpus = sorted({*gpus, *(set(spot.devices) - node.bad_devices)})
        self._free[spot.node] = gpus
        insort(self._by_free.setdefault(len(gpus), []), spot.node)

    def look_again_ms(self) -> int | None:
        """Return when a decision may be due although nothing is reported by then: never."""

    def commit(self, gang: str) -> None:
        """Commit the placement proposed for `gang`, whose GPUs are set aside already."""

    def reject(self, gang: str) -> None:
        """Drop the placement proposed for `gang`, which waits again at its place in the queue."""
        if gang in self._held:
            waiting = self._held[gang][0]
            self.release(gang)
            self._enqueue(waiting)

    def release(self, gang: str, members: Iterable[int] | None = None) -> None:
        """Free the spots of these members (all when None). A gang without spots is forgotten."""
        if gang not in self._held:
            return
        waiting, spots = self._held[gang]
        for member in range(len(spots)) if members is None else members:
            spot = spots[member]
            if spot is not None:
                spots[member] = None
                self._left[waiting.gang.virtual_cluster] += len(spot.devices)
                self._give_back(spot)
        self._frees += 1
        if not any(spots):
            del self._held[gang]

    def cancel(self, gang: str) -> None:
        """Remove a waiting gang. Unknown gangs are ignored."""
        waiting = self._waiting.pop(gang, None)
        if waiting is not None:
            self._queues[waiting.gang.virtual_cluster].remove(waiting)

    def why(self, gang: str) -> Wait | None:
        """Return why a gang waits; None when it does not."""
        waiting = self._waiting.get(gang)
        if waiting is None:
            return None
        name = waiting.gang.virtual_cluster
        total, left = sum(waiting.sizes), self._left[name]
        position = self._queues[name].index(waiting) + 1
        if total > left:
            message = f"it asks for {total} GPUs; virtual cluster {name} has {left} of its {self._quotas[name]} left"
            return Wait(gang, Why.NOT_ENOUGH_FREE, message, "jobs of its virtual cluster ending", position=position)
        message = f"virtual cluster {name} has {left} GPUs left, but no nodes have room for {total} in its shape"
        return Wait(gang, Why.FRAGMENTED, message, "jobs of any virtual cluster ending", position=position)


def _fits(sizes: Iterable[int], room: list[int]) -> bool:
    """Return whether members of these sizes fit into nodes with these rooms, largest first into the tightest."""
    left = sorted(room)
    for size in sorted(sizes, reverse=True):
        at = next((at for at, free in enumerate(left) if free >= size), None)
        if at is None:
            return False
        insort(left, left.pop(at) - size)
    return True

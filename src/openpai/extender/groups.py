"""The affinity groups that have cells, or have reserved them: which pod is which member, and where each member runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from openpai.extender.annotations import PodSpec, write_annotations, write_group
from openpai.extender.objects import Pod
from openpai.protocol.errors import Refused
from openpai.scheduler.cells.model import GangRequest
from openpai.scheduler.model import Spot


class PodState(StrEnum):
    """The state of a pod, in HiveD's words."""

    WAITING = "Waiting"
    PREEMPTING = "Preempting"
    BINDING = "Binding"
    """It has its cells; the API server does not show it bound yet."""
    BOUND = "Bound"


@dataclass(slots=True)
class PodRecord:
    """A live pod: what it asks for, and its member of an affinity group once it has cells."""

    pod: Pod
    state: PodState = PodState.WAITING
    spec: PodSpec | Refused | None = None
    """What it asks for, or what is wrong with that; None until it is read."""
    group: str = ""
    member: int | None = None
    attempts: int = 0
    """How often kube-scheduler asked again about a pod that has its cells."""
    is_blocked: bool = False
    """Whether filter answered that preemption would help, and kube-scheduler did not ask about preemption since."""


@dataclass(slots=True)
class Group:
    """An affinity group. It keeps all of its cells until its last pod is gone, as in HiveD."""

    request: GangRequest
    chain: str
    spots: tuple[Spot, ...] = ()
    cell_types: tuple[str, ...] = ()
    pods: dict[int, str] = field(default_factory=dict)
    """The pods that have a place, by member."""
    preempting: dict[str, None] = field(default_factory=dict)
    """The pods that wait for the group's victims to leave, in the order in which they came."""
    _written: str = ""

    def free_member(self, leaves: int) -> int | None:
        """Return the first member of this size that no pod has, None if each has one."""
        return next((member for member in self._of_size(leaves) if member not in self.pods), None)

    def member_at(self, spot: Spot) -> int | None:
        """Return the free member that was placed at `spot`, None if there is none."""
        members = self._of_size(len(spot.devices))
        place = spot.node, sorted(spot.devices)
        return next(
            (
                member
                for member in members
                if member not in self.pods and (self.spots[member].node, sorted(self.spots[member].devices)) == place
            ),
            None,
        )

    def annotations(self, member: int) -> dict[str, str]:
        """Return the annotations of the pod that is this member."""
        if not self._written:
            self._written = write_group(list(zip(self.spots, self.cell_types, strict=True)))
        return write_annotations(self.spots[member], self.chain, self._written)

    def _of_size(self, leaves: int) -> Iterator[int]:
        first = 0
        for count, size in self.request.members:
            if size == leaves:
                yield from range(first, first + count)
            first += count

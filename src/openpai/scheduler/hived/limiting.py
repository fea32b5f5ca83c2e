"""How many GPUs one user may run at a time in a virtual cluster, and whether another gang would be too many."""

from __future__ import annotations

from collections.abc import Sequence

from openpai.scheduler.hived.fairness import Owner
from openpai.scheduler.model import Gang, Limit


def gpus_of(gang: Gang) -> int:
    """Return how many GPUs a gang asks for."""
    return sum(ask.gpus for ask in gang.asks)


class Limits:
    """The limits, and the GPUs that count towards them."""

    def __init__(self) -> None:
        self.limits: tuple[Limit, ...] = ()
        self._running: dict[Owner, int] = {}
        self._known: dict[Owner, Limit | None] = {}

    def set(self, limits: Sequence[Limit]) -> None:
        """Replace all limits."""
        self.limits = tuple(limits)
        self._known.clear()

    def run(self, owner: Owner, gpus: int) -> None:
        """Count so many GPUs more (fewer if negative) as running."""
        self._running[owner] = self._running.get(owner, 0) + gpus

    def running(self, owner: Owner) -> int:
        """Return how many GPUs a user runs in a virtual cluster."""
        return self._running.get(owner, 0)

    def limit_of(self, owner: Owner) -> Limit | None:
        """Return the limit that counts: one that names the user before one that does not, then the virtual cluster."""
        if not self.limits:
            return None
        if owner not in self._known:
            name, user = owner
            fitting = [
                limit for limit in self.limits if limit.user in ("", user) and limit.virtual_cluster in ("", name)
            ]
            # Two limits on the very same thing: the stricter one counts.
            order = sorted(fitting, key=lambda limit: (not limit.user, not limit.virtual_cluster, limit.gpus))
            self._known[owner] = order[0] if order else None
        return self._known[owner]

    def keeps_back(self, gang: Gang) -> bool:
        """Return whether a gang would be more than its user may run."""
        if not self.limits:
            return False
        owner = gang.virtual_cluster, gang.user
        limit = self.limit_of(owner)
        gpus = gpus_of(gang)
        return limit is not None and gpus > 0 and self.running(owner) + gpus > limit.gpus

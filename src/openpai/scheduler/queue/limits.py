"""Limits of how many GPUs one user may run at a time, in a virtual cluster and in all of them together."""

from __future__ import annotations

from collections.abc import Sequence

from openpai.scheduler.model import Gang, Limit
from openpai.scheduler.queue.fairness import Owner


def gpus_of(gang: Gang) -> int:
    """Return how many GPUs a gang asks for."""
    asks = gang.asks
    return asks[0].gpus if len(asks) == 1 else sum([ask.gpus for ask in asks])


class Limits:
    """The limits, and the GPUs that count towards them."""

    def __init__(self) -> None:
        self.limits: tuple[Limit, ...] = ()
        self._running: dict[Owner, int] = {}
        self._over_all: dict[str, int] = {}
        self._named: dict[Owner, Limit] = {}
        self._known: dict[Owner, tuple[Limit, ...]] = {}
        self.is_eased = False
        """Whether a user runs fewer GPUs than when `take_eased` was last called."""

    def set(self, limits: Sequence[Limit]) -> None:
        """Replace all limits."""
        self.limits = tuple(limits)
        self._known.clear()
        # Two limits on the very same thing: the stricter one counts.
        loosest_first = sorted(limits, key=lambda limit: (limit.gpus is not None, -(limit.gpus or 0)))
        self._named = {(limit.virtual_cluster, limit.user): limit for limit in loosest_first}

    def run(self, owner: Owner, gpus: int) -> None:
        """Add GPUs to those that a user runs (remove them if negative)."""
        self._running[owner] = self._running.get(owner, 0) + gpus
        self._over_all[owner[1]] = self._over_all.get(owner[1], 0) + gpus
        self.is_eased |= gpus < 0

    def running(self, owner: Owner, limit: Limit) -> int:
        """Return how many of a user's GPUs count towards a limit that holds in a virtual cluster."""
        return self._running.get(owner, 0) if limit.virtual_cluster else self._over_all.get(owner[1], 0)

    def trial_copy(self, user: str) -> Limits:
        """Return a copy of the limits with what a user runs now, for estimates."""
        copy = Limits()
        copy.limits, copy._named, copy._known = self.limits, self._named, self._known
        copy._running = {owner: gpus for owner, gpus in self._running.items() if owner[1] == user}
        copy._over_all = {user: self._over_all.get(user, 0)}
        return copy

    def of(self, owner: Owner) -> tuple[Limit, ...]:
        """Return the limits of a user in a virtual cluster: its own, and the one over all virtual clusters."""
        if not self.limits:
            return ()
        if owner not in self._known:
            named = self._named
            found = (named.get((name, owner[1])) or named.get((name, "")) for name in dict.fromkeys((owner[0], "")))
            self._known[owner] = tuple(limit for limit in found if limit is not None and limit.gpus is not None)
        return self._known[owner]

    def exceeded(self, gang: Gang) -> Limit | None:
        """Return the limit that starting a gang would exceed, None if there is none."""
        if not self.limits:
            return None
        owner = gang.virtual_cluster, gang.user
        limits = self.of(owner)
        gpus = gpus_of(gang) if limits else 0
        if not gpus:
            return None
        beyond = [limit for limit in limits if self.running(owner, limit) + gpus > (limit.gpus or 0)]
        return next((limit for limit in beyond if gpus > (limit.gpus or 0)), beyond[0] if beyond else None)

    def may_ever_run(self, gang: Gang) -> bool:
        """Return whether the limits allow a gang when its user runs nothing else."""
        return all(gpus_of(gang) <= (limit.gpus or 0) for limit in self.of((gang.virtual_cluster, gang.user)))

    def take_eased(self) -> bool:
        """Return, once, whether a user may run more in other virtual clusters because a gang left."""
        is_eased, self.is_eased = self.is_eased, False
        return is_eased and any(not limit.virtual_cluster for limit in self.limits)

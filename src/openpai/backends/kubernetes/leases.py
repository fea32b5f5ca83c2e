"""Finds dead nodes by their Leases, without believing any clock but our own, and clocks that differ from it.

A kubelet renews the Lease of its node about every ten seconds. What counts is that a renewal arrived, not the time that
is written in it, since the clocks of nodes differ. And only time counts during which we could have seen a renewal: when
the API server is away, no kubelet can renew its Lease, and no node is dead for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from openpai.kube.objects.nodes import Lease

NAMESPACE: Final = "kube-node-lease"
RENEWALS_MISSED: Final = 2.5
"""A node is dead after so many periods of renewal; a kubelet renews after a quarter of the Lease's duration."""
DURATION_S: Final = 40
SILENCE_S_MIN: Final = 10.0
CONTACT_GAP_S: Final = 5.0
"""Longer without an answer, and the kubelets may have been without one too: all of them get their full time again."""


@dataclass(slots=True)
class _Renewal:
    stamp: datetime | None
    at: float
    allowed_s: float
    drift_s: float = 0.0
    """By how much the node's clock was ahead of ours when the renewal arrived."""
    drift_before_s: float = 0.0


class NodeLeases:
    """The Leases of all nodes, by the times at which their renewals arrived here."""

    def __init__(self) -> None:
        self._renewals: dict[str, _Renewal] = {}
        self._contact: float | None = None
        self._since = 0.0

    def contact(self, now: float) -> None:
        """Record that the API server answered: with an event, a bookmark or a list of Leases.

        Call it after the Leases of the answer were recorded, at least every few seconds; `now` is a monotonic clock's.
        """
        if self._contact is None or now - self._contact > CONTACT_GAP_S:
            self._since = now
        self._contact = now

    def renewed(self, lease: Lease, now: float, wall_s: float | None = None) -> None:
        """Record a Lease as it is now; one that was only changed in another way renews nothing.

        A Lease without a time, or with one that cannot be read, judges no node. `wall_s` is our clock, in seconds.
        """
        if lease.spec.renew_time is None:
            self.forget(lease.name)
            return
        known = self._renewals.get(lease.name)
        allowed_s = max((lease.spec.lease_duration_seconds or DURATION_S) / 4 * RENEWALS_MISSED, SILENCE_S_MIN)
        if known is None or known.stamp != lease.spec.renew_time:
            # When the first Lease was renewed is not known.
            seen = known is not None and wall_s is not None
            drift_s = lease.spec.renew_time.timestamp() - wall_s if seen and wall_s is not None else 0.0
            before_s = known.drift_s if known is not None else 0.0
            self._renewals[lease.name] = _Renewal(lease.spec.renew_time, now, allowed_s, drift_s, before_s)

    def forget(self, node: str) -> None:
        """Forget a Lease that was deleted; its node is no longer judged by it."""
        self._renewals.pop(node, None)

    def silent_s(self, node: str) -> float:
        """Return for how long the node could have renewed its Lease and did not; 0 for a node without one."""
        renewal = self._renewals.get(node)
        if renewal is None or self._contact is None:
            return 0.0
        return max(self._contact - max(renewal.at, self._since), 0.0)

    def drift_s(self, node: str) -> float:
        """Return by how much a node's clock is ahead of ours, 0 if that is not known.

        Of the last two renewals the one that differs less counts: one may have arrived late.
        """
        renewal = self._renewals.get(node)
        return 0.0 if renewal is None else min(renewal.drift_s, renewal.drift_before_s, key=abs)

    def is_dead(self, node: str) -> bool:
        """Return whether the node was silent for longer than its Lease allows."""
        renewal = self._renewals.get(node)
        return renewal is not None and self.silent_s(node) >= renewal.allowed_s

    def dead(self) -> frozenset[str]:
        """Return all dead nodes."""
        return frozenset(node for node in self._renewals if self.is_dead(node))

    def is_probe_due(self, now: float) -> bool:
        """Return whether to ask the API server for something small, since nothing arrived for half of the gap."""
        return self._contact is None or now - self._contact > CONTACT_GAP_S / 2

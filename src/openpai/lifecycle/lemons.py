"""Which nodes and devices fail the jobs of many users: a score for each, from the failures that they are blamed for.

A log is written by its job, so the failures of one user prove nothing: each user counts once, and failures within an
hour are one incident, as when a node is restarted. A failure counts for half after two weeks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

HALF_LIFE_MS: Final = 14 * 86_400_000
INCIDENT_MS: Final = 3_600_000
KEPT_MS: Final = 4 * HALF_LIFE_MS
THRESHOLD: Final = 2.5
"""Failures of three users in a short time reach it, and those of two never do."""
SHARE_MAX: Final = 0.1
"""The part of all nodes that may be drained for their score, so that users who agree cannot drain a cluster."""
EXCLUDED_MS: Final = 86_400_000
"""How long a job avoids a node that failed it."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A failure of a job that a node is blamed for."""

    node: str
    user: str
    job: str
    cause: str
    at_ms: int
    devices: tuple[int, ...] = ()
    """The devices that the task held there."""


@dataclass(frozen=True, slots=True)
class Lemon:
    """A node, or one device of it, to take out of service."""

    node: str
    device: int | None
    """None for the whole node."""
    reason: str


def counted(strikes: Iterable[Strike], now_ms: int) -> list[Strike]:
    """Return the failures that count for one node, oldest first: the last of each user, one in each incident."""
    last = {strike.user: strike for strike in sorted(strikes, key=lambda each: each.at_ms)}
    found: list[Strike] = []
    for strike in sorted(last.values(), key=lambda each: (each.at_ms, each.user)):
        if now_ms - strike.at_ms < KEPT_MS and (not found or strike.at_ms - found[-1].at_ms >= INCIDENT_MS):
            found.append(strike)
    return found


def score(strikes: Iterable[Strike], now_ms: int) -> float:
    """Return the score of a node: how many users' jobs failed for it, older failures counting less."""
    return math.fsum(0.5 ** (max(0, now_ms - strike.at_ms) / HALF_LIFE_MS) for strike in counted(strikes, now_ms))


def find_lemon(node: str, strikes: Sequence[Strike], now_ms: int, threshold: float = THRESHOLD) -> Lemon | None:
    """Return what to take out of service on a node, None if its score is below the threshold.

    That is one device if every failure that counts held that device and no other one, else the node.
    """
    own = [strike for strike in strikes if strike.node == node]
    reached = score(own, now_ms)
    if threshold <= 0 or reached < threshold:
        return None
    found = counted(own, now_ms)
    causes = ", ".join(f"{cause} ({times})" for cause, times in Counter(each.cause for each in found).most_common())
    devices = {strike.devices for strike in found}
    device = next(iter(devices))[0] if len(devices) == 1 and len(next(iter(devices))) == 1 else None
    reason = f"jobs of {len(found)} users failed for its hardware: {causes}; score {reached:.1f} of {threshold:g}"
    return Lemon(node, device, reason)


def may_drain(drained: int, nodes: int) -> bool:
    """Return whether another node may be drained for its score, of which some are already."""
    return drained < max(1, int(nodes * SHARE_MAX))


def excluded_nodes(strikes: Iterable[Strike], job: str, now_ms: int, nodes: int) -> frozenset[str]:
    """Return the nodes that a job avoids: those that failed it lately, never more than half of all nodes."""
    found = sorted((each.at_ms, each.node) for each in strikes if each.job == job and now_ms - each.at_ms < EXCLUDED_MS)
    newest = list(dict.fromkeys(node for _, node in reversed(found)))
    return frozenset(newest[: nodes // 2])

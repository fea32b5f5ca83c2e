"""Which nodes and devices fail the jobs of many users: a score for each, from the failures that they are blamed for.

A log is written by its job, so the failures of one user prove nothing: each user counts once, and failures within an
hour are one incident, as when a node is restarted. Users of one virtual cluster may run the same program, so beside
other virtual clusters the second of them counts less. A failure counts for half after two weeks.

Where one or two users have the cluster to themselves, no others could confirm what they see: their failures of several
days count, and no other user's jobs are affected.
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
THRESHOLD_MAX: Final = 100.0
SHARE_MAX: Final = 0.1
"""The part of all nodes that may be drained for their score, so that users who agree cannot drain a cluster."""
EXCLUDED_MS: Final = 86_400_000
"""How long a job avoids a node that failed it."""
AGAIN_MS: Final = 86_400_000
"""How far apart failures of the same user are that count each, where there are few users."""
ALIKE_WEIGHT: Final = 0.75
"""What a user counts after another one of the same virtual cluster."""
UNSURE_WEIGHT: Final = 0.65
"""What a failure of unknown cause counts, if the same job succeeded elsewhere: four of these alone drain nothing."""
OTHERS_MIN: Final = 1.5
"""What must be left of a score without the user who counts most: no user drains a node with a single other failure."""
_EACH_OF_FEW: Final = {1: 3, 2: 2}
"""How often each user counts for a node, by the number of users."""


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
    virtual_cluster: str = ""
    is_sure: bool = True
    """Whether the cause is the node's hardware; False: it is unknown, and the job succeeded elsewhere."""
    rule: str = ""
    """The alert rule that keeps the job from the node: no failure, so it counts for no score. Else empty."""


@dataclass(frozen=True, slots=True)
class Population:
    """How many users ran jobs lately, and in how many virtual clusters; 0 users for a number that is not known."""

    users: int = 0
    virtual_clusters: int = 1

    @property
    def each(self) -> int:
        """Return how often a user counts for a node."""
        return _EACH_OF_FEW.get(self.users, 1)


MANY: Final = Population()


@dataclass(frozen=True, slots=True)
class Lemon:
    """A node, or one device of it, to take out of service."""

    node: str
    device: int | None
    """None for the whole node."""
    reason: str
    jobs: tuple[str, ...] = ()
    """The jobs whose failures count."""


def counted(strikes: Iterable[Strike], now_ms: int, population: Population = MANY) -> list[Strike]:
    """Return the failures that count for one node, oldest first: the last of each user, one in each incident."""
    last: dict[str, list[Strike]] = {}
    for strike in sorted(strikes, key=lambda each: (-each.at_ms, each.job)):
        if strike.rule:
            continue
        own = last.setdefault(strike.user, [])
        is_apart = all(each.job != strike.job and each.at_ms - strike.at_ms >= AGAIN_MS for each in own)
        if now_ms - strike.at_ms < KEPT_MS and len(own) < population.each and is_apart:
            own.append(strike)
    found: list[Strike] = []
    every = [strike for own in last.values() for strike in own]
    for strike in sorted(every, key=lambda each: (each.at_ms, each.user)):
        if not found or strike.at_ms - found[-1].at_ms >= INCIDENT_MS:
            found.append(strike)
    return found


def score(strikes: Iterable[Strike], now_ms: int, population: Population = MANY) -> float:
    """Return the score of a node: how many users' jobs failed for it, older failures counting less."""
    return math.fsum(_parts(strikes, now_ms, population).values())


def _parts(strikes: Iterable[Strike], now_ms: int, population: Population) -> dict[str, float]:
    """Return what each user adds to a score."""
    known: dict[str, set[str]] = {}
    parts: dict[str, float] = {}
    for strike in counted(strikes, now_ms, population):
        weight = 1.0 if strike.is_sure else UNSURE_WEIGHT
        others = known.setdefault(strike.virtual_cluster, set())
        if population.virtual_clusters > 1 and others - {strike.user}:
            weight *= ALIKE_WEIGHT
        others.add(strike.user)
        weight *= 0.5 ** (max(0, now_ms - strike.at_ms) / HALF_LIFE_MS)
        parts[strike.user] = parts.get(strike.user, 0.0) + weight
    return parts


def find_lemon(
    node: str,
    strikes: Sequence[Strike],
    now_ms: int,
    threshold: float = THRESHOLD,
    population: Population = MANY,
) -> Lemon | None:
    """Return what to take out of service on a node, None if its score is below the threshold.

    That is one device if every failure that counts held that device and no other one, else the node.
    """
    own = [strike for strike in strikes if strike.node == node]
    parts = _parts(own, now_ms, population)
    reached = math.fsum(parts.values())
    if threshold <= 0 or not parts or reached < threshold:
        return None
    if population.users != 1 and reached - max(parts.values()) < min(OTHERS_MIN, threshold / 2):
        return None
    found = counted(own, now_ms, population)
    causes = Counter(each.cause if each.is_sure else "unknown cause, succeeded elsewhere" for each in found)
    named = ", ".join(f"{cause} ({times})" for cause, times in causes.most_common())
    devices = {strike.devices for strike in found}
    device = next(iter(devices))[0] if len(devices) == 1 and len(next(iter(devices))) == 1 else None
    users = len({each.user for each in found})
    whose = f"jobs of {users} users" if users > 1 else f"{len(found)} jobs of the only user"
    reason = f"{whose} failed for its hardware: {named}; score {reached:.1f} of {threshold:g}"
    return Lemon(node, device, reason, tuple(dict.fromkeys(each.job for each in found)))


def may_drain(drained: int, nodes: int) -> bool:
    """Return whether another node may be drained for its score, of which some are already."""
    return drained < max(1, int(nodes * SHARE_MAX))


def excluded_nodes(strikes: Iterable[Strike], job: str, now_ms: int, nodes: int) -> frozenset[str]:
    """Return the nodes that a job avoids: those that failed it lately, never more than half of all nodes."""
    found = sorted(
        (each.at_ms, each.node)
        for each in strikes
        if each.job == job and each.is_sure and now_ms - each.at_ms < EXCLUDED_MS
    )
    newest = list(dict.fromkeys(node for _, node in reversed(found)))
    return frozenset(newest[: nodes // 2])

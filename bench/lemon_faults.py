"""Replays a trace on nodes that fail: most seldom, and a few, the lemons, often.

A job that a node fails starts again elsewhere. Its user's own faults end it, whichever node it runs on, and some of
them leave logs that look like a node's fault. What the platform does about a node is decided by `lifecycle.lemons`.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from openpai.lifecycle.lemons import (
    MANY,
    THRESHOLD,
    Population,
    Strike,
    excluded_nodes,
    find_lemon,
    may_drain,
)
from openpai.scheduler.model import Node, Place
from openpai.scheduler.queue.scheduler import HivedScheduler
from openpai.simulator.cluster import generated, nodes_of, quotas_of
from openpai.simulator.replay import Replay, Run
from openpai.simulator.synthetic import SyntheticSpec, generate
from openpai.simulator.tally import Tally
from openpai.simulator.trace import Trace, TraceJob

_FAILS: Final = 2
_HIDDEN: Final = 0.3
"""The share of the faults of nodes whose cause is not found in the log."""


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """How often what fails."""

    lemon_hours: float = 12.0
    """How long a job runs on a lemon until it fails, on average."""
    node_hours: float = 10_000.0
    """The same for all other nodes."""
    careless: float = 0.3
    """The share of jobs that fail by their own fault."""
    forged: float = 0.0
    """The share of those whose logs blame the node."""
    forgers: frozenset[str] = frozenset()
    """The users who write such logs; empty for all."""
    threshold: float = THRESHOLD
    """The score at which a node is drained; 0 for never."""
    seed: int = 1


@dataclass(slots=True)
class Faults:
    """What happened in a replay."""

    of_lemons: int = 0
    of_others: int = 0
    by_users: int = 0
    drained: dict[str, int] = field(default_factory=dict)
    """Each node that was drained, and when."""


class FaultyReplay(Replay):
    """A replay in which jobs fail, and nodes that failed several users are drained."""

    def begin(self, nodes: Sequence[Node], lemons: Collection[str], spec: FaultSpec, population: Population) -> None:
        """Set what fails."""
        self._nodes = {node.name: node for node in nodes}
        self._lemons = frozenset(lemons)
        self._spec = spec
        self._population = population
        self._strikes: list[Strike] = []
        self._suspects: dict[str, Strike] = {}
        self._causes: dict[tuple[str, int], str] = {}
        self.faults = Faults()

    def _start(self, place: Place) -> None:
        super()._start(place)
        run = self.running[place.gang]
        # The same job meets the same luck in every replay.
        dice = random.Random(f"{self._spec.seed} {run.job.id} {run.starts}")
        first: tuple[float, str] | None = None
        for node, _ in run.nodes:
            hours = self._spec.lemon_hours if node in self._lemons else self._spec.node_hours
            after = dice.expovariate(1 / hours) * 3_600_000
            first = min(first, (after, node)) if first is not None else (after, node)
        if run.starts == 1 and dice.random() < self._spec.careless:
            after = dice.random() * run.left_ms
            first = min(first, (after, "")) if first is not None else (after, "")
        if first is not None and first[0] < run.left_ms:
            self._causes[run.job.id, run.starts] = first[1]
            self._plan(self.now_ms + int(first[0]), _FAILS, run)

    def _leave(self, run: Run) -> None:
        node = self._causes.pop((run.job.id, run.starts), None)
        if node is None or run.has_notice:
            super()._leave(run)
            return
        if node == "":
            self._fail_itself(run)
            return
        is_lemon = node in self._lemons
        self.faults.of_lemons += is_lemon
        self.faults.of_others += not is_lemon
        dice = random.Random(f"{self._spec.seed} {run.job.id} {run.starts} log")
        strike = Strike(
            node, run.job.user, run.job.id, "xid_hardware", self.now_ms, (), run.job.virtual_cluster,
            is_sure=dice.random() >= _HIDDEN,
        )  # fmt: skip
        if strike.is_sure:
            self._blame(strike)
            avoided = excluded_nodes(self._strikes, run.job.id, self.now_ms, len(self._nodes))
            run.gang = replace(run.gang, excluded_nodes=tuple(sorted(avoided)))
        else:
            self._suspects[run.job.id] = strike
        super()._leave(run)

    def _end(self, run: Run) -> None:
        suspect = self._suspects.pop(run.job.id, None)
        if suspect is not None and suspect.node not in {node for node, _ in run.nodes}:
            self._blame(suspect)
        super()._end(run)

    def _fail_itself(self, run: Run) -> None:
        self.faults.by_users += 1
        dice = random.Random(f"{self._spec.seed} {run.job.id} forged")
        may = not self._spec.forgers or run.job.user in self._spec.forgers
        if may and dice.random() < self._spec.forged:
            node, _ = run.nodes[0]
            strike = Strike(node, run.job.user, run.job.id, "xid_hardware", self.now_ms, (), run.job.virtual_cluster)
            self._blame(strike)
        self._suspects.pop(run.job.id, None)
        super()._end(run)

    def _blame(self, strike: Strike) -> None:
        self._strikes.append(strike)
        node = strike.node
        if node in self.faults.drained or not may_drain(len(self.faults.drained), len(self._nodes)):
            return
        if find_lemon(node, self._strikes, self.now_ms, self._spec.threshold, self._population) is not None:
            self.faults.drained[node] = self.now_ms
            self.scheduler.set_node(replace(self._nodes[node], is_schedulable=False))


def replay_faults(
    spec: FaultSpec,
    *,
    nodes: int = 63,
    lemons: int = 3,
    days: float = 60.0,
    jobs: int = 6000,
    load: float = 0.85,
    users: int | None = None,
    vcs: int = 5,
) -> tuple[Faults, frozenset[str]]:
    """Return what happened on a cluster with so many lemons among its nodes, and which they are.

    `users` is how many there are in all; None for those of the trace.
    """
    shape = SyntheticSpec(jobs=jobs, days=days, seed=spec.seed, load=load, vcs=vcs)
    config = generated(nodes, shape.shares())
    trace = generate(shape, quotas_of(config))
    if users is not None:
        trace = Trace(tuple(_of_user(job, users) for job in trace.jobs))
    machines = nodes_of(config)
    chosen = frozenset(random.Random(spec.seed).sample([node.name for node in machines], lemons))
    population = Population(len({job.user for job in trace.jobs}), len({job.virtual_cluster for job in trace.jobs}))
    scheduler = HivedScheduler(config)
    for node in machines:
        scheduler.set_node(node)
    tally = Tally(trace, machines, quotas_of(config), 0)
    replay = FaultyReplay(scheduler, trace, tally, max(node.gpus for node in machines))
    replay.begin(machines, chosen, spec, population if population.users else MANY)
    replay.play()
    return replay.faults, chosen


def _of_user(job: TraceJob, users: int) -> TraceJob:
    return replace(job, user=f"user{sum(job.user.encode()) % users}")

"""Replays a trace over a scheduler in virtual time, from event to event, without a clock and without sleeping.

The scheduler is driven through the platform's own interface. A job that is preempted leaves after a grace period, loses
its work since the last checkpoint, and waits again at its place in the queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heappop, heappush
from typing import Final

from openpai.protocol.errors import Refused
from openpai.scheduler.interface import Scheduler
from openpai.scheduler.model import Ask, Gang, Place, Preempt
from openpai.simulator.tally import Tally
from openpai.simulator.trace import Trace, TraceJob

DECISIONS_MAX: Final = 1_000_000
# At the same time ends come first: a job that is done loses nothing.
_ENDS, _LEAVES = 0, 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The assumptions of a replay."""

    grace_ms: int = 30_000
    """How long a preempted job runs on before its GPUs are free."""
    checkpoint_ms: int | None = None
    """How often jobs save their work; None for never: a preempted job starts again from the beginning."""
    is_interruptible: bool = False
    """Whether all jobs may start on idle GPUs of other virtual clusters and be preempted there."""
    interruptible: frozenset[str] = frozenset()
    """The virtual clusters whose jobs may, if not all may."""
    estimate_every: int = 0
    """The start of one waiting job in this many is estimated when it is submitted; 0 for none."""
    moves_jobs: bool = False
    """Whether jobs that may be interrupted are moved to make whole nodes for jobs that wait."""
    round_ms: int = 1000
    """How often the scheduler decides: it decides together about all events within this time."""


@dataclass(slots=True, eq=False)
class Run:
    """A job in the replay."""

    job: TraceJob
    gang: Gang
    left_ms: int
    """Running time it still needs, counted from its last checkpoint."""
    nodes: tuple[tuple[str, int], ...] = ()
    """Where it runs, and on how many GPUs of each node."""
    began_ms: int = -1
    starts: int = 0
    has_notice: bool = False
    """Whether it was preempted."""
    is_moved: bool = False
    """Whether it was preempted to be moved."""


@lru_cache(maxsize=10_000)
def _asks(sizes: tuple[int, ...]) -> tuple[Ask, ...]:
    return tuple([Ask(0, 0, gpus) for gpus in sizes])


@dataclass(slots=True)
class Replay:
    """One pass of a trace over one scheduler."""

    scheduler: Scheduler
    trace: Trace
    tally: Tally
    node_gpus: int
    rules: Rules = field(default_factory=Rules)
    now_ms: int = 0
    waiting: dict[str, Run] = field(default_factory=dict)
    running: dict[str, Run] = field(default_factory=dict)
    decisions: int = 0
    _heap: list[tuple[int, int, int, int, Run]] = field(default_factory=list)
    _planned: int = 0
    _submitted: int = 0
    _to_estimate: list[str] = field(default_factory=list)

    def play(self) -> Tally:
        """Replay the whole trace and return the counts."""
        jobs, heap, at = self.trace.jobs, self._heap, 0
        step = max(1, self.rules.round_ms)
        while at < len(jobs) or heap:
            first = heap[0][0] if heap else jobs[at].submitted_ms
            if at < len(jobs) and jobs[at].submitted_ms < first:
                first = jobs[at].submitted_ms
            again_ms = self.scheduler.look_again_ms()
            if again_ms is not None and again_ms < first:
                first = max(self.now_ms + step, again_ms)
            self.now_ms = now = -(-first // step) * step
            while heap and heap[0][0] <= now:
                _, kind, _, starts, run = heappop(heap)
                # The event is out of date if the job was preempted or started again meanwhile.
                if run.job.id in self.running and run.starts == starts:
                    if kind == _ENDS:
                        self._end(run)
                    else:
                        self._leave(run)
            while at < len(jobs) and jobs[at].submitted_ms <= now:
                self._submit(jobs[at])
                at += 1
            self._decide()
            if self._to_estimate:
                self._estimate()
        self.tally.close(self.now_ms, self.waiting.values())
        return self.tally

    def _submit(self, job: TraceJob) -> None:
        asks = _asks(job.sizes(self.node_gpus))
        gang = Gang(
            job.id, asks, job.virtual_cluster, job.priority, job.submitted_ms, job.user, job.id, job.sku_type,
            is_interruptible=self.rules.is_interruptible or job.virtual_cluster in self.rules.interruptible,
            checkpoint_every_ms=self.rules.checkpoint_ms,
        )  # fmt: skip
        refused = self.scheduler.refusal(gang)
        message = refused.message if refused is not None else None
        if message is None:
            try:
                self.scheduler.add(gang)
            except Refused as error:
                message = error.message
        if message is not None:
            self.tally.refuse(job, message)
            return
        self.waiting[job.id] = run = Run(job, gang, job.run_ms)
        self.tally.queue(run.job, self.now_ms)
        self._submitted += 1
        if self.rules.estimate_every and self._submitted % self.rules.estimate_every == 0:
            self._to_estimate.append(job.id)

    def _estimate(self) -> None:
        """Let the scheduler estimate when these jobs start; it compares that with when they do."""
        for name in self._to_estimate:
            if name in self.waiting:
                self.scheduler.why(name)
        self._to_estimate.clear()

    def _decide(self) -> None:
        """Carry out decisions until the scheduler has none left at this time."""
        decisions = self.scheduler.decide(self.now_ms, DECISIONS_MAX)
        while decisions:
            self.decisions += len(decisions)
            is_changed = False
            for decision in decisions:
                if isinstance(decision, Place):
                    self.scheduler.commit(decision.gang)
                    self._start(decision)
                else:
                    is_changed |= self._send_away(decision)
            decisions = self.scheduler.decide(self.now_ms, DECISIONS_MAX) if is_changed else ()

    def _start(self, place: Place) -> None:
        run = self.waiting.pop(place.gang)
        run.began_ms = self.now_ms
        run.starts += 1
        run.has_notice = False
        run.nodes = tuple([(spot.node, ask.gpus) for spot, ask in zip(place.spots, run.gang.asks, strict=True)])
        self.running[run.job.id] = run
        self.tally.start(run.job, run.nodes, self.now_ms, is_first=run.starts == 1)
        self._plan(self.now_ms + run.left_ms, _ENDS, run)

    def _plan(self, at_ms: int, kind: int, run: Run) -> None:
        # The number keeps events at equal times in the order in which they were planned, and runs from being compared.
        self._planned += 1
        heappush(self._heap, (at_ms, kind, self._planned, run.starts, run))

    def _end(self, run: Run) -> None:
        del self.running[run.job.id]
        self.scheduler.release(run.job.id)
        self.tally.stop(run.job, run.nodes, self.now_ms)
        self.tally.finish(run.job, self.now_ms)

    def _send_away(self, decision: Preempt) -> bool:
        """Preempt the victims; return whether any of them left at once."""
        has_left = False
        for name in decision.victims:
            run = self.running.get(name)
            if run is None or run.has_notice:
                continue
            run.has_notice, run.is_moved = True, name in decision.moved
            if self.rules.grace_ms:
                self._plan(self.now_ms + self.rules.grace_ms, _LEAVES, run)
            else:
                self._leave(run)
                has_left = True
        return has_left

    def _leave(self, run: Run) -> None:
        """Remove a preempted job from its GPUs; the rest of its work waits again."""
        del self.running[run.job.id]
        self.scheduler.release(run.job.id)
        did_ms = self.now_ms - run.began_ms
        every = self.rules.checkpoint_ms
        saved_ms = did_ms // every * every if every else 0
        run.left_ms = max(0, run.left_ms - saved_ms)
        self.tally.stop(run.job, run.nodes, self.now_ms)
        self.tally.preempt(run.job, did_ms - saved_ms, is_moved=run.is_moved)
        if self.rules.moves_jobs:
            run.gang = replace(run.gang, attempt=run.starts)
        self.scheduler.add(run.gang)
        self.waiting[run.job.id] = run
        self.tally.queue(run.job, self.now_ms)

"""Tries what would happen if gangs left and others started, on the real records, and undoes everything afterwards.

That is faster than copying a large cluster, and it runs the very code that decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from openpai.scheduler.cells.cluster import Cluster
from openpai.scheduler.cells.decision import Proposal, decide
from openpai.scheduler.cells.feasibility import broken_rule
from openpai.scheduler.cells.journal import Journal, Part
from openpai.scheduler.cells.model import GangRecord, GangRequest, State


@dataclass(slots=True)
class _Step:
    """One change, and how to undo it."""

    undo: Callable[[], None]
    journal: Journal
    started: GangRecord | None = None
    emptied: list[tuple[GangRecord, list[Part | None]]] = field(default_factory=list)

    def empty(self, record: GangRecord) -> None:
        """Remove a gang's parts from its record, because the chains no longer hold them."""
        self.emptied.append((record, record.parts))
        record.parts = [None] * len(record.parts)


class Trial:
    """The state if some gangs left and others started. Close it, or use it as a context, to undo everything."""

    def __init__(self, cluster: Cluster) -> None:
        """Begin with the records as they are."""
        self.proposals: list[Proposal] = []
        self._cluster = cluster
        self._steps: list[_Step] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def mark(self) -> int:
        """Return a position in the trial, for `back_to`."""
        return len(self._steps)

    def leave(self, gang: str) -> None:
        """Remove a gang from all its devices; an unknown gang changes nothing."""
        record = self._cluster.gangs.get(gang)
        if record is None:
            return
        journal = Journal()
        for part in record.parts:
            if part is not None:
                journal.drop(gang, record.request.priority, part)
        step = _Step(journal.undo, journal)
        step.empty(record)
        self._steps.append(step)

    def start(self, request: GangRequest, now_ms: int | None) -> Proposal | None:
        """Start a gang if there is a place for it, preempting what its guarantee allows."""
        proposal = None if broken_rule(self._cluster, request) else decide(self._cluster, request, now_ms)
        if proposal is None:
            return None
        proposal.name_spots()
        # A gang whose victims have not left has its devices reserved; they are still the victims' to run on.
        state = State.PREEMPTING if proposal.victims else State.ALLOCATED
        record = GangRecord(request, list(proposal.parts), state, spots=proposal.spots)
        step = _Step(proposal.undo, proposal.journal, record)
        for name in sorted(proposal.displaced):
            step.empty(self._cluster.gangs[name])
        self._steps.append(step)
        self._remember(record)
        self.proposals.append(proposal)
        return proposal

    def start_all(self, requests: Iterable[GangRequest]) -> bool:
        """Start several gangs; False, without a trace, if one of them has no place."""
        mark = self.mark
        for request in requests:
            if self.start(request, None) is None:
                self.back_to(mark)
                return False
        return True

    def suspend(self) -> None:
        """Undo everything until `resume`."""
        for step in reversed(self._steps):
            self._forget(step)
            step.journal.suspend()

    def resume(self) -> None:
        """Apply everything again."""
        for step in self._steps:
            step.journal.resume()
            for record, _ in step.emptied:
                record.parts = [None] * len(record.parts)
            if step.started is not None:
                self._remember(step.started)

    def keep(self) -> None:
        """Leave the changes in place, for the caller that commits the proposals."""
        while self._steps:
            self._forget(self._steps.pop())

    def back_to(self, mark: int) -> None:
        """Undo everything since `mark`."""
        while len(self._steps) > mark:
            step = self._steps.pop()
            self._forget(step)
            step.undo()

    def close(self) -> None:
        """Undo everything."""
        self.back_to(0)

    def _remember(self, record: GangRecord) -> None:
        request = record.request
        self._cluster.gangs[request.id] = record
        self._cluster.gangs_of.setdefault(request.virtual_cluster, {})[request.id] = record

    def _forget(self, step: _Step) -> None:
        if step.started is not None:
            request = step.started.request
            del self._cluster.gangs[request.id]
            del self._cluster.gangs_of[request.virtual_cluster][request.id]
        for record, parts in reversed(step.emptied):
            record.parts = parts

"""Lets gangs leave and start on the real books to see what would become of it, and takes everything back afterwards.

That is quicker than any copy of a large cluster, and it asks the very code that will decide when the time comes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from openpai.scheduler.hived.cluster import Cluster
from openpai.scheduler.hived.deciding import Trial, decide
from openpai.scheduler.hived.dooming import release_doomed, settle_doomed
from openpai.scheduler.hived.journal import Journal, Part
from openpai.scheduler.hived.model import GangRecord, GangRequest
from openpai.scheduler.model import Spot


class Rehearsal:
    """What would be if some gangs left and others started. Close it, or use it as a context, to take it all back."""

    def __init__(self, cluster: Cluster, is_free_of_doom: bool = True) -> None:
        """Begin. Bad cells that were bound early may go to others unless `is_free_of_doom` is False."""
        self.trials: list[Trial] = []
        self._cluster = cluster
        self._undo: list[Callable[[], None]] = []
        self._started: list[GangRecord] = []
        self._emptied: list[tuple[GangRecord, list[Part | None]]] = []
        self._doomed = [chain for chain in cluster.chains.values() if chain.bad_boxes] if is_free_of_doom else []
        for chain in self._doomed:
            release_doomed(chain)

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def leave(self, gang: str) -> None:
        """Let a gang leave all it has; one that is not there changes nothing."""
        record = self._cluster.gangs.get(gang)
        if record is None:
            return
        journal = Journal()
        for part in record.parts:
            if part is not None:
                journal.drop(gang, record.request.priority, part)
        self._undo.append(journal.undo)
        self._empty(record)

    def start(self, request: GangRequest, now_ms: int | None) -> Trial | None:
        """Let a gang start if there is a place for it, at whatever cost its right allows."""
        trial = decide(self._cluster, request, now_ms)
        if trial is None:
            return None
        trial.spots = tuple([Spot(part.box.name, part.box.numbers(part.mask)) for part in trial.parts])
        self._undo.append(trial.undo)
        for name in sorted(trial.displaced):
            self._empty(self._cluster.gangs[name])
        record = GangRecord(request, list(trial.parts), spots=trial.spots)
        self._started.append(record)
        self._cluster.gangs[request.id] = record
        self._cluster.gangs_of.setdefault(request.virtual_cluster, {})[request.id] = record
        self.trials.append(trial)
        return trial

    def keep(self) -> None:
        """Leave in the books what started, for whoever commits to the trials."""
        self._forget_started()
        self._undo.clear()
        self._doomed = []

    def close(self) -> None:
        """Take everything back."""
        self._forget_started()
        while self._undo:
            self._undo.pop()()
        for chain in self._doomed:
            settle_doomed(chain)
        self._doomed = []

    def _empty(self, record: GangRecord) -> None:
        self._emptied.append((record, record.parts))
        record.parts = [None] * len(record.parts)

    def _forget_started(self) -> None:
        for record in self._started:
            del self._cluster.gangs[record.request.id]
            del self._cluster.gangs_of[record.request.virtual_cluster][record.request.id]
        for record, parts in reversed(self._emptied):
            record.parts = parts
        self._started, self._emptied = [], []

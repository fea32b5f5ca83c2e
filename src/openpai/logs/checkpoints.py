"""Removes the checkpoint directories of jobs that are archived, deleted, or over for a long time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from pathlib import Path

from openpai.lifecycle.model import JOB_FINAL
from openpai.logs.removing import remove_leftovers, remove_logs
from openpai.ports.clock import Clock
from openpai.ports.queries import JobQueries, JobRow


class KeptCheckpoints:
    """The checkpoint directories below `root`, one for each job; `kept_ms` after the end of its job one is removed."""

    def __init__(self, root: Path, jobs: JobQueries, clock: Clock, kept_ms: int) -> None:
        """`kept_ms` of 0 keeps them until their job is archived or deleted."""
        self._root = root
        self._jobs = jobs
        self._clock = clock
        self._kept_ms = kept_ms

    def remove(self, jobs: Collection[str]) -> None:
        """Remove the checkpoints of jobs. Blocks."""
        for job in jobs:
            remove_logs(f"{self._root}/{job}")

    async def expire(self) -> int:
        """Remove what is no longer kept; return of how many jobs."""
        gone = []
        for name in await asyncio.to_thread(self._names):
            row = await self._jobs.job_of_id(name)
            # A job that is not known belongs to another database, whose server may have shared this directory.
            if row is not None and self._is_over(row):
                gone.append(name)
        await asyncio.to_thread(self.remove, gone)
        return len(gone)

    def _is_over(self, row: JobRow) -> bool:
        if row.phase not in JOB_FINAL:
            return False
        age_ms = self._clock.now_ms() - (row.ended_at_ms or 0)
        return row.archived_at_ms is not None or (self._kept_ms > 0 and age_ms > self._kept_ms)

    def _names(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            remove_leftovers(self._root)
            return sorted(path.name for path in self._root.iterdir() if not path.name.startswith("."))
        return []
